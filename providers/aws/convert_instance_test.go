package aws

import (
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

// fieldsOf gives a resource's values, for comparing.
func fieldsOf(r *providers.Resource) map[string]any {
	out := map[string]any{}
	for path, f := range r.Fields.All() {
		out[path] = f.Value.Any()
	}
	return out
}

// running is an instance with what EC2 always gives.
func running(mods ...func(*ec2types.Instance)) *ec2types.Instance {
	i := &ec2types.Instance{
		InstanceId: ptr("i-1"), InstanceType: ec2types.InstanceTypeM5Large, ImageId: ptr("ami-1"),
		State:    &ec2types.InstanceState{Name: ec2types.InstanceStateNameRunning},
		SubnetId: ptr("subnet-1"), VpcId: ptr("vpc-1"), RootDeviceName: ptr("/dev/sda1"), RootDeviceType: ec2types.DeviceTypeEbs,
		Placement:  &ec2types.Placement{AvailabilityZone: ptr("eu-central-1a"), Tenancy: ec2types.TenancyDefault},
		LaunchTime: ptr(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))),
	}
	for _, mod := range mods {
		mod(i)
	}
	return i
}

func TestInstance(t *testing.T) {
	got := newConverter().instance(running(func(i *ec2types.Instance) {
		i.Tags = []ec2types.Tag{{Key: ptr("Name"), Value: ptr("c1-md-0")}, {Key: ptr("a/b~c"), Value: ptr("")}, {Key: ptr("kubernetes.io/cluster/c1"), Value: ptr("owned")}, {Key: ptr("sigs.k8s.io/cluster-api-provider-aws/cluster/c1"), Value: ptr("owned")}}
		i.PublicIpAddress, i.KeyName = ptr("192.0.2.1"), ptr("ops")
		i.InstanceLifecycle = ec2types.InstanceLifecycleTypeSpot
		i.MetadataOptions = &ec2types.InstanceMetadataOptionsResponse{HttpTokens: "required", HttpEndpoint: "enabled", InstanceMetadataTags: "disabled", HttpPutResponseHopLimit: ptr[int32](2)}
		i.Placement.GroupName, i.Placement.PartitionNumber = ptr("pg"), ptr[int32](3)
		i.CapacityReservationId = ptr("cr-1")
		i.CpuOptions = &ec2types.CpuOptions{AmdSevSnp: "enabled"}
	}))
	want := map[string]any{
		"/state": "running", "/instanceType": "m5.large", "/imageId": "ami-1", "/securityGroups": []string(nil),
		"/subnetId": "subnet-1", "/vpcId": "vpc-1", "/availabilityZone": "eu-central-1a", "/publicIp": true, "/spot": true, "/tenancy": "default",
		"/keyName": "ops", "/rootDeviceName": "/dev/sda1", "/launchTime": "2026-01-02T02:04:05Z", "/placementGroup": "pg", "/placementGroupPartition": int64(3),
		"/capacityReservationId": "cr-1", "/cpuOptions/amdSevSnp": "enabled",
		"/metadataOptions/httpTokens": "required", "/metadataOptions/httpEndpoint": "enabled", "/metadataOptions/instanceMetadataTags": "disabled", "/metadataOptions/httpPutResponseHopLimit": int64(2),
		"/tags/Name": "c1-md-0", "/tags/a~1b~0c": "", "/tags/kubernetes.io~1cluster~1c1": "owned", "/tags/sigs.k8s.io~1cluster-api-provider-aws~1cluster~1c1": "owned",
	}
	if diff := cmp.Diff(want, fieldsOf(got.Resource)); diff != "" {
		t.Error(diff)
	}
	if got.Name != "c1-md-0" || !cmp.Equal(got.ClusterTags, []string{"c1"}) || got.Gone != "" || got.ForeignTo != "" {
		t.Errorf("got %+v", got.Resource)
	}
	for _, path := range []string{"/tags/absent", "/iamInstanceProfile", "/keyName"} {
		if !got.Closes(path) {
			t.Errorf("%s is open: its absence would go unnoticed", path)
		}
	}
	for _, path := range []string{"/rootVolume/size", "/loadBalancers/x", "/cpuOptions/nestedVirtualization", "/metadataOptions/httpTokens"} {
		if got.Closes(path) {
			t.Errorf("%s is closed before it was read", path)
		}
	}
}

