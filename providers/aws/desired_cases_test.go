package aws

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// C15, C16: keys that EC2 or another cluster owns are not ours to want, in
// whichever spec they stand.
func TestC15C16ForeignTags(t *testing.T) {
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) {
		s.AdditionalTags = infrav1.Tags{
			"aws:backup": "x", "AWS:Backup": "x", "awsx": "y",
			"kubernetes.io/cluster/c2": "shared", infrav1.ClusterTagKey("c2"): "owned", "kubernetes.io/cluster/c1": "owned",
		}
	}))
	r := instance(t, machineOwner(machine), genSnapshot())
	for path, want := range map[string]any{
		"/tags/aws:backup": nil, "/tags/AWS:Backup": nil, "/tags/awsx": "y",
		"/tags/kubernetes.io~1cluster~1c2":                         nil,
		"/tags/sigs.k8s.io~1cluster-api-provider-aws~1cluster~1c2": nil,
		"/tags/kubernetes.io~1cluster~1c1":                         "owned",
	} {
		checkField(t, r, path, want)
	}
}

// C18: only keys that the spec or the provider speaks for are wanted,
// whatever an annotation remembers or the instance carries.
func TestC18OnlyOwnedKeys(t *testing.T) {
	machine := genAWSMachine(func(m *infrav1.AWSMachine) {
		m.Annotations = map[string]string{"sigs.k8s.io/cluster-api-provider-aws-last-applied-tags": `{"old":"1"}`}
	})
	r := instance(t, machineOwner(machine), genSnapshot(seenResource(providers.KindInstance, "i-1", "/tags/old", "1", "/tags/backup", "y")))
	checkField(t, r, "/tags/old", nil)
	checkField(t, r, "/tags/backup", nil)
}

// C19: keys keep their case.
func TestC19TagKeyCase(t *testing.T) {
	r := instance(t, machineOwner(genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) {
		s.AdditionalTags = infrav1.Tags{"Owner": "x"}
	}))), genSnapshot(seenResource(providers.KindInstance, "i-1", "/tags/owner", "x")))
	checkField(t, r, "/tags/Owner", "x")
	checkField(t, r, "/tags/owner", nil)
}

// C21: what is unset or cannot be set is not wanted; what is set is.
func TestC21VolumeDefaults(t *testing.T) {
	tests := map[string]struct {
		volume infrav1.Volume
		want   map[string]any
	}{
		"size only":               {infrav1.Volume{Size: 80}, map[string]any{"size": int64(80), "type": nil, "iops": nil, "throughput": nil, "encrypted": nil, "kmsKeyId": nil}},
		"gp2 takes no iops":       {infrav1.Volume{Type: "gp2", IOPS: 240, Throughput: pt(int64(125))}, map[string]any{"type": "gp2", "iops": nil, "throughput": nil, "size": nil}},
		"gp3":                     {infrav1.Volume{Type: "gp3", IOPS: 4000, Throughput: pt(int64(250))}, map[string]any{"type": "gp3", "iops": int64(4000), "throughput": int64(250)}},
		"io2 takes no throughput": {infrav1.Volume{Type: "io2", IOPS: 9000, Throughput: pt(int64(250))}, map[string]any{"iops": int64(9000), "throughput": nil}},
		"zeros are unset":         {infrav1.Volume{Throughput: pt(int64(0))}, map[string]any{"size": nil, "iops": nil, "throughput": nil}},
		"encrypted":               {infrav1.Volume{Encrypted: pt(true)}, map[string]any{"encrypted": true}},
		"not encrypted":           {infrav1.Volume{Encrypted: pt(false)}, map[string]any{"encrypted": nil}},
		"a key encrypts": {
			infrav1.Volume{EncryptionKey: "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"},
			map[string]any{"encrypted": true, "kmsKeyId": "1234abcd-12ab-34cd-56ef-1234567890ab"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := instance(t, machineOwner(genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.RootVolume = &tt.volume }))), genSnapshot())
			for field, want := range tt.want {
				checkField(t, r, "/rootVolume/"+field, want)
			}
		})
	}
}

