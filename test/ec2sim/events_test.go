package ec2sim_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

type trailEvent struct {
	Source     string
	DetailType string `json:"detail-type"`
	Account    string
	Region     string
	Detail     map[string]any
}

// Events say what happened, whatever the caller was answered, and nothing that
// CloudTrail would leave out.
func TestEvents(t *testing.T) {
	var bodies []string
	w := newWorld(t, ec2sim.Options{OnEvent: func(e ec2sim.Event) { bodies = append(bodies, e.Body) }})
	take := func() (out []trailEvent) {
		for _, body := range bodies {
			var e trailEvent
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatal(err)
			}
			if e.Account != "123456789012" || e.Region != region {
				t.Errorf("an event of %s in %s", e.Account, e.Region)
			}
			out = append(out, e)
		}
		bodies = nil
		return out
	}
	ctx := t.Context()
	vpc, err := w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	events := take()
	if len(events) != 1 || events[0].Source != "aws.ec2" || events[0].Detail["eventName"] != "CreateVpc" {
		t.Fatalf("events %+v", events)
	}
	made := events[0].Detail["responseElements"].(map[string]any)["vpc"].(map[string]any)
	if made["vpcId"] != *vpc.Vpc.VpcId {
		t.Errorf("the record says %v", made)
	}

	if _, err := w.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{}); err != nil {
		t.Fatal(err)
	}
	if events := take(); len(events) != 0 {
		t.Errorf("a read has events: %+v", events)
	}

	_, _ = w.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: vpc.Vpc.VpcId, DryRun: aws.Bool(true)})
	if events := take(); len(events) != 1 || events[0].Detail["errorCode"] != "Client.DryRunOperation" || events[0].Detail["responseElements"] != nil {
		t.Errorf("a dry run has events %+v", events)
	}

	// A time-out after success: it happened, though the caller cannot know.
	w.InjectFault(ec2sim.Fault{Action: "CreateTags", Kind: ec2sim.FaultError, AfterSuccess: true, Times: 1, Status: 400, Code: "Nonsense"})
	if _, err := w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{*vpc.Vpc.VpcId}, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}); err == nil {
		t.Fatal("the fault did not strike")
	}
	events = take()
	if len(events) != 1 || events[0].Detail["errorCode"] != nil {
		t.Fatalf("events %+v", events)
	}
	request, _ := json.Marshal(events[0].Detail["requestParameters"])
	if want := `{"resourcesSet":{"items":[{"resourceId":"` + *vpc.Vpc.VpcId + `"}]},"tagSet":{"items":[{"key":"a","value":"b"}]}}`; string(request) != want {
		t.Errorf("request %s, want %s", request, want)
	}
	// One before anything happened is no event.
	w.InjectFault(ec2sim.Fault{Action: "CreateTags", Kind: ec2sim.FaultError, Times: 1, Status: 400, Code: "Nonsense"})
	_, _ = w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{*vpc.Vpc.VpcId}, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("c")}}})
	if events := take(); len(events) != 0 {
		t.Errorf("a call that never happened has events: %+v", events)
	}
}

// User data never gets into a record.
func TestEventsLeaveOutUserData(t *testing.T) {
	var all strings.Builder
	w := newWorld(t, ec2sim.Options{OnEvent: func(e ec2sim.Event) { all.WriteString(e.Body) }})
	_, _ = w.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: aws.String("ami-0123456789abcdef0"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), UserData: aws.String("aHVudGVyMg==")})
	if !strings.Contains(all.String(), "RunInstances") || strings.Contains(all.String(), "aHVudGVyMg") {
		t.Errorf("events %s", all.String())
	}
}
