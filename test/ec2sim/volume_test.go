package ec2sim_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// "Amazon EBS volume types" (EBS user guide) and CreateVolume.
func TestVolumeTypes(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	key := must(w.AddKey(w.DefaultScope(region), "alias/app"))(t)
	zone := str(region + "a")
	for name, c := range map[string]struct {
		in               ec2.CreateVolumeInput
		iops, throughput int32
		code             string
	}{
		"gp2 of 80 GiB":     {ec2.CreateVolumeInput{Size: aws.Int32(80), VolumeType: "gp2"}, 240, 0, ""},
		"gp2 of 20 GiB":     {ec2.CreateVolumeInput{Size: aws.Int32(20)}, 100, 0, ""},
		"gp3":               {ec2.CreateVolumeInput{Size: aws.Int32(20), VolumeType: "gp3"}, 3000, 125, ""},
		"gp3 with more":     {ec2.CreateVolumeInput{Size: aws.Int32(20), VolumeType: "gp3", Iops: aws.Int32(4000), Throughput: aws.Int32(250)}, 4000, 250, ""},
		"gp2 with iops":     {ec2.CreateVolumeInput{Size: aws.Int32(20), VolumeType: "gp2", Iops: aws.Int32(400)}, 0, 0, "InvalidParameterCombination"},
		"io1 without iops":  {ec2.CreateVolumeInput{Size: aws.Int32(20), VolumeType: "io1"}, 0, 0, "MissingParameter"},
		"key, unencrypted":  {ec2.CreateVolumeInput{Size: aws.Int32(20), KmsKeyId: &key}, 0, 0, "InvalidParameterDependency"},
		"encrypted, a key":  {ec2.CreateVolumeInput{Size: aws.Int32(20), Encrypted: aws.Bool(true), KmsKeyId: str("alias/app")}, 100, 0, ""},
		"no size":           {ec2.CreateVolumeInput{}, 0, 0, "MissingParameter"},
		"io2 with its iops": {ec2.CreateVolumeInput{Size: aws.Int32(20), VolumeType: "io2", Iops: aws.Int32(500)}, 500, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.AvailabilityZone = zone
			v, err := w.ec2.CreateVolume(t.Context(), &c.in)
			if c.code != "" {
				wantCode(t, err, c.code, 400)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if aws.ToInt32(v.Iops) != c.iops || aws.ToInt32(v.Throughput) != c.throughput || v.State != "creating" {
				t.Errorf("%d iops and %d MiB/s, %s; want %d and %d", aws.ToInt32(v.Iops), aws.ToInt32(v.Throughput), v.State, c.iops, c.throughput)
			}
			if c.in.KmsKeyId != nil && *v.KmsKeyId != key {
				t.Errorf("key %s, want %s", *v.KmsKeyId, key)
			}
		})
	}
	keys := kms.NewFromConfig(w.config())
	aliases := must(keys.ListAliases(t.Context(), &kms.ListAliasesInput{}))(t).Aliases
	if len(aliases) != 2 || *aliases[1].AliasName != "alias/app" {
		t.Errorf("aliases %+v", aliases)
	}
	if got := must(keys.DescribeKey(t.Context(), &kms.DescribeKeyInput{KeyId: str("alias/app")}))(t); *got.KeyMetadata.Arn != key {
		t.Errorf("key %s, want %s", *got.KeyMetadata.Arn, key)
	}
	_, err := keys.DescribeKey(t.Context(), &kms.DescribeKeyInput{KeyId: str("alias/none")})
	wantCode(t, err, "NotFoundException", 400)
}

// AttachVolume, DetachVolume, and DeleteOnTermination (EC2 API reference).
func TestVolumeAttachments(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	i := w.run(t, n)
	v := must(w.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: i.Placement.AvailabilityZone, Size: aws.Int32(10)}))(t).VolumeId
	attach := &ec2.AttachVolumeInput{VolumeId: v, InstanceId: i.InstanceId, Device: str("/dev/sdf")}
	_, err := w.ec2.AttachVolume(ctx, attach)
	wantCode(t, err, "IncorrectState", 400)
	w.pass(time.Minute)
	if out := must(w.ec2.AttachVolume(ctx, attach))(t); out.State != "attaching" {
		t.Errorf("attachment is %s", out.State)
	}
	_, err = w.ec2.AttachVolume(ctx, attach)
	wantCode(t, err, "VolumeInUse", 400)
	w.pass(time.Minute)
	devices := w.instance(t, *i.InstanceId).BlockDeviceMappings
	if len(devices) != 2 || *devices[0].DeviceName != "/dev/sda1" || !*devices[0].Ebs.DeleteOnTermination || *devices[1].Ebs.DeleteOnTermination || devices[1].Ebs.Status != "attached" {
		t.Errorf("devices %+v", devices)
	}
	_, err = w.ec2.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: devices[0].Ebs.VolumeId})
	wantCode(t, err, "OperationNotPermitted", 400)
	_, err = w.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: v})
	wantCode(t, err, "VolumeInUse", 400)
	must(w.ec2.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: v}))(t)
	w.pass(time.Minute)
	if got := must(w.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{*v}}))(t).Volumes[0]; got.State != "available" || len(got.Attachments) != 0 {
		t.Errorf("a detached volume is %s", got.State)
	}
	must(w.ec2.AttachVolume(ctx, attach))(t)
	must(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
	w.pass(time.Minute)
	left := must(w.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{}))(t).Volumes
	if len(left) != 1 || *left[0].VolumeId != *v || left[0].State != "available" {
		t.Errorf("volumes left %+v, want the data volume only", left)
	}
	must(w.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: v}))(t)
}