func TestKeyAlias(t *testing.T) {
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.RootVolume = &infrav1.Volume{EncryptionKey: "alias/disks"} }))
	byID := genSnapshot(seenResource(providers.KindInstance, "i-1", "/rootVolume/kmsKeyId", "1234abcd-12ab-34cd-56ef-1234567890ab"))
	all := get(t, machineOwner(machine), byID)
	checkField(t, all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}], "/rootVolume/kmsKeyId", nil)
	if got := reasons(all, providers.KindVolume); len(got) != 1 || !strings.Contains(got[0], "alias/disks") {
		t.Errorf("reasons %q", got)
	}
	for name, tt := range map[string]struct {
		key      string
		coverage error
		aliases  []*providers.Resource
		want     any
		why      string
	}{
		"resolved":           {key: "alias/disks", aliases: []*providers.Resource{seenResource(kindKeyAlias, "alias/other", pathKeyID, "k-2"), seenResource(kindKeyAlias, "alias/disks", pathKeyID, "k-1")}, want: "k-1"},
		"resolved, by ARN":   {key: "arn:aws:kms:eu-central-1:111122223333:alias/disks", aliases: []*providers.Resource{seenResource(kindKeyAlias, "alias/disks", pathKeyID, "k-1")}, want: "k-1"},
		"of another account": {key: "arn:aws:kms:eu-central-1:999999999999:alias/disks", aliases: []*providers.Resource{seenResource(kindKeyAlias, "alias/disks", pathKeyID, "k-1")}, why: "account 999999999999"},
		"of another region":  {key: "arn:aws:kms:us-east-1:111122223333:alias/disks", aliases: []*providers.Resource{seenResource(kindKeyAlias, "alias/disks", pathKeyID, "k-1")}, why: "us-east-1"},
		"not there":          {key: "alias/disks", aliases: []*providers.Resource{seenResource(kindKeyAlias, "alias/other", pathKeyID, "k-2")}, why: "points at no key"},
		"of no key":          {key: "alias/disks", aliases: []*providers.Resource{seenResource(kindKeyAlias, "alias/disks")}, why: "points at no key"},
		"not permitted":      {key: "alias/disks", coverage: errors.New("AccessDeniedException"), why: "AccessDeniedException"},
	} {
		t.Run(name, func(t *testing.T) {
			machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.RootVolume = &infrav1.Volume{EncryptionKey: tt.key} }))
			snap := genSnapshot(append(tt.aliases, seenResource(providers.KindInstance, "i-1", "/rootVolume/kmsKeyId", "k-9"))...)
			snap.Scope.Account, snap.Scope.Region = "111122223333", "eu-central-1"
			snap.Coverage[kindKeyAlias] = tt.coverage
			all := get(t, machineOwner(machine), snap)
			checkField(t, all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}], "/rootVolume/kmsKeyId", tt.want)
			if got := reasons(all, providers.KindVolume); (len(got) != 0) != (tt.why != "") || tt.why != "" && !strings.Contains(got[0], tt.why) {
				t.Errorf("reasons %q, want one with %q", got, tt.why)
			}
		})
	}
	byAlias := genSnapshot(seenResource(providers.KindInstance, "i-1", "/rootVolume/kmsKeyId", "alias/disks"))
	checkField(t, instance(t, machineOwner(machine), byAlias), "/rootVolume/kmsKeyId", "alias/disks")
}

// C22: which device is the root is the instance's to say. A further volume
// that the spec puts at the root device is the root volume.
func TestC22RootDevice(t *testing.T) {
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) {
		s.NonRootVolumes = []infrav1.Volume{{DeviceName: "/dev/sda1", Size: 50}, {DeviceName: "sdf", Size: 100}, {Size: 9}}
	}))
	for _, root := range []string{"/dev/sda1", "/dev/xvda"} {
		all := get(t, machineOwner(machine), genSnapshot(seenResource(providers.KindInstance, "i-1", "/rootDeviceName", root)))
		r := all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}]
		if root == "/dev/sda1" {
			checkField(t, r, "/rootVolume/size", int64(50))
			checkField(t, r, "/nonRootVolumes/~1dev~1sda1/size", nil)
		} else {
			checkField(t, r, "/rootVolume/size", nil)
			checkField(t, r, "/nonRootVolumes/~1dev~1sda1/size", int64(50))
		}
		checkField(t, r, "/nonRootVolumes/~1dev~1sdf/size", int64(100))
		if got := reasons(all, providers.KindVolume); len(got) != 1 || !strings.Contains(got[0], "nonRootVolumes[2]") {
			t.Errorf("reasons %q", got)
		}
	}
}

