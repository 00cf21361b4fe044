package ec2sim_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// "Instance lifecycle" (EC2 user guide) and StateReason (API reference).
func TestLifecycle(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	id := *w.run(t, n).InstanceId
	seen := func() string {
		i := w.instance(t, id)
		text := string(i.State.Name)
		if i.StateReason != nil {
			text += " " + *i.StateReason.Code
		}
		return text
	}
	var got []string
	step := func(d time.Duration) { w.pass(d); got = append(got, seen()) }
	step(0)
	step(19 * time.Second)
	step(time.Second)
	must(w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
	step(0)
	step(30 * time.Second)
	must(w.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}}))(t)
	step(0)
	step(time.Minute)
	must(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	step(0)
	step(30 * time.Second)
	step(59 * time.Minute)
	const pending = "pending pending"
	want := []string{
		pending, pending, "running",
		"stopping Client.UserInitiatedShutdown", "stopped Client.UserInitiatedShutdown",
		pending, "running",
		"shutting-down Client.UserInitiatedShutdown", "terminated Client.UserInitiatedShutdown", "terminated Client.UserInitiatedShutdown",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	w.pass(2 * time.Minute)
	_, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	wantCode(t, err, "InvalidInstanceID.NotFound", 400)
}

// RunInstances and Instance (API reference): what is asked for is what is
// described.
func TestRunInstances(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	i := w.run(t, n, func(in *ec2.RunInstancesInput) {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: "instance", Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("a <b>&\"c\"")}}}}
		in.MetadataOptions = &types.InstanceMetadataOptionsRequest{HttpTokens: "required", HttpPutResponseHopLimit: aws.Int32(2)}
		in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: aws.String("/dev/sda1"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(80), VolumeType: "gp3", Encrypted: aws.Bool(true)}}}
	})
	got := w.instance(t, *i.InstanceId)
	if got := *got.Tags[0].Value; got != `a <b>&"c"` {
		t.Errorf("tag value %q", got)
	}
	if got.MetadataOptions.HttpTokens != "required" || *got.MetadataOptions.HttpPutResponseHopLimit != 2 {
		t.Errorf("metadata options %+v", got.MetadataOptions)
	}
	if len(got.SecurityGroups) != 1 || *got.SecurityGroups[0].GroupId != n.group || *got.SecurityGroups[0].GroupName != "nodes" {
		t.Errorf("groups %+v", got.SecurityGroups)
	}
	volumes := must(w.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: []types.Filter{{Name: aws.String("attachment.instance-id"), Values: []string{*i.InstanceId}}}}))(t)
	v := volumes.Volumes[0]
	if *v.Size != 80 || v.VolumeType != "gp3" || *v.Iops != 3000 || *v.Throughput != 125 || !*v.Encrypted || v.KmsKeyId == nil {
		t.Errorf("volume %+v", v)
	}
}