// C10: the groups are the primary interface's. A CNI's interfaces carry other
// groups, and the instance's own list may mix them.
func TestC10SeenPrimaryInterface(t *testing.T) {
	eni := func(index, card int32, groups ...string) ec2types.InstanceNetworkInterface {
		n := ec2types.InstanceNetworkInterface{Attachment: &ec2types.InstanceNetworkInterfaceAttachment{DeviceIndex: &index, NetworkCardIndex: &card}}
		for _, g := range groups {
			n.Groups = append(n.Groups, ec2types.GroupIdentifier{GroupId: ptr(g)})
		}
		return n
	}
	whole := []ec2types.GroupIdentifier{{GroupId: ptr("sg-old")}, {GroupId: ptr("sg-new")}}
	for name, tc := range map[string]struct {
		interfaces []ec2types.InstanceNetworkInterface
		want       []string
	}{
		"primary first":            {[]ec2types.InstanceNetworkInterface{eni(0, 0, "sg-new"), eni(1, 0, "sg-old")}, []string{"sg-new"}},
		"primary last":             {[]ec2types.InstanceNetworkInterface{eni(1, 0, "sg-old"), eni(0, 0, "sg-new")}, []string{"sg-new"}},
		"another card's index 0":   {[]ec2types.InstanceNetworkInterface{eni(0, 1, "sg-old"), eni(0, 0, "sg-new")}, []string{"sg-new"}},
		"one detached since":       {[]ec2types.InstanceNetworkInterface{eni(0, 0, "sg-gone", "sg-new")}, []string{"sg-new"}},
		"no interface in the list": {nil, []string{"sg-new", "sg-old"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := newConverter().instance(running(func(i *ec2types.Instance) { i.NetworkInterfaces, i.SecurityGroups = tc.interfaces, whole }))
			if diff := cmp.Diff(tc.want, got.Fields.Get("/securityGroups").Value.Elements()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// C15 and C19: tags under aws: stay as seen without making the resource
// anyone's; keys keep their case.
func TestC15SeenTags(t *testing.T) {
	got := newConverter().instance(running(func(i *ec2types.Instance) {
		i.Tags = []ec2types.Tag{
			{Key: ptr("aws:backup:default"), Value: ptr("x")}, {Key: ptr("owner"), Value: ptr("a")}, {Key: ptr("Owner"), Value: ptr("b")},
			{Key: ptr("kubernetes.io/cluster/other"), Value: ptr("shared")},
		}
	}))
	if got.Fields.Get("/tags/owner").Value.Text() != "a" || got.Fields.Get("/tags/Owner").Value.Text() != "b" {
		t.Error("keys that differ in case are one")
	}
	if len(got.ClusterTags) != 0 || got.ForeignTo != "" {
		t.Errorf("owned by %v, foreign to %q: want neither", got.ClusterTags, got.ForeignTo)
	}
}

// C26: a profile is named by the last segment of its ARN, in any partition.
func TestC26SeenProfile(t *testing.T) {
	for arn, want := range map[string]string{
		"arn:aws:iam::123456789012:instance-profile/nodes":             "nodes",
		"arn:aws-us-gov:iam::123456789012:instance-profile/team/nodes": "nodes",
		"arn:aws-cn:iam::123456789012:instance-profile/nodes":          "nodes",
	} {
		got := newConverter().instance(running(func(i *ec2types.Instance) {
			i.IamInstanceProfile = &ec2types.IamInstanceProfile{Arn: &arn, Id: ptr("AIPA")}
		}))
		if got.Fields.Get("/iamInstanceProfile").Value.Text() != want || got.Fields.Get("/iamInstanceProfileArn").Value.Text() != arn {
			t.Errorf("%s gives %v", arn, fieldsOf(got.Resource))
		}
	}
}

// C58: what was stopped keeps its fields and says by whom; what was terminated
// has no fields left to differ in.
func TestC58SeenStateReasons(t *testing.T) {
	for name, tc := range map[string]struct {
		state  ec2types.InstanceStateName
		reason string
		gone   string
	}{
		"stopped by a person":    {"stopped", "Client.UserInitiatedShutdown", ""},
		"stopped by the cloud":   {"stopped", "Server.ScheduledStop", ""},
		"reclaimed":              {"terminated", "Server.SpotInstanceTermination", "terminated: Server.SpotInstanceTermination"},
		"terminated by a person": {"terminated", "Client.UserInitiatedShutdown", "terminated: Client.UserInitiatedShutdown"},
		"on its way out":         {"shutting-down", "Client.InstanceInitiatedShutdown", "terminated: Client.InstanceInitiatedShutdown"},
		"without a reason":       {"terminated", "", "terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			got := newConverter().instance(running(func(i *ec2types.Instance) {
				i.State.Name = tc.state
				i.Tags = []ec2types.Tag{{Key: ptr("Name"), Value: ptr("m")}, {Key: ptr("kubernetes.io/cluster/c1"), Value: ptr("owned")}}
				if tc.reason != "" {
					i.StateReason = &ec2types.StateReason{Code: &tc.reason}
				}
			}))
			if got.Gone != tc.gone || got.Name != "m" {
				t.Errorf("gone is %q of %q, want %q", got.Gone, got.Name, tc.gone)
			}
			if got.Fields.Get("/state").Value.Text() != string(tc.state) || got.Fields.Get("/stateReason").Value.Text() != tc.reason {
				t.Errorf("fields %v", fieldsOf(got.Resource))
			}
			if _, has := got.Fields.Lookup("/instanceType"); has == (tc.gone != "") {
				t.Errorf("an instance that is gone: %v, and has fields: %v", tc.gone != "", has)
			}
			if tc.gone != "" && (len(got.ClusterTags) > 0 || got.Closes("/tags/x")) {
				t.Errorf("what is gone is an orphan or has closed fields: %+v", got.Resource)
			}
		})
	}
}

// C35's kind: an answer without a state is an incomplete observation.
func TestC35SeenInstanceWithoutState(t *testing.T) {
	for name, state := range map[string]*ec2types.InstanceState{"none": nil, "empty": {}} {
		got := newConverter().instance(running(func(i *ec2types.Instance) { i.State = state }))
		if got.Unknown == "" || got.Gone != "" {
			t.Errorf("%s: unknown %q, gone %q", name, got.Unknown, got.Gone)
		}
	}
}

// C59: EC2 lists events for a week after they are over.
func TestC59SeenScheduledEvents(t *testing.T) {
	event := func(id, code, description string) ec2types.InstanceStatusEvent {
		return ec2types.InstanceStatusEvent{InstanceEventId: &id, Code: ec2types.EventCode(code), Description: &description}
	}
	got := scheduledEvents([]ec2types.InstanceStatusEvent{
		event("e-3", "instance-retirement", "[Completed] The instance is running on degraded hardware"),
		event("e-2", "system-reboot", "[Canceled] scheduled reboot"),
		event("e-1", "instance-retirement", "The instance is running on degraded hardware"),
		event("e-0", "instance-stop", "stopping; was [Completed] before"),
	})
	if diff := cmp.Diff([]string{"instance-retirement e-1", "instance-stop e-0"}, got); diff != "" {
		t.Error(diff)
	}
}
