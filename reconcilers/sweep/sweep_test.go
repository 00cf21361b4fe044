package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func noon() time.Time { return now }

// world is clusters on a fake cloud.
type world struct {
	t     *testing.T
	now   func() time.Time
	cloud *fake.Provider
	inv   *inventory.Inventory
}

func newWorld(t *testing.T) *world { return newWorldAt(t, noon) }

func newWorldAt(t *testing.T, now func() time.Time) *world {
	return &world{
		t:     t,
		now:   now,
		cloud: fake.New("111122223333", "eu-central-1", now, providers.KindInstance, providers.KindVPC),
		inv:   &inventory.Inventory{},
	}
}

// cluster adds a cluster with a VPC and n machines, all as wanted.
func (w *world) cluster(namespace, name string, n int) *inventory.Cluster {
	old := metav1.NewTime(w.now().Add(-24 * time.Hour))
	c := &inventory.Cluster{Object: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: old}}}
	c.Object.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	meta := func(object string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: object, CreationTimestamp: old}
	}
	infra := &infrav1.AWSCluster{ObjectMeta: meta(name)}
	infra.SetGroupVersionKind(infrav1.GroupVersion.WithKind("AWSCluster"))
	c.Infra = infra
	w.add(c, &inventory.Owner{Provider: fake.Name, Owner: providers.Owner{Ref: providers.RefOf(infra), Cluster: c.Object, Infra: infra}},
		providers.Resource{ID: providers.ID{Kind: providers.KindVPC, Name: "vpc-" + namespace + "-" + name},
			Fields: providers.FieldsOf(map[string]providers.Field{"/cidrBlock": {Value: providers.String("10.0.0.0/16"), Mutability: providers.Immutable}})})
	for i := range n {
		object := fmt.Sprintf("%s-%d", name, i)
		m := &infrav1.AWSMachine{ObjectMeta: meta(object)}
		m.SetGroupVersionKind(infrav1.GroupVersion.WithKind("AWSMachine"))
		w.add(c, &inventory.Owner{Provider: fake.Name, Owner: providers.Owner{
			Ref: providers.RefOf(m), Cluster: c.Object, Infra: m, Machine: provisioned(meta(object)), Pool: "MachineDeployment/md",
		}}, providers.Resource{ID: providers.ID{Kind: providers.KindInstance, Name: "i-" + namespace + "-" + object},
			Fields: providers.FieldsOf(map[string]providers.Field{"/instanceType": {Value: providers.String("m5.large"), Mutability: providers.InPlaceDisruptive}})})
	}
	w.inv.Clusters = append(w.inv.Clusters, c)
	return c
}

func (w *world) add(c *inventory.Cluster, o *inventory.Owner, want providers.Resource) {
	c.Owners = append(c.Owners, o)
	w.cloud.Want(o.Ref, want)
	seen := want.Clone()
	for path, f := range seen.Fields.All() {
		seen.Fields.Set(path, providers.Field{Value: f.Value})
	}
	w.cloud.Put(seen)
}

func (w *world) sweep() *Result {
	w.t.Helper()
	s := &Sweeper{Providers: map[string]providers.Provider{fake.Name: w.cloud}, Now: noon}
	before := w.cloud.Mutations()
	r, err := s.Run(w.t.Context(), w.inv)
	if err != nil {
		w.t.Fatal(err)
	}
	if n := w.cloud.Mutations() - before; n != 0 {
		w.t.Errorf("a sweep made %d changing calls", n)
	}
	return r
}

// outline makes one line of each decision.
func outline(r *Result) []string {
	var out []string
	for i := range r.Decisions {
		f := &r.Decisions[i].Finding
		line := fmt.Sprintf("%s %s %s", f.Owner, f.Resource.Kind, f.Status)
		for _, d := range f.Diffs {
			line += fmt.Sprintf(" %s %q→%q", d.Path, d.Want.Text(), d.Have.Text())
		}
		out = append(out, line)
	}
	return out
}

// nodes gives each machine a Node, which is there.
func (w *world) nodes() {
	w.cloud.Cover(providers.KindNode, nil)
	for _, c := range w.inv.Clusters {
		for _, o := range c.Owners[1:] {
			name := o.Ref.Namespace + "-" + o.Ref.Name
			w.cloud.Want(o.Ref, providers.Resource{ID: instance(name)}, providers.Resource{ID: node(name)})
			w.cloud.Put(&providers.Resource{ID: node(name)})
		}
	}
}

// node is the Node of NAMESPACE-CLUSTER-N.
func node(name string) providers.ID {
	parts := strings.SplitN(name, "-", 3)
	return providers.ID{Kind: providers.KindNode, Name: parts[0] + "/" + parts[1] + "/" + name}
}

