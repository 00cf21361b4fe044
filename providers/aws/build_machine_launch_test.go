package aws

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// The newest image of the wanted name, owner and architecture is taken.
func TestMachineImage(t *testing.T) {
	const other = "210987654321"
	image := func(owner, name, architecture string, age time.Duration) ec2sim.Image {
		return ec2sim.Image{Owner: owner, Name: name, Architecture: architecture, Created: time.Now().Add(-age)}
	}
	images := []ec2sim.Image{
		image(imageOwner, "capa-ami-ubuntu-24.04-v1.34.2-1700000000", "x86_64", 48*time.Hour),
		image(imageOwner, "capa-ami-ubuntu-24.04-v1.34.2-1700000001", "x86_64", 24*time.Hour),
		image(imageOwner, "capa-ami-ubuntu-24.04-v1.34.2-1600000000", "x86_64", 72*time.Hour),
		image(imageOwner, "capa-ami-ubuntu-24.04-v1.34.2-1700000002", "arm64", time.Hour),
		image(imageOwner, "capa-ami-ubuntu-24.04-v1.34.3-1700000003", "x86_64", time.Hour),
		image(other, "capa-ami-ubuntu-24.04-v1.34.2-1700000009", "x86_64", time.Minute),
		image(other, "ours-flatcar-1.34.2", "x86_64", time.Hour),
	}
	for name, tc := range map[string]struct {
		edit func(g *machineGround)
		want int
		err  string
	}{
		"CAPA's":               {edit: func(*machineGround) {}, want: 1},
		"another architecture": {edit: func(g *machineGround) { g.m.Spec.InstanceType = "m6g.large" }, want: 3},
		"the cluster's lookup": {want: 6, edit: func(g *machineGround) {
			g.awsCluster.Spec.ImageLookupOrg, g.awsCluster.Spec.ImageLookupBaseOS, g.awsCluster.Spec.ImageLookupFormat = other, "flatcar", "ours-{{.BaseOS}}-{{.K8sVersion}}"
		}},
		"the machine's lookup over the cluster's": {want: 5, edit: func(g *machineGround) {
			g.awsCluster.Spec.ImageLookupOrg, g.m.Spec.ImageLookupOrg = imageOwner, other
		}},
		"none":           {err: "imageLookupFormat", edit: func(g *machineGround) { g.machine.Spec.Version = "v1.99.0" }},
		"no version":     {err: "spec.ami.id", edit: func(g *machineGround) { g.machine.Spec.Version = "" }},
		"no template":    {err: "is no template", edit: func(g *machineGround) { g.m.Spec.ImageLookupFormat = "{{.BaseOS" }},
		"unknown field":  {err: "K8sVersion", edit: func(g *machineGround) { g.m.Spec.ImageLookupFormat = "{{.Arch}}" }},
		"EKS":            {err: "eksLookupType", edit: func(g *machineGround) { g.m.Spec.AMI.EKSOptimizedLookupType = ptr(infrav1.AmazonLinux) }},
		"not a type":     {err: "InvalidInstanceType", edit: func(g *machineGround) { g.m.Spec.InstanceType = "m5.huge" }},
		"root too small": {err: "needs 8", edit: func(g *machineGround) { g.m.Spec.RootVolume = &infrav1.Volume{Size: 4} }},
	} {
		t.Run(name, func(t *testing.T) {
			g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
			var ids []string
			for _, in := range images {
				id, err := g.sim.AddImage(g.sim.DefaultScope("eu-central-1"), in)
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			g.m.Spec.AMI.ID = nil
			tc.edit(g)
			g.observe()
			_, err := g.pass()
			if tc.err != "" {
				if reasonOf(err) == "" || !strings.Contains(err.Error(), tc.err) || !strings.Contains(messageOf(g.m, "InstanceReady"), tc.err) || len(g.all()) > 0 {
					t.Errorf("%v: want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := *g.instance().ImageId; got != ids[tc.want] {
				t.Errorf("image %s of %v", got, ids)
			}
		})
	}
}

// Where a machine goes, as CAPA chooses.
func TestMachineSubnet(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(g *machineGround)
		want string // the subnet's id in the manifest
		err  string
	}{
		"failure domain": {want: "dev-classic-private-b", edit: func(g *machineGround) { g.machine.Spec.FailureDomain = "eu-central-1b" }},
		"none":           {want: "dev-classic-private-a", edit: func(g *machineGround) { g.machine.Spec.FailureDomain = "" }},
		"public":         {want: "dev-classic-public-a", edit: func(g *machineGround) { g.m.Spec.PublicIP = ptr(true) }},
		"by id": {want: "dev-classic-public-b", edit: func(g *machineGround) {
			g.machine.Spec.FailureDomain = ""
			g.m.Spec.Subnet = &infrav1.AWSResourceReference{ID: ptr(g.subnet("dev-classic-public-b"))}
		}},
		"by filter": {want: "dev-classic-private-a", edit: func(g *machineGround) {
			g.m.Spec.Subnet = &infrav1.AWSResourceReference{Filters: []infrav1.Filter{{Name: "cidr-block", Values: []string{"10.1.64.0/20"}}}}
		}},
		"by a broad filter": {want: "dev-classic-private-a,dev-classic-public-a", edit: func(g *machineGround) {
			g.m.Spec.Subnet = &infrav1.AWSResourceReference{Filters: []infrav1.Filter{{Name: "vpc-id", Values: []string{g.awsCluster.Spec.NetworkSpec.VPC.ID}}}}
		}},
		"no such zone": {err: "no private subnet in eu-central-1c", edit: func(g *machineGround) { g.machine.Spec.FailureDomain = "eu-central-1c" }},
		"IPv6 without": {err: "assignPrimaryIPv6", edit: func(g *machineGround) { g.m.Spec.AssignPrimaryIPv6 = ptr(infrav1.PrimaryIPv6AssignmentStateEnabled) }},
	} {
		t.Run(name, func(t *testing.T) {
			g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
			tc.edit(g)
			g.observe()
			_, err := g.pass()
			if tc.err != "" {
				if reasonOf(err) != providers.ReasonRefused || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v: want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := *g.instance().SubnetId
			for _, id := range strings.Split(tc.want, ",") {
				if got == g.subnet(id) {
					return
				}
			}
			t.Errorf("subnet %s, want %s", got, tc.want)
		})
	}
}

func (g *machineGround) subnet(name string) string {
	for _, s := range g.awsCluster.Spec.NetworkSpec.Subnets {
		if s.ID == name || s.ResourceID == name {
			return s.GetResourceID()
		}
	}
	g.t.Fatalf("no subnet %s", name)
	return ""
}

// The rest of a spec arrives in the call.
func TestMachineSpecArrives(t *testing.T) {
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
	ctx := t.Context()
	if _, err := g.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: ptr("pg"), Strategy: ec2types.PlacementStrategyPartition}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.ec2.ImportKeyPair(ctx, &ec2.ImportKeyPairInput{KeyName: ptr("ops"), PublicKeyMaterial: []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFhmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZm a@b")}); err != nil {
		t.Fatal(err)
	}
	s := &g.m.Spec
	s.SSHKeyName, g.awsCluster.Spec.SSHKeyName = nil, ptr("ops")
	s.InstanceType = "m5.large"
	s.InstanceMetadataOptions = &infrav1.InstanceMetadataOptions{HTTPTokens: infrav1.HTTPTokensStateRequired, HTTPPutResponseHopLimit: 2}
	s.RootVolume = &infrav1.Volume{Size: 40, Type: infrav1.VolumeTypeGP3, IOPS: 4000, Throughput: ptr[int64](200), Encrypted: ptr(true)}
	s.NonRootVolumes = []infrav1.Volume{{DeviceName: "/dev/sdb", Size: 20, Type: infrav1.VolumeTypeGP2}}
	s.SpotMarketOptions = &infrav1.SpotMarketOptions{MaxPrice: ptr("0.5")}
	s.PlacementGroupName, s.PlacementGroupPartition, s.Tenancy = "pg", 2, "dedicated"
	s.AdditionalTags = infrav1.Tags{"team": "core", "sigs.k8s.io/cluster-api-provider-aws/role": "mine"}
	s.PrivateDNSName = &infrav1.PrivateDNSName{HostnameType: ptr("resource-name")}
	g.observe()
	if waiting, err := g.pass(); err != nil || waiting != "" {
		t.Fatalf("waiting for %q, %v", waiting, err)
	}
	i := g.instance()
	for what, ok := range map[string]bool{
		"type": i.InstanceType == "m5.large", "key": deref(i.KeyName) == "ops",
		"tokens": i.MetadataOptions.HttpTokens == "required", "hops": deref(i.MetadataOptions.HttpPutResponseHopLimit) == 2,
		"spot": i.InstanceLifecycle == "spot", "group": deref(i.Placement.GroupName) == "pg", "tenancy": i.Placement.Tenancy == "dedicated",
		"tag": tagged(i.Tags, "team") == "core", "role": tagged(i.Tags, "sigs.k8s.io/cluster-api-provider-aws/role") == "control-plane",
		"interruptible": g.m.Status.Interruptible, "volumes": len(i.BlockDeviceMappings) == 2,
		"profile": strings.HasSuffix(deref(i.IamInstanceProfile.Arn), s.IAMInstanceProfile),
		"groups":  len(i.SecurityGroups) == 3,
	} {
		if !ok {
			t.Errorf("%s did not arrive: %+v", what, i)
		}
	}
	if r := g.snap.Resources[providers.ID{Kind: providers.KindInstance, Name: *i.InstanceId}]; textOf(r, "/rootVolume/size") != "40" || textOf(r, "/rootVolume/iops") != "4000" || textOf(r, "/nonRootVolumes/~1dev~1sdb/size") != "20" {
		t.Errorf("volumes: %v", r.Fields)
	}
}

// What EC2 says is said on, with what to do about it, and without the data that
// the machine was to boot with.
func TestMachineFailures(t *testing.T) {
	fault := func(code, message string) func(*machineGround) {
		return func(g *machineGround) {
			g.sim.InjectFault(ec2sim.Fault{Action: "RunInstances", Kind: ec2sim.FaultError, Code: code, Message: message})
		}
	}
	for name, tc := range map[string]struct {
		edit   func(g *machineGround)
		reason string // of an ApplyError; empty is one that may pass
		says   []string
	}{
		"image":      {reason: providers.ReasonRefused, says: []string{"spec.ami.id", "InvalidAMIID.NotFound"}, edit: func(g *machineGround) { g.m.Spec.AMI.ID = ptr("ami-0123456789abcdef0") }},
		"key":        {reason: providers.ReasonRefused, says: []string{"spec.sshKeyName", "InvalidKeyPair.NotFound"}, edit: func(g *machineGround) { g.m.Spec.SSHKeyName = ptr("nobody's") }},
		"no key set": {reason: providers.ReasonRefused, says: []string{"'default'", "spec.sshKeyName"}, edit: func(g *machineGround) { g.m.Spec.SSHKeyName = nil }},
		"subnet": {reason: providers.ReasonRefused, says: []string{"spec.subnet", "InvalidSubnetID.NotFound"}, edit: func(g *machineGround) {
			g.machine.Spec.FailureDomain = ""
			g.m.Spec.Subnet = &infrav1.AWSResourceReference{ID: ptr("subnet-0123456789abcdef0")}
			g.noSubnets()
		}},
		"profile":         {says: []string{"some seconds", "iamInstanceProfile"}, edit: func(g *machineGround) { g.m.Spec.IAMInstanceProfile = "nobody's" }},
		"placement group": {reason: providers.ReasonRefused, says: []string{"spec.placementGroupName"}, edit: func(g *machineGround) { g.m.Spec.PlacementGroupName = "nobody's" }},
		"instances":       {reason: providers.ReasonRefused, says: []string{"quota", "InstanceLimitExceeded"}, edit: fault("InstanceLimitExceeded", "You have requested more instances")},
		"vCPUs":           {reason: providers.ReasonRefused, says: []string{"quota of vCPUs", "VcpuLimitExceeded", "You have requested"}, edit: fault("VcpuLimitExceeded", "You have requested more vCPU capacity than your current limit")},
		"capacity":        {says: []string{"passes by itself", "InsufficientInstanceCapacity"}, edit: fault("InsufficientInstanceCapacity", "We currently do not have sufficient capacity")},
		"addresses":       {says: []string{"no free address"}, edit: fault("InsufficientFreeAddressesInSubnet", "There are not enough free addresses")},
		"type there":      {reason: providers.ReasonRefused, says: []string{"instance type in a zone", "Unsupported"}, edit: fault("Unsupported", "Your requested instance type (t3.medium) is not supported in your requested Availability Zone")},
		"permission":      {reason: providers.ReasonNotPermitted, says: []string{"docs/permissions.md", "UnauthorizedOperation"}, edit: fault("UnauthorizedOperation", "You are not authorized to perform this operation. Encoded authorization failure message: AAAA")},
		"hostile":         {reason: providers.ReasonRefused, says: []string{"Odd"}, edit: fault("Odd", "a\x1b[31m\u202e\nb "+strings.Repeat("x", 5000))},
		"no data":         {says: []string{"no bootstrap data"}, edit: func(g *machineGround) { g.boot = nil }},
		"elastic":         {reason: providers.ReasonUnsupported, says: []string{"spec.elasticIpPool"}, edit: func(g *machineGround) { g.m.Spec.ElasticIPPool = &infrav1.ElasticIPPool{PublicIpv4Pool: ptr("pool")} }},
		"host":            {reason: providers.ReasonUnsupported, says: []string{"spec.hostID"}, edit: func(g *machineGround) { g.m.Spec.DynamicHostAllocation = &infrav1.DynamicHostAllocationSpec{} }},
		"ignition in S3":  {reason: providers.ReasonUnsupported, says: []string{"spec.ignition.storageType", "UnencryptedUserData"}, edit: func(g *machineGround) { g.boot.Format = "ignition" }},
		"format":          {reason: providers.ReasonUnsupported, says: []string{"cloudbase"}, edit: func(g *machineGround) { g.boot.Format = "cloudbase" }},
		"spot and reservation": {reason: providers.ReasonRefused, says: []string{"capacityReservationId"}, edit: func(g *machineGround) {
			g.m.Spec.SpotMarketOptions, g.m.Spec.CapacityReservationID = &infrav1.SpotMarketOptions{}, ptr("cr-1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
			tc.edit(g)
			g.observe()
			waiting, err := g.pass()
			if err == nil || reasonOf(err) != tc.reason {
				t.Fatalf("reason %q of %v, want %q", reasonOf(err), err, tc.reason)
			}
			said := messageOf(g.m, "InstanceReady")
			for _, want := range tc.says {
				if !strings.Contains(said, want) || !strings.Contains(waiting, want) {
					t.Errorf("the condition says %q and Note %q: want %q", said, waiting, want)
				}
			}
			if got := conditionOf(g.m, "InstanceReady"); got != "False InstanceProvisionFailed" {
				t.Errorf("InstanceReady is %q", got)
			}
			for _, text := range []string{said, waiting, err.Error()} {
				if strings.Contains(text, "h-unter2") || strings.Contains(text, "aC11bnRlcjI") {
					t.Errorf("%q tells what the machine boots with", text)
				}
			}
			if strings.ContainsAny(said, "\n\x1b\u202e") || len(said) > 1000 {
				t.Errorf("the condition is not clean: %q", said)
			}
			// The same again is no change.
			before := g.m.DeepCopy()
			_, _ = g.pass()
			if before.Status.Conditions[0] != g.m.Status.Conditions[0] {
				t.Errorf("changed from %+v to %+v", before.Status.Conditions, g.m.Status.Conditions)
			}
			if all := g.all(); len(all) > 0 {
				t.Errorf("instances %v", all)
			}
		})
	}
}

// noSubnets has the provider believe that the subnets cannot be looked into.
func (g *machineGround) noSubnets() {
	g.sim.InjectFault(ec2sim.Fault{Action: "DescribeSubnets", Kind: ec2sim.FaultError, Code: "UnauthorizedOperation", Message: "no"})
}

// What a machine boots with arrives byte for byte, by each way.
func TestMachineUserData(t *testing.T) {
	noise := make([]byte, 6000)
	_, _ = rand.Read(noise)
	long := []byte("#cloud-config\n# " + fmt.Sprintf("%x", noise) + strings.Repeat("repeated ", 2000))
	insecure := func(*machineGround) {}
	for name, tc := range map[string]struct {
		data   []byte
		format string
		edit   func(g *machineGround)
		zipped bool
	}{
		"as it is":  {data: []byte("#cloud-config\n\x00\xff\r\n"), edit: insecure},
		"too long":  {data: long, edit: insecure, zipped: true},
		"asked for": {data: []byte(bootData), zipped: true, edit: func(g *machineGround) { g.m.Spec.UncompressedUserData = ptr(false) }},
		"ignition": {data: []byte(`{"ignition":{"version":"3.4.0"}}`), format: "ignition", edit: func(g *machineGround) {
			g.m.Spec.Ignition = &infrav1.Ignition{StorageType: infrav1.IgnitionStorageTypeOptionUnencryptedUserData}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
			g.boot = &providers.BootstrapData{Value: tc.data, Format: tc.format}
			tc.edit(g)
			g.made()
			got := []byte(g.booted())
			if tc.zipped {
				r, err := gzip.NewReader(bytes.NewReader(got))
				if err != nil {
					t.Fatalf("%v: %.40q", err, got)
				}
				if got, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got, tc.data) {
				t.Errorf("%d bytes arrived, %d were sent", len(got), len(tc.data))
			}
		})
	}
	t.Run("far too long", func(t *testing.T) {
		noise := make([]byte, 40000)
		_, _ = rand.Read(noise)
		g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
		g.boot = &providers.BootstrapData{Value: noise}
		g.observe()
		if _, err := g.pass(); reasonOf(err) != providers.ReasonRefused || !strings.Contains(err.Error(), "insecureSkipSecretsManager") {
			t.Errorf("%v", err)
		}
	})
}
