package aws

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// catalogRow finds the row of a wanted field.
func catalogRow(kind, path string) (providers.CatalogRow, bool) {
	segments := providers.Segments(path)
	for _, row := range catalog {
		pattern := providers.Segments(row.Path)
		if row.Kind != kind || len(pattern) != len(segments) {
			continue
		}
		matches := true
		for i, p := range pattern {
			variable := p == strings.ToUpper(p)
			matches = matches && (variable || p == segments[i])
		}
		if matches {
			return row, true
		}
	}
	return providers.CatalogRow{}, false
}

func TestCatalogRows(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range catalog {
		key := row.Kind + row.Path
		if seen[key] {
			t.Errorf("%s %s stands twice", row.Kind, row.Path)
		}
		seen[key] = true
		if row.From == "" || row.Compare == "" || row.Source == "" || !strings.HasPrefix(row.Path, "/") {
			t.Errorf("%s %s is incomplete: %+v", row.Kind, row.Path, row)
		}
	}
	for _, kind := range readKinds {
		if !seen[kind+"/state"] {
			t.Errorf("%s has no row for its existence", kind)
		}
	}
}

// checkAny checks what holds for every owner and snapshot: no panic, no
// argument changed, equal results from equal arguments, each field in the
// catalog, and nothing claimed twice. It gives the wanted resources.
func checkAny(t *testing.T, o *providers.Owner, snap *providers.Snapshot) []providers.Resource {
	t.Helper()
	before := copyOf(o)
	seen := map[providers.ID]providers.Resource{}
	for id, r := range snap.Resources {
		seen[id] = cloneResource(r)
	}
	got, err := desired(o, snap)
	if err != nil {
		t.Fatalf("%s: %v", o.Ref, err)
	}
	if after := copyOf(o); !reflect.DeepEqual(before, after) {
		t.Errorf("%s was changed (-before +after):\n%s", o.Ref, cmp.Diff(before, after))
	}
	for id, r := range snap.Resources {
		if !reflect.DeepEqual(seen[id], *r) {
			t.Errorf("%s was changed:\n%s", id, cmp.Diff(seen[id], *r, cmp.AllowUnexported(providers.Value{})))
		}
	}
	again, _ := desired(o, snap)
	if !reflect.DeepEqual(got, again) {
		t.Errorf("%s differs from run to run:\n%s", o.Ref, cmp.Diff(got, again, cmp.AllowUnexported(providers.Value{})))
	}
	for i := range got {
		checkResource(t, &got[i])
	}
	return got
}

func checkResource(t *testing.T, r *providers.Resource) {
	t.Helper()
	if r.Unchecked != "" && (len(r.Fields) > 0 || strings.ContainsAny(r.Unchecked, "\n")) {
		t.Errorf("%s is not compared (%q) and wants %d fields", r.ID, r.Unchecked, len(r.Fields))
	}
	if r.ID.Name == "" && r.Unchecked == "" && !r.Unsettled {
		t.Errorf("a %s without id is to be compared", r.ID.Kind)
	}
	for path, f := range r.Fields.All() {
		row, ok := catalogRow(r.ID.Kind, path)
		switch {
		case !ok:
			t.Errorf("%s %s is not in the catalog", r.ID.Kind, path)
		case row.Mutability != f.Mutability:
			t.Errorf("%s %s is %q, and %q in the catalog", r.ID.Kind, path, f.Mutability, row.Mutability)
		case f.Value.IsAbsent() && !strings.HasPrefix(path, "/routes/"):
			t.Errorf("%s wants %s absent", r.ID, path)
		}
	}
}

func copyOf(o *providers.Owner) []client.Object {
	var out []client.Object
	for _, obj := range []client.Object{o.Cluster, o.Machine, o.Infra, o.InfraCluster} {
		if v := reflect.ValueOf(obj); v.IsValid() && !v.IsNil() {
			out = append(out, obj.DeepCopyObject().(client.Object))
		}
	}
	return out
}

func cloneResource(r *providers.Resource) providers.Resource {
	out := *r
	out.Fields = r.Fields.Clone()
	return out
}

// Random specs against random snapshots. Every row that a spec can want is
// wanted by some of them, so that no row only looks compared.
func TestRandomSpecs(t *testing.T) {
	const runs = 1000
	wanted := map[string]bool{}
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 1))
		snap := randomSnapshot(r)
		for _, o := range randomOwners(r) {
			for _, res := range checkAny(t, o, snap) {
				for path := range res.Fields.All() {
					row, _ := catalogRow(res.ID.Kind, path)
					wanted[row.Kind+row.Path] = true
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, row := range catalog {
		existence := row.Path == "/state" && row.Kind != providers.KindInstance && row.Kind != providers.KindNATGateway
		informational := slices.Contains([]string{"/userData", "/scheduledEvents"}, row.Path)
		if !wanted[row.Kind+row.Path] && !existence && !informational {
			t.Errorf("no spec wants %s %s", row.Kind, row.Path)
		}
	}
}

func FuzzDesired(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		snap := randomSnapshot(r)
		for _, o := range randomOwners(r) {
			checkAny(t, o, snap)
		}
	})
}