func instance(name string) providers.ID {
	return providers.ID{Kind: providers.KindInstance, Name: "i-" + name}
}

func TestSweep(t *testing.T) {
	tests := map[string]struct {
		reason string
		breaks func(*world)
		want   []string
		// reasons that findings must give, by status or kind.
		say      string
		unusable string // the clusters' places
	}{
		"nothing drifts": {
			reason: "no finding without a difference",
			breaks: func(*world) {},
		},
		"a field": {
			reason: "the difference and nothing else",
			breaks: func(w *world) {
				w.cloud.Alter(instance("prod-c1-0"), func(r *providers.Resource) {
					r.Fields.Set("/instanceType", providers.Field{Value: providers.String("m5.xlarge")})
				})
			},
			want: []string{`AWSMachine prod/c1-0 Instance Drifted /instanceType "m5.large"→"m5.xlarge"`},
		},
		"one machine gone": {
			reason: "absent, old enough, and absent again when read live",
			breaks: func(w *world) { w.cloud.Remove(instance("prod-c1-1")) },
			want:   []string{`AWSMachine prod/c1-1 Instance Missing /state "present"→""`},
			say:    "absent again when read live",
		},
		"late in the bulk read": {
			reason: "eventual consistency is no loss (C45)",
			breaks: func(w *world) {
				w.cloud.PutLate(&providers.Resource{ID: instance("prod-c1-1"), Fields: providers.FieldsOf(map[string]providers.Field{"/instanceType": {Value: providers.String("m5.large")}})},
					now.Add(time.Hour), time.Time{})
			},
		},
		"absence that cannot be confirmed": {
			reason: "unknown is never absence",
			breaks: func(w *world) {
				w.cloud.Remove(instance("prod-c1-1"))
				w.cloud.Fail(fake.OpConfirm, errors.New("RequestLimitExceeded"))
			},
			want: []string{`AWSMachine prod/c1-1 Instance Unknown`},
			say:  "RequestLimitExceeded",
		},
		"everything gone": {
			reason: "the place that was read is more likely wrong than the cluster lost (C49)",
			breaks: func(w *world) {
				for _, name := range []string{"prod-c1-0", "prod-c1-1"} {
					w.cloud.Remove(instance(name))
				}
				w.cloud.Remove(providers.ID{Kind: providers.KindVPC, Name: "vpc-prod-c1"})
			},
			want: []string{
				`AWSCluster prod/c1 VPC Unknown`, `AWSMachine prod/c1-0 Instance Unknown`, `AWSMachine prod/c1-1 Instance Unknown`,
			},
			say: "check account, region, server and permissions",
		},
		"every instance gone, and the Nodes there": {
			reason: "Nodes are read from elsewhere, and prove no account right (C49)",
			breaks: func(w *world) {
				w.nodes()
				for _, name := range []string{"prod-c1-0", "prod-c1-1"} {
					w.cloud.Remove(instance(name))
				}
				w.cloud.Remove(providers.ID{Kind: providers.KindVPC, Name: "vpc-prod-c1"})
			},
			want: []string{
				`AWSCluster prod/c1 VPC Unknown`, `AWSMachine prod/c1-0 Instance Unknown`, `AWSMachine prod/c1-1 Instance Unknown`,
			},
			say: "check account, region, server and permissions",
		},
		"every Node gone, and the instances there": {
			reason: "the kubeconfig leads to another cluster (C49)",
			breaks: func(w *world) {
				w.nodes()
				w.cloud.Remove(node("prod-c1-0"))
				w.cloud.Remove(node("prod-c1-1"))
			},
			want: []string{`AWSMachine prod/c1-0 Node Unknown`, `AWSMachine prod/c1-1 Node Unknown`},
			say:  "check the Secret",
		},
		"one Node gone": {
			reason: "the other shows that the place is right",
			breaks: func(w *world) {
				w.nodes()
				w.cloud.Remove(node("prod-c1-0"))
			},
			want: []string{`AWSMachine prod/c1-0 Node Missing /state "present"→""`},
			say:  "absent again when read live",
		},
		"the only Node gone, and another cluster's there": {
			reason: "another cluster's API server proves nothing of this one's (C49)",
			breaks: func(w *world) {
				w.cluster("prod", "c2", 1)
				w.nodes()
				w.cloud.Remove(node("prod-c2-0"))
			},
			want: []string{`AWSMachine prod/c2-0 Node Unknown`},
			say:  "check the Secret",
		},
		"a kind that was not read": {
			reason: "the rest is still compared (C47)",
			breaks: func(w *world) {
				w.cloud.Cover(providers.KindInstance, errors.New("RequestLimitExceeded on page 3"))
				w.cloud.Alter(providers.ID{Kind: providers.KindVPC, Name: "vpc-prod-c1"}, func(r *providers.Resource) {
					r.Fields.Set("/cidrBlock", providers.Field{Value: providers.String("10.9.0.0/16")})
				})
			},
			want: []string{
				`AWSCluster prod/c1 VPC Drifted /cidrBlock "10.0.0.0/16"→"10.9.0.0/16"`,
				`AWSMachine prod/c1-0 Instance NotChecked`, `AWSMachine prod/c1-1 Instance NotChecked`,
			},
			say: "RequestLimitExceeded on page 3",
		},
		"a cloud that does not answer": {
			reason: "every owner is named with the reason",
			breaks: func(w *world) { w.cloud.Fail(fake.OpObserve, errors.New("connection refused")) },
			want: []string{
				`AWSCluster prod/c1 AWSCluster NotChecked`, `AWSMachine prod/c1-0 AWSMachine NotChecked`, `AWSMachine prod/c1-1 AWSMachine NotChecked`,
			},
			say: "connection refused",
		},
		"a wrong account": {
			reason: "a mismatch stops the cluster (C49)",
			breaks: func(w *world) {
				w.cloud.Fail(fake.OpScope, &providers.ScopeError{Reason: providers.ReasonWrongAccount, Err: errors.New("the caller is 999, the cluster 111")})
			},
			want: []string{
				`AWSCluster prod/c1 AWSCluster NotChecked`, `AWSMachine prod/c1-0 AWSMachine NotChecked`, `AWSMachine prod/c1-1 AWSMachine NotChecked`,
			},
			say:      "WrongAccount: ",
			unusable: providers.ReasonWrongAccount,
		},
		"a spec at fault": {
			reason: "its owner is unknown and the others are compared",
			breaks: func(w *world) {
				w.cloud.WantError(w.inv.Clusters[0].Owners[1].Ref, errors.New("subnet filter matches nothing"))
			},
			want: []string{`AWSMachine prod/c1-0 AWSMachine Unknown`},
			say:  "subnet filter matches nothing",
		},
		"an orphan": {
			reason: "it carries the cluster's tag and belongs to no object",
			breaks: func(w *world) {
				w.cloud.Put(&providers.Resource{ID: instance("stray"), ClusterTags: []string{"c1"}})
			},
			want: []string{`Cluster prod/c1 Instance Unexpected /state ""→"present"`},
		},
		"one tag, two clusters": {
			reason: "a tag alone never makes a claim (C50)",
			breaks: func(w *world) {
				w.cluster("test", "c1", 1)
				w.cloud.Put(&providers.Resource{ID: instance("stray"), ClusterTags: []string{"c1"}})
			},
			want: []string{`Cluster prod/c1 Instance Unknown`},
			say:  "its ownership tags fit several clusters: prod/c1, test/c1",
		},
		"one tag, and a namesake that was not selected": {
			reason: "what nobody selected wants it may have (C50)",
			breaks: func(w *world) {
				w.inv.Elsewhere = []inventory.Elsewhere{{Key: types.NamespacedName{Namespace: "test", Name: "c1"}, Provider: fake.Name}}
				w.cloud.Put(&providers.Resource{ID: instance("stray"), ClusterTags: []string{"c1"}})
			},
			want: []string{`Cluster prod/c1 Instance Unknown`},
			say:  "its ownership tags fit several clusters: prod/c1, test/c1",
		},
		"one tag, and a namesake of another provider": {
			reason: "it has nothing in this cloud",
			breaks: func(w *world) {
				w.inv.Elsewhere = []inventory.Elsewhere{{Key: types.NamespacedName{Namespace: "test", Name: "c1"}, Provider: "other"}}
				w.cloud.Put(&providers.Resource{ID: instance("stray"), ClusterTags: []string{"c1"}})
			},
			want: []string{`Cluster prod/c1 Instance Unexpected /state ""→"present"`},
		},
		"an instance whose machine is not compared": {
			reason: "it belongs to an object, if to none that was compared",
			breaks: func(w *world) {
				c := w.inv.Clusters[0]
				c.Uncompared = append(c.Uncompared, inventory.Uncompared{Provider: fake.Name, Reason: "no Machine refers to it",
					Ref: providers.OwnerRef{Kind: "AWSMachine", Namespace: "prod", Name: "c1-9"}})
				w.cloud.Put(&providers.Resource{ID: instance("stray"), ClusterTags: []string{"c1"}})
			},
			want: []string{`AWSMachine prod/c1-9 AWSMachine NotChecked`, `Cluster prod/c1 Instance Unknown`},
		},
		"an instance, and a machine that could not be read": {
			reason: "it may be that machine's",
			breaks: func(w *world) {
				w.inv.Problems = []inventory.Problem{{Object: "AWSMachine prod/c1-9", Reason: inventory.Unreadable}}
				w.cloud.Put(&providers.Resource{ID: instance("stray"), ClusterTags: []string{"c1"}})
			},
			want: []string{`Cluster prod/c1 Instance Unknown`},
			say:  "AWSMachine prod/c1-9 could not be read",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cluster("prod", "c1", 2)
			tc.breaks(w)
			r := w.sweep()
			if d := cmp.Diff(tc.want, outline(r)); d != "" {
				t.Errorf("%s: decisions (-want +got):\n%s", tc.reason, d)
			}
			for i := range r.Decisions {
				f := &r.Decisions[i].Finding
				if tc.say != "" && !strings.Contains(f.Reason, tc.say) && f.Status != "Drifted" {
					t.Errorf("%s: reason %q does not say %q", tc.reason, f.Reason, tc.say)
				}
			}
			for i := range r.Clusters {
				if got := r.Clusters[i].Unusable; got != tc.unusable {
					t.Errorf("%s: unusable for %q, want %q", tc.reason, got, tc.unusable)
				}
			}
		})
	}
}

