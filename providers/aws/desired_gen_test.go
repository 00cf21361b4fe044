package aws

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Builders of objects and seen resources: each gives a plain specimen of
// cluster c1 in namespace prod, and mods change it.

var born = time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)

func genCluster(mods ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: "prod", UID: "uid-c1"}}
	for _, mod := range mods {
		mod(c)
	}
	return c
}

func genAWSCluster(mods ...func(*infrav1.AWSCluster)) *infrav1.AWSCluster {
	c := &infrav1.AWSCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: "prod", UID: "uid-awsc1", CreationTimestamp: metav1.NewTime(born)},
	}
	c.Spec.Region = "eu-central-1"
	c.Spec.NetworkSpec.VPC = infrav1.VPCSpec{ID: "vpc-1", CidrBlock: "10.0.0.0/16", Tags: infrav1.Tags{infrav1.ClusterTagKey("c1"): "owned"}}
	c.Status.Network.SecurityGroups = map[infrav1.SecurityGroupRole]infrav1.SecurityGroup{
		infrav1.SecurityGroupNode:         {ID: "sg-node", Name: "c1-node"},
		infrav1.SecurityGroupLB:           {ID: "sg-lb", Name: "c1-lb"},
		infrav1.SecurityGroupControlPlane: {ID: "sg-cp", Name: "c1-controlplane"},
		infrav1.SecurityGroupAPIServerLB:  {ID: "sg-api", Name: "c1-apiserver-lb"},
	}
	c.Status.Network.APIServerELB = infrav1.LoadBalancer{Name: "c1-apiserver", DNSName: "c1.elb.example"}
	for _, mod := range mods {
		mod(c)
	}
	return c
}

func genAWSMachine(mods ...func(*infrav1.AWSMachine)) *infrav1.AWSMachine {
	id, providerID := "i-1", "aws:///eu-central-1a/i-1"
	m := &infrav1.AWSMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSMachine"},
		ObjectMeta: metav1.ObjectMeta{Name: "m1", Namespace: "prod", UID: "uid-m1", CreationTimestamp: metav1.NewTime(born)},
		Spec:       infrav1.AWSMachineSpec{InstanceType: "m6i.large", InstanceID: &id, ProviderID: &providerID},
	}
	for _, mod := range mods {
		mod(m)
	}
	return m
}

func genMachine(mods ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m1", Namespace: "prod"}}
	m.Spec.ClusterName = "c1"
	for _, mod := range mods {
		mod(m)
	}
	return m
}

// machineOwner makes the owner of an AWSMachine in a plain cluster.
func machineOwner(m *infrav1.AWSMachine, mods ...func(*providers.Owner)) *providers.Owner {
	o := &providers.Owner{Ref: providers.RefOf(m), Cluster: genCluster(), Machine: genMachine(), Infra: m, InfraCluster: genAWSCluster()}
	for _, mod := range mods {
		mod(o)
	}
	return o
}

func clusterOwner(c *infrav1.AWSCluster, mods ...func(*providers.Owner)) *providers.Owner {
	o := &providers.Owner{Ref: providers.RefOf(c), Cluster: genCluster(), Infra: c, InfraCluster: c}
	for _, mod := range mods {
		mod(o)
	}
	return o
}

func controlPlane(o *providers.Owner) {
	o.ControlPlane = true
	o.Machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
}

func inCluster(c *infrav1.AWSCluster) func(*providers.Owner) {
	return func(o *providers.Owner) { o.InfraCluster = c }
}

func inZone(zone string) func(*providers.Owner) {
	return func(o *providers.Owner) { o.Machine.Spec.FailureDomain = zone }
}

func spec(mod func(*infrav1.AWSMachineSpec)) func(*infrav1.AWSMachine) {
	return func(m *infrav1.AWSMachine) { mod(&m.Spec) }
}

