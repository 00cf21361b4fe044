package aws

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// An AWSMachine that sets nothing but its type wants that, its state, its
// tags and its groups, and has no opinion on anything else.
func TestMachineUnsetIsNoOpinion(t *testing.T) {
	r := instance(t, machineOwner(genAWSMachine()), genSnapshot())
	want := []string{
		"/instanceType", "/scheduledEvents", "/securityGroups", "/state", "/tags/Name",
		"/tags/kubernetes.io~1cluster~1c1",
		"/tags/sigs.k8s.io~1cluster-api-provider-aws~1cluster~1c1",
		"/tags/sigs.k8s.io~1cluster-api-provider-aws~1role",
	}
	if diff := cmp.Diff(want, paths(&r)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	checkField(t, r, "/state", "running")
	checkField(t, r, "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role", "node")
	if !r.Since.Equal(born) || r.Name != "m1" {
		t.Errorf("since %s, name %q", r.Since, r.Name)
	}
}

// Each row of the catalog for AWSMachine: what a set field wants.
func TestMachineFields(t *testing.T) {
	tests := map[string]struct {
		spec func(*infrav1.AWSMachineSpec)
		want map[string]any
	}{
		"image": {
			func(s *infrav1.AWSMachineSpec) { s.AMI.ID = pt("ami-1") },
			map[string]any{"/imageId": "ami-1"},
		},
		"profile": {
			func(s *infrav1.AWSMachineSpec) { s.IAMInstanceProfile = "nodes" },
			map[string]any{"/iamInstanceProfile": "nodes", "/iamInstanceProfileArn": nil},
		},
		"public address": {
			func(s *infrav1.AWSMachineSpec) { s.PublicIP = pt(false) },
			map[string]any{"/publicIp": false},
		},
		"metadata options, those set": {
			func(s *infrav1.AWSMachineSpec) {
				s.InstanceMetadataOptions = &infrav1.InstanceMetadataOptions{HTTPTokens: "required", HTTPPutResponseHopLimit: 2}
			},
			map[string]any{
				"/metadataOptions/httpTokens": "required", "/metadataOptions/httpPutResponseHopLimit": int64(2),
				"/metadataOptions/httpEndpoint": nil, "/metadataOptions/instanceMetadataTags": nil,
			},
		},
		"metadata options, the others": {
			func(s *infrav1.AWSMachineSpec) {
				s.InstanceMetadataOptions = &infrav1.InstanceMetadataOptions{HTTPEndpoint: "disabled", InstanceMetadataTags: "enabled"}
			},
			map[string]any{
				"/metadataOptions/httpTokens": nil, "/metadataOptions/httpPutResponseHopLimit": nil,
				"/metadataOptions/httpEndpoint": "disabled", "/metadataOptions/instanceMetadataTags": "enabled",
			},
		},
		"key pair":      {func(s *infrav1.AWSMachineSpec) { s.SSHKeyName = pt("ops") }, map[string]any{"/keyName": "ops"}},
		"no key pair":   {func(s *infrav1.AWSMachineSpec) { s.SSHKeyName = pt("") }, map[string]any{"/keyName": nil}},
		"spot options":  {func(s *infrav1.AWSMachineSpec) { s.SpotMarketOptions = &infrav1.SpotMarketOptions{} }, map[string]any{"/spot": true}},
		"market spot":   {func(s *infrav1.AWSMachineSpec) { s.MarketType = infrav1.MarketTypeSpot }, map[string]any{"/spot": true}},
		"on demand":     {func(s *infrav1.AWSMachineSpec) { s.MarketType = infrav1.MarketTypeOnDemand }, map[string]any{"/spot": false}},
		"reservation":   {func(s *infrav1.AWSMachineSpec) { s.CapacityReservationID = pt("cr-1") }, map[string]any{"/capacityReservationId": "cr-1"}},
		"tenancy":       {func(s *infrav1.AWSMachineSpec) { s.Tenancy = "dedicated" }, map[string]any{"/tenancy": "dedicated"}},
		"host":          {func(s *infrav1.AWSMachineSpec) { s.HostID = pt("h-1"); s.PlacementGroupName = "pg" }, map[string]any{"/tenancy": "host", "/placementGroup": nil}},
		"host affinity": {func(s *infrav1.AWSMachineSpec) { s.HostAffinity = pt("default") }, map[string]any{"/tenancy": nil}},
		"placement group": {
			func(s *infrav1.AWSMachineSpec) { s.PlacementGroupName = "pg"; s.PlacementGroupPartition = 3 },
			map[string]any{"/placementGroup": "pg", "/placementGroupPartition": int64(3)},
		},
		"cpu options": {
			func(s *infrav1.AWSMachineSpec) {
				s.CPUOptions = infrav1.CPUOptions{
					ConfidentialCompute:  infrav1.AWSConfidentialComputePolicySEVSNP,
					NestedVirtualization: infrav1.NestedVirtualizationPolicyDisabled,
				}
			},
			map[string]any{"/cpuOptions/amdSevSnp": "enabled", "/cpuOptions/nestedVirtualization": nil},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := instance(t, machineOwner(genAWSMachine(spec(tt.spec))), genSnapshot())
			for path, want := range tt.want {
				checkField(t, r, path, want)
			}
		})
	}
}