// C23, C24: user data is informational after boot, and not wanted at all.
func TestC23C24UserDataIsNotWanted(t *testing.T) {
	o := machineOwner(genAWSMachine())
	o.Machine.Spec.Bootstrap.DataSecretName = pt("m1-bootstrap")
	checkField(t, instance(t, o, genSnapshot()), "/userData", nil)
}

// C25, C31: an image by lookup is compared with nothing.
func TestC25C31ImageByLookup(t *testing.T) {
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.ImageLookupOrg = "111122223333"; s.ImageLookupBaseOS = "ubuntu" }))
	checkField(t, instance(t, machineOwner(machine), genSnapshot()), "/imageId", nil)
}

// C26: a profile is its name in any partition and path; a full ARN is exact.
func TestC26Profile(t *testing.T) {
	const arn = "arn:aws-us-gov:iam::111122223333:instance-profile/team/nodes"
	tests := map[string]struct{ spec, name, arn any }{
		"name":     {"nodes", "nodes", nil},
		"path":     {"team/nodes", "nodes", nil},
		"full ARN": {arn, nil, arn},
		"unset":    {"", nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := instance(t, machineOwner(genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.IAMInstanceProfile = tt.spec.(string) }))), genSnapshot())
			checkField(t, r, "/iamInstanceProfile", tt.name)
			checkField(t, r, "/iamInstanceProfileArn", tt.arn)
		})
	}
}

// C28: the type is exact.
func TestC28InstanceType(t *testing.T) {
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.InstanceType = "t4g.nano" }))
	r := instance(t, machineOwner(machine), genSnapshot(seenResource(providers.KindInstance, "i-1", "/instanceType", "t4g.micro")))
	checkField(t, r, "/instanceType", "t4g.nano")
}

// C50: clusters of one name claim only what their own machines record.
func TestC50ClaimByProviderIDOnly(t *testing.T) {
	other := seenResource(providers.KindInstance, "i-2", append(owned("m1"), "/state", "running")...)
	all := get(t, machineOwner(genAWSMachine()), genSnapshot(other))
	if len(all) != 1 {
		t.Errorf("wanted %v", all)
	}
}

// C55: the machine's own object decides, not the template it came from or the
// cluster's present key.
func TestC55OwnObjectOnly(t *testing.T) {
	template := &infrav1.AWSMachineTemplate{}
	template.Spec.Template.Spec.InstanceType = "m6i.xlarge"
	cluster := genAWSCluster(func(c *infrav1.AWSCluster) { c.Spec.SSHKeyName = pt("new-key") })
	o := machineOwner(genAWSMachine(), inCluster(cluster))
	o.Related = append(o.Related, template)
	r := instance(t, o, genSnapshot())
	checkField(t, r, "/instanceType", "m6i.large")
	checkField(t, r, "/keyName", nil)
}

// C57: a machine that mirrors an instance of an autoscaling group is not
// modelled, and still claims its instance.
func TestC57MachinePool(t *testing.T) {
	for name, mod := range map[string]func(*clusterv1.Machine){
		"label": func(m *clusterv1.Machine) { m.Labels = map[string]string{clusterv1.MachinePoolNameLabel: "mp"} },
		"owner": func(m *clusterv1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachinePool", Name: "mp"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := machineOwner(genAWSMachine())
			o.Machine = genMachine(mod)
			r := instance(t, o, genSnapshot())
			if !strings.Contains(r.Unchecked, "machine pool") || len(r.Fields) != 0 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// C58: whatever the status says, running is wanted; an instance that does not
// run loses its address and its place in the load balancers by that alone.
func TestC58StoppedIsOneFinding(t *testing.T) {
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.PublicIP = pt(true) }), func(m *infrav1.AWSMachine) {
		m.Status.InstanceState = pt(infrav1.InstanceStateTerminated)
	})
	for state, want := range map[string]any{"running": true, "pending": true, "stopping": nil, "stopped": nil} {
		r := instance(t, machineOwner(machine, controlPlane), genSnapshot(
			seenResource(providers.KindInstance, "i-1", "/state", state), seenResource(providers.KindLoadBalancer, "classic/c1-apiserver")))
		checkField(t, r, "/state", "running")
		checkField(t, r, "/publicIp", want)
		if _, ok := r.Fields.Lookup("/loadBalancers/c1-apiserver"); ok != (want != nil) {
			t.Errorf("%s: registration wanted %v", state, ok)
		}
	}
}

