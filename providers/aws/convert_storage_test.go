package aws

import (
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

func ebs(device, volume string) ec2types.InstanceBlockDeviceMapping {
	return ec2types.InstanceBlockDeviceMapping{DeviceName: &device, Ebs: &ec2types.EbsInstanceBlockDevice{VolumeId: &volume}}
}

func joined(t *testing.T, in *ec2types.Instance, volumes ...*ec2types.Volume) *providers.Resource {
	t.Helper()
	c := newConverter()
	seen := []seenInstance{c.instance(in)}
	byID := map[string]*providers.Resource{}
	for _, v := range volumes {
		r := c.volume(v)
		byID[r.ID.Name] = r
	}
	c.joinVolumes(seen, byID)
	return seen[0].Resource
}

func disk(id string, size int32) *ec2types.Volume {
	return &ec2types.Volume{VolumeId: &id, Size: &size, VolumeType: "gp3", Iops: ptr[int32](3000), Throughput: ptr[int32](125), Encrypted: ptr(true),
		KmsKeyId: ptr("arn:aws:kms:eu-central-1:123456789012:key/k-1"), Attachments: []ec2types.VolumeAttachment{{InstanceId: ptr("i-1"), State: "attached"}}}
}

// C22: the root device is the one that the instance names, with or without
// /dev/ and whatever the image calls it.
func TestC22SeenRootDevice(t *testing.T) {
	for name, root := range map[string]string{"xvda": "/dev/xvda", "sda1": "/dev/sda1", "nvme": "/dev/nvme0n1", "bare": "xvda"} {
		t.Run(name, func(t *testing.T) {
			device := root
			if name == "bare" {
				device = "/dev/xvda"
			}
			got := joined(t, running(func(i *ec2types.Instance) {
				i.RootDeviceName = &root
				i.BlockDeviceMappings = []ec2types.InstanceBlockDeviceMapping{ebs("/dev/sdb", "vol-2"), ebs(device, "vol-1")}
			}), disk("vol-1", 80), disk("vol-2", 20))
			want := map[string]any{
				"/rootVolume/volumeId": "vol-1", "/rootVolume/size": int64(80), "/rootVolume/type": "gp3", "/rootVolume/iops": int64(3000),
				"/rootVolume/throughput": int64(125), "/rootVolume/encrypted": true, "/rootVolume/kmsKeyId": "k-1",
				"/nonRootVolumes/~1dev~1sdb/volumeId": "vol-2", "/nonRootVolumes/~1dev~1sdb/size": int64(20), "/nonRootVolumes/~1dev~1sdb/type": "gp3",
				"/nonRootVolumes/~1dev~1sdb/iops": int64(3000), "/nonRootVolumes/~1dev~1sdb/throughput": int64(125),
				"/nonRootVolumes/~1dev~1sdb/encrypted": true, "/nonRootVolumes/~1dev~1sdb/kmsKeyId": "k-1",
			}
			seen := fieldsOf(got)
			for path := range seen {
				if _, ok := want[path]; !ok {
					delete(seen, path)
				}
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Error(diff)
			}
			if !got.Closes("/nonRootVolumes/~1dev~1sdc/size") || !got.Closes("/rootVolume/kmsKeyId") {
				t.Error("the disks were read and are not closed")
			}
		})
	}
}

// A volume that only one of the two reads saw leaves the disks open: not read
// is not absent.
func TestVolumeSeenByOneReadOnly(t *testing.T) {
	got := joined(t, running(func(i *ec2types.Instance) {
		i.BlockDeviceMappings = []ec2types.InstanceBlockDeviceMapping{ebs("/dev/sda1", "vol-1"), ebs("/dev/sdb", "vol-new")}
	}), disk("vol-1", 80))
	if got.Closes("/nonRootVolumes/~1dev~1sdb/size") || got.Closes("/rootVolume/kmsKeyId") {
		t.Error("the disks are closed although one was not seen")
	}
	if n, _ := got.Fields.Get("/rootVolume/size").Value.Number(); n != 80 {
		t.Error("the volume that was seen is not there")
	}
}

// An endpoint that gives no throughput has not said what it is: no difference
// may come of it. A detached root is a difference.
func TestDisksThatSayLess(t *testing.T) {
	v := disk("vol-1", 80)
	v.Throughput = ptr[int32](0)
	got := joined(t, running(func(i *ec2types.Instance) {
		i.BlockDeviceMappings = []ec2types.InstanceBlockDeviceMapping{ebs("/dev/sda1", "vol-1")}
	}), v)
	if _, has := got.Fields.Lookup("/rootVolume/throughput"); has || got.Closes("/rootVolume/throughput") {
		t.Error("a throughput of 0 was taken for one")
	}
	if got := joined(t, running()); !got.Closes("/rootVolume/size") {
		t.Error("an EBS root that is detached goes unnoticed")
	}
	if got := joined(t, running(func(i *ec2types.Instance) { i.RootDeviceType = ec2types.DeviceTypeInstanceStore })); got.Closes("/rootVolume/size") {
		t.Error("an instance store lacks a root volume")
	}
}

// A CSI driver grows its volume in place. It is no disk of the spec's, also at
// a device that the spec names: the spec's own is absent there.
func TestPlatformCSIVolumeAtDeclaredDevice(t *testing.T) {
	for _, size := range []int32{20, 500} {
		csi := disk("vol-2", size)
		csi.Tags = []ec2types.Tag{{Key: ptr("ebs.csi.aws.com/cluster"), Value: ptr("true")}}
		got := joined(t, running(func(i *ec2types.Instance) {
			i.BlockDeviceMappings = []ec2types.InstanceBlockDeviceMapping{ebs("/dev/sda1", "vol-1"), ebs("/dev/sdb", "vol-2")}
		}), disk("vol-1", 80), csi)
		for path := range got.Fields.All() {
			if strings.HasPrefix(path, "/nonRootVolumes") {
				t.Errorf("%d GiB: the CSI volume shows as %s", size, path)
			}
		}
		if !got.Closes("/nonRootVolumes/~1dev~1sdb/size") || got.Fields.Get("/rootVolume/size").Value.IsAbsent() {
			t.Errorf("%d GiB: the loss of the declared volume goes unnoticed", size)
		}
	}
}

// An instance with an instance store: the local disks are in no answer of EC2,
// and are neither compared nor absent. A root on one is not compared; EBS
// volumes beside it are.
func TestPlatformInstanceStore(t *testing.T) {
	local := func(i *ec2types.Instance) {
		i.RootDeviceType = ec2types.DeviceTypeInstanceStore
		i.BlockDeviceMappings = []ec2types.InstanceBlockDeviceMapping{ebs("/dev/sdb", "vol-2"), {DeviceName: ptr("/dev/sdc")}}
	}
	got := joined(t, running(local), disk("vol-2", 20))
	if n, _ := got.Fields.Get("/nonRootVolumes/~1dev~1sdb/size").Value.Number(); n != 20 {
		t.Errorf("the EBS volume shows as %v", fieldsOf(got))
	}
	for path, closes := range map[string]bool{
		"/rootVolume/size": false, "/rootVolume/type": false, "/rootVolume/iops": false, "/rootVolume/kmsKeyId": false,
		"/nonRootVolumes/~1dev~1sdf/size": true,
	} {
		if got.Closes(path) != closes {
			t.Errorf("%s is closed: %v", path, !closes)
		}
	}
	// Reclaimed with its host: one finding, whatever was on the disks.
	lost := joined(t, running(local, func(i *ec2types.Instance) {
		i.State.Name, i.StateReason = ec2types.InstanceStateNameTerminated, &ec2types.StateReason{Code: ptr("Server.InternalError")}
	}))
	if lost.Gone != "terminated: Server.InternalError" || lost.Closes("/nonRootVolumes") {
		t.Errorf("lost: %+v", lost)
	}
}

// What is attached is its instance's affair; what is left behind is the
// cluster's, unless a driver owns it.
func TestVolumeOwnership(t *testing.T) {
	owned := ec2types.Tag{Key: ptr("kubernetes.io/cluster/c1"), Value: ptr("owned")}
	for name, tc := range map[string]struct {
		mod      func(*ec2types.Volume)
		clusters []string
		foreign  string
	}{
		"attached": {func(*ec2types.Volume) {}, nil, ""},
		"detached": {func(v *ec2types.Volume) { v.Attachments = nil }, []string{"c1"}, ""},
		"of a CSI driver": {func(v *ec2types.Volume) {
			v.Attachments = nil
			v.Tags = append(v.Tags, ec2types.Tag{Key: ptr("ebs.csi.aws.com/cluster"), Value: ptr("true")})
		}, []string{"c1"}, ownerEBSCSI},
		"of a claim before": {func(v *ec2types.Volume) {
			v.Attachments = nil
			v.Tags = append(v.Tags, ec2types.Tag{Key: ptr("kubernetes.io/created-for/pvc/name"), Value: ptr("data")})
		}, []string{"c1"}, "volume provisioner"},
	} {
		t.Run(name, func(t *testing.T) {
			v := disk("vol-1", 8)
			v.Tags = []ec2types.Tag{owned}
			tc.mod(v)
			got := newConverter().volume(v)
			if !cmp.Equal(got.ClusterTags, tc.clusters) || got.ForeignTo != tc.foreign {
				t.Errorf("clusters %v, foreign to %q", got.ClusterTags, got.ForeignTo)
			}
		})
	}
}

func TestNetworkInterface(t *testing.T) {
	owned := ec2types.Tag{Key: ptr("sigs.k8s.io/cluster-api-provider-aws/cluster/c1"), Value: ptr("owned")}
	for name, tc := range map[string]struct {
		in       ec2types.NetworkInterface
		fields   map[string]any
		clusters []string
		foreign  string
	}{
		"attached": {
			in:     ec2types.NetworkInterface{TagSet: []ec2types.Tag{owned}, InterfaceType: "interface", Attachment: &ec2types.NetworkInterfaceAttachment{InstanceId: ptr("i-1"), DeviceIndex: ptr[int32](0), Status: "attached"}, Groups: []ec2types.GroupIdentifier{{GroupId: ptr("sg-2")}, {GroupId: ptr("sg-1")}}},
			fields: map[string]any{"/instanceId": "i-1", "/deviceIndex": int64(0), "/interfaceType": "interface", "/securityGroups": []string{"sg-1", "sg-2"}},
		},
		"left behind": {
			in:     ec2types.NetworkInterface{TagSet: []ec2types.Tag{owned}, SubnetId: ptr("subnet-1"), VpcId: ptr("vpc-1")},
			fields: map[string]any{"/subnetId": "subnet-1", "/vpcId": "vpc-1", "/securityGroups": []string(nil)}, clusters: []string{"c1"},
		},
		"of a CNI": {
			in:     ec2types.NetworkInterface{TagSet: []ec2types.Tag{{Key: ptr("node.k8s.amazonaws.com/instance_id"), Value: ptr("i-1")}}},
			fields: map[string]any{"/securityGroups": []string(nil)}, foreign: ownerVPCCNI,
		},
		"of a service": {
			in:     ec2types.NetworkInterface{RequesterManaged: ptr(true), InterfaceType: "nat_gateway", Attachment: &ec2types.NetworkInterfaceAttachment{DeviceIndex: ptr[int32](1)}},
			fields: map[string]any{"/interfaceType": "nat_gateway", "/securityGroups": []string(nil)}, foreign: "AWS, for nat_gateway",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := newConverter().networkInterface(&tc.in)
			fields := fieldsOf(got)
			delete(fields, "/tags/sigs.k8s.io~1cluster-api-provider-aws~1cluster~1c1")
			delete(fields, "/tags/node.k8s.amazonaws.com~1instance_id")
			if diff := cmp.Diff(tc.fields, fields); diff != "" {
				t.Error(diff)
			}
			if !cmp.Equal(got.ClusterTags, tc.clusters) || got.ForeignTo != tc.foreign {
				t.Errorf("clusters %v, foreign to %q", got.ClusterTags, got.ForeignTo)
			}
		})
	}
}