func TestMachineMutability(t *testing.T) {
	r := instance(t, machineOwner(genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) {
		s.AMI.ID = pt("ami-1")
		s.RootVolume = &infrav1.Volume{Size: 80, Encrypted: pt(true)}
	}))), genSnapshot())
	for path, want := range map[string]providers.Mutability{
		"/state": providers.InPlace, "/instanceType": providers.InPlaceDisruptive, "/imageId": providers.Immutable,
		"/tags/Name": providers.InPlace, "/securityGroups": providers.InPlace,
		"/rootVolume/size": providers.InPlace, "/rootVolume/encrypted": providers.Immutable,
	} {
		if got := r.Fields.Get(path).Mutability; got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// The machine's additional tags win over the cluster's, both may rename the
// instance, and neither can take it away from its cluster.
func TestMachineTags(t *testing.T) {
	cluster := genAWSCluster(func(c *infrav1.AWSCluster) {
		c.Spec.AdditionalTags = infrav1.Tags{"team": "a", "cost": "1"}
	})
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) {
		s.AdditionalTags = infrav1.Tags{
			"team": "b", "Name": "renamed", "empty": "",
			infrav1.ClusterTagKey("c1"):                 "shared",
			"sigs.k8s.io/cluster-api-provider-aws/role": "node",
		}
	}))
	r := instance(t, machineOwner(machine, inCluster(cluster)), genSnapshot())
	for path, want := range map[string]any{
		"/tags/team": "b", "/tags/cost": "1", "/tags/Name": "renamed", "/tags/empty": "",
		"/tags/kubernetes.io~1cluster~1c1":                         "owned",
		"/tags/sigs.k8s.io~1cluster-api-provider-aws~1role":        "node",
		"/tags/sigs.k8s.io~1cluster-api-provider-aws~1cluster~1c1": nil,
	} {
		checkField(t, r, path, want)
	}
}

// CAPA writes the MachineName tag at creation, in newer releases only.
func TestMachineNameTag(t *testing.T) {
	tests := map[string]struct {
		seen *providers.Resource
		want any
	}{
		"not there":     {seenResource(providers.KindInstance, "i-1"), nil},
		"there":         {seenResource(providers.KindInstance, "i-1", "/tags/MachineName", "prod/m1"), "prod/m1"},
		"another value": {seenResource(providers.KindInstance, "i-1", "/tags/MachineName", "test/m1"), "prod/m1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			checkField(t, instance(t, machineOwner(genAWSMachine()), genSnapshot(tt.seen)), "/tags/MachineName", tt.want)
		})
	}
}

// What is being deleted is wanted no more, and is no orphan either.
func TestMachineBeingDeleted(t *testing.T) {
	now := metav1.NewTime(born.Add(time.Hour))
	for name, mod := range map[string]func(*providers.Owner){
		"AWSMachine": func(o *providers.Owner) { o.Infra.SetDeletionTimestamp(&now) },
		"Machine":    func(o *providers.Owner) { o.Machine.DeletionTimestamp = &now },
		"Cluster":    func(o *providers.Owner) { o.Cluster.DeletionTimestamp = &now },
	} {
		t.Run(name, func(t *testing.T) {
			r := instance(t, machineOwner(genAWSMachine(), mod), genSnapshot())
			if !r.Unsettled || len(r.Fields) != 0 || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], name) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// Since is when the instance can first have existed; a condition that is
// false now says nothing about that.
func TestMachineSince(t *testing.T) {
	later := born.Add(10 * time.Minute)
	ready := genAWSMachine(func(m *infrav1.AWSMachine) {
		m.Status.Conditions = conditionTrue(infrav1.InstanceReadyCondition, later)
	})
	if got := instance(t, machineOwner(ready), genSnapshot()).Since; !got.Equal(later) {
		t.Errorf("since %s, want %s", got, later)
	}
	ready.Status.Conditions[0].Status = "False"
	if got := instance(t, machineOwner(ready), genSnapshot()).Since; !got.Equal(born) {
		t.Errorf("since %s, want %s", got, born)
	}
}

func TestGivenInterfaces(t *testing.T) {
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) {
		s.NetworkInterfaces = []string{"eni-1", "eni-2"}
		s.Subnet = &infrav1.AWSResourceReference{ID: pt("subnet-1")}
	}))
	all := get(t, machineOwner(machine), genSnapshot())
	checkField(t, all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}], "/subnetId", nil)
	for i, id := range []string{"eni-1", "eni-2"} {
		r := all[providers.ID{Kind: providers.KindNetworkInterface, Name: id}]
		checkField(t, r, "/instanceId", "i-1")
		checkField(t, r, "/deviceIndex", int64(i))
	}
}

func TestWrongOwner(t *testing.T) {
	for name, o := range map[string]*providers.Owner{
		"nil":        nil,
		"no cluster": {Infra: genAWSMachine()},
		"no infra":   {Cluster: genCluster()},
		"template":   {Cluster: genCluster(), Infra: &infrav1.AWSMachineTemplate{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := desired(o, genSnapshot()); err == nil {
				t.Errorf("got %v", got)
			}
		})
	}
	if _, err := desired(machineOwner(genAWSMachine()), nil); err == nil {
		t.Error("no error without a snapshot")
	}
}

func paths(r *providers.Resource) (out []string) {
	for path := range r.Fields.All() {
		out = append(out, path)
	}
	return out
}