// TestC29C57UncomparedKinds: what belongs to a cluster and is not compared, such
// as a machine pool, is a finding with its reason and counts as not checked,
// also where the cluster has nothing else.
func TestC29C57UncomparedKinds(t *testing.T) {
	w := newWorld(t)
	c := w.cluster("prod", "c1", 1)
	alone := &inventory.Cluster{Object: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "pools"}}}
	w.inv.Clusters = append(w.inv.Clusters, alone)
	pool := func(name string) inventory.Uncompared {
		return inventory.Uncompared{Ref: providers.OwnerRef{Kind: "AWSMachinePool", Namespace: "prod", Name: name}, Provider: fake.Name, Reason: "Auto Scaling groups are not compared"}
	}
	before := w.sweep()
	c.Uncompared = []inventory.Uncompared{pool("a")}
	alone.Uncompared = []inventory.Uncompared{pool("b"), pool("c")}
	after := w.sweep()
	want := []string{"AWSMachinePool prod/a AWSMachinePool NotChecked", "AWSMachinePool prod/b AWSMachinePool NotChecked", "AWSMachinePool prod/c AWSMachinePool NotChecked"}
	if diff := cmp.Diff(want, outline(after)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	for i := range after.Clusters {
		got := after.Clusters[i]
		more := map[string]int{"c1": 1, "pools": 2}[got.Ref.Name]
		if got.NotChecked != before.Clusters[i].NotChecked+more || got.Checked != before.Clusters[i].Checked {
			t.Errorf("%s: %d checked and %d not, before %d and %d", got.Ref, got.Checked, got.NotChecked, before.Clusters[i].Checked, before.Clusters[i].NotChecked)
		}
		for _, o := range got.Owners {
			if o.Ref.Kind == "AWSMachinePool" && len(o.InSync) > 0 {
				t.Errorf("%s is in sync", o.Ref)
			}
		}
	}
}