// asSeen makes of a wanted resource one that satisfies it.
func asSeen(w *providers.Resource) *providers.Resource {
	r := &providers.Resource{ID: w.ID, Name: w.Name}
	for path, f := range w.Fields.All() {
		switch {
		case f.Value.IsAbsent():
			continue
		case f.Match == providers.OneOf:
			r.Set(path, providers.Field{Value: providers.String(f.Value.Elements()[0])})
		default:
			r.Set(path, providers.Field{Value: f.Value})
		}
	}
	return r
}

// satisfied compares as the contract says a match does.
func satisfied(want providers.Field, have providers.Value) bool {
	switch want.Match {
	case providers.OneOf:
		return want.Value.Has(have.Text())
	case providers.Contains:
		return !slices.ContainsFunc(want.Value.Elements(), func(e string) bool { return !have.Has(e) })
	case providers.AtLeast:
		least, _ := want.Value.Number()
		n, ok := have.Number()
		return ok && n >= least
	default:
		return want.Value.Equal(have)
	}
}

// A cloud made exactly as wanted holds nothing that differs, also when the
// wanted state is resolved against it anew.
func TestWantedCloudIsInSync(t *testing.T) {
	cluster := genAWSCluster(withNetwork, withLB("nlb", func(s *infrav1.AWSLoadBalancerSpec) {
		s.HealthCheckProtocol = &infrav1.ELBProtocolHTTPS
		s.AdditionalListeners = []infrav1.AdditionalListenerSpec{{Port: 8132, Protocol: "TCP"}}
	}), func(c *infrav1.AWSCluster) {
		c.Spec.AdditionalTags = infrav1.Tags{"team": "a", "a/b~c": "d"}
		c.Spec.Bastion = infrav1.Bastion{Enabled: true, InstanceType: "t3.small"}
		c.Status.Bastion = &infrav1.Instance{ID: "i-b"}
		c.Status.Network.SecurityGroups[infrav1.SecurityGroupBastion] = infrav1.SecurityGroup{ID: "sg-bastion", Name: "c1-bastion"}
		c.Spec.NetworkSpec.VPC.EmptyRoutesDefaultVPCSecurityGroup = true
	})
	machine := genAWSMachine(spec(subnetRef("", "tag:Name", "c1-subnet-private-*")), spec(func(s *infrav1.AWSMachineSpec) {
		s.RootVolume = &infrav1.Volume{Size: 80, Type: "gp3", IOPS: 4000, Encrypted: pt(true)}
		s.NonRootVolumes = []infrav1.Volume{{DeviceName: "/dev/sdf", Size: 100}}
		s.AdditionalSecurityGroups = []infrav1.AWSResourceReference{{Filters: filters("group-name", "c1-*lb")}}
	}))
	owners := []*providers.Owner{clusterOwner(cluster), machineOwner(machine, controlPlane, inCluster(cluster))}
	snap := genSnapshot(
		seenNLB("/vpcId", "vpc-1"), seenGroup("sg-default", "default", "vpc-1"),
		seenResource(providers.KindNetworkACL, "acl-1", "/vpcId", "vpc-1", "/default", true),
	)
	for range 3 { // names are resolved against what the round before made
		for _, o := range owners {
			for _, w := range checkAny(t, o, snap) {
				if w.Unchecked != "" {
					continue
				}
				made := asSeen(&w)
				if old := snap.Resources[w.ID]; old != nil {
					for path, f := range old.Fields.All() {
						if _, ok := made.Fields.Lookup(path); !ok {
							made.Set(path, f)
						}
					}
				}
				snap.Resources[w.ID] = made
			}
		}
	}
	compared := 0
	for _, o := range owners {
		for _, w := range checkAny(t, o, snap) {
			if w.Unchecked != "" {
				t.Errorf("%s is not compared: %s", w.ID, w.Unchecked)
			}
			for path, f := range w.Fields.All() {
				compared++
				if have := snap.Resources[w.ID].Fields.Get(path).Value; !satisfied(f, have) {
					t.Errorf("%s %s: want %s %q, have %q", w.ID, path, f.Match, f.Value.Text(), have.Text())
				}
			}
		}
	}
	if compared < 150 {
		t.Errorf("only %d fields compared", compared)
	}
}