// seen makes a seen resource of "path", value pairs.
func seenResource(kind, id string, pairs ...any) *providers.Resource {
	r := &providers.Resource{ID: providers.ID{Kind: kind, Name: id}}
	for i := 0; i < len(pairs); i += 2 {
		path := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case string:
			if path == "name" {
				r.Name = v
				continue
			}
			r.Set(path, providers.Field{Value: providers.String(v)})
		case int:
			r.Set(path, providers.Field{Value: providers.Int(v)})
		case bool:
			r.Set(path, providers.Field{Value: providers.Bool(v)})
		case []string:
			r.Set(path, providers.Field{Value: providers.Set(v...)})
		}
	}
	return r
}

// readKinds are the kinds that a complete snapshot covers.
var readKinds = []string{
	providers.KindInstance, providers.KindVolume, providers.KindNetworkInterface, providers.KindSecurityGroup,
	providers.KindVPC, providers.KindSubnet, providers.KindInternetGateway, providers.KindNATGateway,
	providers.KindRouteTable, providers.KindNetworkACL, providers.KindLoadBalancer,
}

func genSnapshot(resources ...*providers.Resource) *providers.Snapshot {
	s := &providers.Snapshot{
		TakenAt:   born.Add(24 * time.Hour),
		Coverage:  map[string]error{},
		Resources: map[providers.ID]*providers.Resource{},
	}
	for _, kind := range readKinds {
		s.Coverage[kind] = nil
	}
	for _, r := range resources {
		s.Resources[r.ID] = r
	}
	return s
}

func owned(key ...string) []any {
	tags := []any{providers.Pointer("tags", infrav1.ClusterTagKey("c1")), "owned"}
	if len(key) == 1 {
		tags = append(tags, "/tags/Name", key[0], "name", key[0])
	}
	return tags
}

// get runs desired and gives the wanted resources by id, failing on an error
// and on two resources of one id.
func get(t *testing.T, o *providers.Owner, snap *providers.Snapshot) map[providers.ID]providers.Resource {
	t.Helper()
	list, err := desired(o, snap)
	if err != nil {
		t.Fatal(err)
	}
	out := map[providers.ID]providers.Resource{}
	for _, r := range list {
		if _, twice := out[r.ID]; twice {
			t.Errorf("%s is wanted twice", r.ID)
		}
		if r.Owner != o.Ref {
			t.Errorf("%s has owner %s", r.ID, r.Owner)
		}
		out[r.ID] = r
	}
	return out
}

// instance gives the wanted instance i-1.
func instance(t *testing.T, o *providers.Owner, snap *providers.Snapshot) providers.Resource {
	t.Helper()
	all := get(t, o, snap)
	r, ok := all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}]
	if !ok {
		t.Fatalf("no instance i-1 in %v", all)
	}
	return r
}

// reasons gives why resources of a kind are not compared.
func reasons(all map[providers.ID]providers.Resource, kind string) []string {
	var out []string
	for id, r := range all {
		if id.Kind == kind && r.Unchecked != "" {
			out = append(out, r.Unchecked)
		}
	}
	return out
}

// checkField compares one wanted field; nil means that it is not wanted.
func checkField(t *testing.T, r providers.Resource, path string, want any) {
	t.Helper()
	if diff := cmp.Diff(want, plain(r, path)); diff != "" {
		t.Errorf("%s %s (-want +got):\n%s", r.ID, path, diff)
	}
}

// plain gives a wanted value with its match, if any, in front.
func plain(r providers.Resource, path string) any {
	f, ok := r.Fields.Lookup(path)
	switch {
	case !ok:
		return nil
	case f.Match != providers.Exactly:
		return f.Match.String() + " " + f.Value.Text()
	case f.Value.IsAbsent():
		return "absent"
	case f.Value.IsSet():
		return f.Value.Elements()
	}
	return f.Value.Any()
}

func conditionTrue(kind clusterv1beta1.ConditionType, at time.Time) clusterv1beta1.Conditions {
	return clusterv1beta1.Conditions{{Type: kind, Status: "True", LastTransitionTime: metav1.NewTime(at)}}
}

func pt[T any](v T) *T { return &v }