// TestOneSnapshotForAllClusters checks what a sweep costs: one read of the
// scope, whatever the number of clusters.
func TestOneSnapshotForAllClusters(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.cluster("prod", fmt.Sprintf("c%d", i), 3)
	}
	w.sweep()
	observed := 0
	for _, c := range w.cloud.Calls() {
		if c.Op == fake.OpObserve {
			observed++
		}
	}
	if observed != 1 {
		t.Errorf("the scope was read %d times for 10 clusters, want once", observed)
	}
}

// TestSameFindingsTwice checks that two sweeps of one state agree in content
// and order, whatever the scheduler does.
func TestSameFindingsTwice(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.cluster("prod", fmt.Sprintf("c%d", i), 20)
		w.cloud.Remove(instance(fmt.Sprintf("prod-c%d-3", i)))
		w.cloud.Alter(instance(fmt.Sprintf("prod-c%d-7", i)), func(r *providers.Resource) {
			r.Fields.Set("/instanceType", providers.Field{Value: providers.String("t3.nano")})
		})
	}
	first := outline(w.sweep())
	if len(first) != 10 {
		t.Fatalf("%d findings, want 10", len(first))
	}
	for range 20 {
		if d := cmp.Diff(first, outline(w.sweep())); d != "" {
			t.Fatalf("findings differ between runs (-first +later):\n%s", d)
		}
	}
	if !slices.IsSorted(first) {
		t.Errorf("findings are not in order: %v", first)
	}
}

func TestCancelled(t *testing.T) {
	w := newWorld(t)
	w.cluster("prod", "c1", 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &Sweeper{Providers: map[string]providers.Provider{fake.Name: w.cloud}, Now: noon}
	if _, err := s.Run(ctx, w.inv); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want cancellation", err)
	}
}

// provisioned is a Machine whose infrastructure has been there.
func provisioned(meta metav1.ObjectMeta) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: meta}
	m.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	return m
}