// ModifyVolume (EC2 API reference) and its requirements (EBS user guide).
func TestModifyVolume(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	ctx := t.Context()
	v := must(w.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: str(region + "a"), Size: aws.Int32(10), VolumeType: "gp3"}))(t).VolumeId
	modify := func(in ec2.ModifyVolumeInput) error { in.VolumeId = v; return second(w.ec2.ModifyVolume(ctx, &in)) }
	wantCode(t, modify(ec2.ModifyVolumeInput{Size: aws.Int32(5)}), "InvalidParameterValue", 400)
	if err := modify(ec2.ModifyVolumeInput{Size: aws.Int32(20), Iops: aws.Int32(4000)}); err != nil {
		t.Fatal(err)
	}
	var got []string
	see := func() {
		m := must(w.ec2.DescribeVolumesModifications(ctx, &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{*v}}))(t).VolumesModifications[0]
		size := must(w.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{*v}}))(t).Volumes[0].Size
		got = append(got, string(m.ModificationState)+" "+map[int32]string{10: "10", 20: "20"}[*size])
	}
	see()
	wantCode(t, modify(ec2.ModifyVolumeInput{Size: aws.Int32(30)}), "IncorrectModificationState", 400)
	w.pass(10 * time.Second)
	see()
	w.pass(10 * time.Minute)
	see()
	if diff := cmp.Diff([]string{"modifying 10", "optimizing 20", "completed 20"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantCode(t, modify(ec2.ModifyVolumeInput{Size: aws.Int32(30)}), "VolumeModificationRateExceeded", 400)
	w.pass(6 * time.Hour)
	if err := modify(ec2.ModifyVolumeInput{Size: aws.Int32(30)}); err != nil {
		t.Error(err)
	}
}

// RunInstances' block device mappings join the image's by device name.
func TestLaunchDevices(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	image := must(w.ec2.RegisterImage(ctx, &ec2.RegisterImageInput{Name: str("xvda"), RootDeviceName: str("/dev/xvda"), Architecture: "x86_64", BlockDeviceMappings: []types.BlockDeviceMapping{
		{DeviceName: str("/dev/xvda"), Ebs: &types.EbsBlockDevice{SnapshotId: str("snap-1"), VolumeSize: aws.Int32(30), VolumeType: "gp3"}},
	}}))(t).ImageId
	n.image = *image
	root := func(size int32) func(*ec2.RunInstancesInput) {
		return func(in *ec2.RunInstancesInput) {
			in.BlockDeviceMappings = []types.BlockDeviceMapping{{DeviceName: str("/dev/xvda"), Ebs: &types.EbsBlockDevice{VolumeSize: &size}}, {DeviceName: str("/dev/xvdb"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(5)}}}
		}
	}
	i := w.run(t, n, root(50))
	if *i.RootDeviceName != "/dev/xvda" || len(i.BlockDeviceMappings) != 2 {
		t.Errorf("root %s, devices %+v", *i.RootDeviceName, i.BlockDeviceMappings)
	}
	in := &ec2.RunInstancesInput{ImageId: image, SubnetId: &n.subnet, MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}
	root(20)(in)
	_, err := w.ec2.RunInstances(ctx, in)
	wantCode(t, err, "InvalidBlockDeviceMapping", 400)
	found := must(w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: []types.Filter{{Name: str("name"), Values: []string{"xv*"}}}}))(t).Images
	if len(found) != 1 || *found[0].RootDeviceName != "/dev/xvda" || *found[0].BlockDeviceMappings[0].Ebs.VolumeSize != 30 {
		t.Errorf("images %+v", found)
	}
	must(w.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: image}))(t)
	if got := w.instance(t, *i.InstanceId); *got.ImageId != *image {
		t.Errorf("image %s after it is deregistered", *got.ImageId)
	}
}