// A load balancer that is gone is one finding, not one more for each machine
// that was in it; one that could not be read leaves the registration open.
func TestLostClassicLoadBalancerIsOneFinding(t *testing.T) {
	const path = "/loadBalancers/c1-apiserver"
	snap := genSnapshot(seenResource(providers.KindInstance, "i-1", "/state", "running"))
	if r := instance(t, machineOwner(genAWSMachine(), controlPlane), snap); !r.Fields.Get(path).Value.IsAbsent() {
		t.Errorf("a registration is wanted in a load balancer that is not there")
	}
	snap.Coverage[providers.KindLoadBalancer] = errors.New("throttled")
	checkField(t, instance(t, machineOwner(genAWSMachine(), controlPlane), snap), path, "registered")
}

// C64: the zone in a provider id is no part of the identity, and an identity
// that the objects disagree on is none.
func TestC64Identity(t *testing.T) {
	tests := map[string]struct {
		provider, instance, machine string
		id, why                     string
	}{
		"with zone":       {"aws:///eu-central-1a/i-1", "", "", "i-1", ""},
		"without zone":    {"aws:////i-1", "i-1", "aws:///eu-central-1a/i-1", "i-1", ""},
		"instance id":     {"", "i-1", "", "i-1", ""},
		"machine only":    {"", "", "aws:////i-1", "i-1", ""},
		"other cloud":     {"gce://p/z/i-1", "", "", "", "names no EC2 instance"},
		"garbage":         {"i-1; rm", "", "", "", "names no EC2 instance"},
		"disagree":        {"aws:////i-1", "i-2", "", "", "names i-1 and spec.instanceID names i-2"},
		"machine differs": {"aws:////i-1", "i-1", "aws:////i-3", "", "names i-3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := machineOwner(genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.ProviderID, s.InstanceID = &tt.provider, &tt.instance })))
			o.Machine.Spec.ProviderID = tt.machine
			all := get(t, o, genSnapshot())
			if tt.why == "" {
				if _, ok := all[providers.ID{Kind: providers.KindInstance, Name: tt.id}]; !ok {
					t.Errorf("wanted %v", all)
				}
				return
			}
			if got := reasons(all, providers.KindInstance); len(got) != 1 || !strings.Contains(got[0], tt.why) || len(all) != 1 {
				t.Errorf("reasons %q in %v", got, all)
			}
		})
	}
}

// C65: without a provider id nothing is drift yet, and instances that are
// tagged for the machine are named, not claimed.
func TestC65NoProviderIDYet(t *testing.T) {
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.ProviderID, s.InstanceID = nil, nil }))
	gone := seenResource(providers.KindInstance, "i-9", owned("m1")...)
	gone.Gone = "terminated"
	all := get(t, machineOwner(machine), genSnapshot(
		seenResource(providers.KindInstance, "i-2", owned("m1")...),
		seenResource(providers.KindInstance, "i-3", owned("m1")...),
		seenResource(providers.KindInstance, "i-4", owned("m2")...),
		seenResource(providers.KindInstance, "i-5", "/tags/Name", "m1"),
		gone,
	))
	if len(all) != 1 {
		t.Fatalf("wanted %v", all)
	}
	for _, r := range all {
		if !r.Unsettled || len(r.Fields) != 0 || r.Unchecked != "" {
			t.Errorf("got %+v", r)
		}
		warnings := strings.Join(r.Warnings, "\n")
		if !strings.HasSuffix(warnings, "i-2, i-3") {
			t.Errorf("warnings %q", warnings)
		}
	}
}
