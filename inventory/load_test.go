package inventory

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-io/holdfast/test/controlplane"
)

// listing records the lists of one kind that reach the API server.
type listing struct {
	mu    sync.Mutex
	lists []string
	fail  string
}

func (l *listing) over(c client.WithWatch) client.Reader {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			gvk, err := c.GroupVersionKindFor(list)
			if err != nil {
				return err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if gvk.Kind == "MachineList" && o.Continue == "" {
				selector := "all"
				if o.LabelSelector != nil {
					selector = o.LabelSelector.String()
				}
				l.lists = append(l.lists, o.Namespace+" "+selector)
			}
			if gvk.Kind == l.fail && o.Continue != "" {
				return errors.New("the server is shutting down")
			}
			return c.List(ctx, list, opts...)
		},
	})
}

func (l *listing) take() []string {
	out := l.lists
	l.lists = nil
	return out
}

// TestLive loads from a real API server what a daemon reads again and again.
func TestLive(t *testing.T) {
	ctx := t.Context()
	kinds := awsKinds(t)
	c, err := client.NewWithWatch(controlplane.Start(t), client.Options{Scheme: kinds.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	const machines = pageSize + 1
	populate(ctx, t, c, machines) // prod/c1
	secret := "bootstrap"
	create := func(o client.Object) {
		t.Helper()
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	machine := func(ns, cluster, name string, labels map[string]string) {
		t.Helper()
		meta := metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}
		create(&infrav1.AWSMachine{ObjectMeta: meta, Spec: infrav1.AWSMachineSpec{InstanceType: "m5.large"}})
		create(&clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{ClusterName: cluster, Bootstrap: clusterv1.Bootstrap{DataSecretName: &secret},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachine", Name: name}}})
	}
	cluster := func(ns, name string) {
		t.Helper()
		meta := metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name}}
		create(&infrav1.AWSCluster{ObjectMeta: meta, Spec: infrav1.AWSClusterSpec{Region: "eu-central-1"}})
		create(&clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSCluster", Name: name}}})
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test"}})
	cluster("prod", "c2")
	cluster("test", "c3")
	machine("prod", "c2", "w1", map[string]string{clusterv1.ClusterNameLabel: "c2"})
	machine("test", "c3", "v1", map[string]string{clusterv1.ClusterNameLabel: "c3"})

	lists := &listing{}
	live := &Live{Kinds: kinds, Reader: lists.over(c), Mapper: c.RESTMapper()}
	key := func(ns, name string) types.NamespacedName { return types.NamespacedName{Namespace: ns, Name: name} }
	load := func(s Selection) *Inventory {
		t.Helper()
		inv, err := live.Load(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		return inv
	}
	shape := func(inv *Inventory) map[string]int {
		out := map[string]int{}
		for _, c := range inv.Clusters {
			out[c.Key().String()] = len(c.Owners)
		}
		for _, e := range inv.Elsewhere {
			out["elsewhere "+e.Key.String()] = e.Machines
		}
		return out
	}
	check := func(what string, inv *Inventory, want map[string]int, wantLists ...string) {
		t.Helper()
		if d := cmp.Diff(want, shape(inv)); d != "" {
			t.Errorf("%s: (-want +got):\n%s", what, d)
		}
		if d := cmp.Diff(wantLists, lists.take()); d != "" {
			t.Errorf("%s: lists of Machines (-want +got):\n%s", what, d)
		}
		for _, p := range inv.Problems {
			t.Errorf("%s: %s", what, p.Message)
		}
	}
	only := Selection{Exactly: []types.NamespacedName{key("prod", "c2")}, Narrow: true}
	mine := map[string]int{"prod/c2": 2, "elsewhere prod/c1": 0, "elsewhere test/c3": 0}
	check("nothing", load(Selection{Exactly: []types.NamespacedName{}}), map[string]int{"elsewhere prod/c1": 0, "elsewhere prod/c2": 0, "elsewhere test/c3": 0})
	check("narrow, before anything is known of labels", load(only), mine, "prod all")
	check("everything", load(Selection{}), map[string]int{"prod/c1": machines + 1, "prod/c2": 2, "test/c3": 2}, " all")
	check("narrow", load(only), mine, "prod cluster.x-k8s.io/cluster-name=c2")
	check("a namespace", load(Selection{Exactly: []types.NamespacedName{key("prod", "c1"), key("prod", "c2")}}),
		map[string]int{"prod/c1": machines + 1, "prod/c2": 2, "elsewhere test/c3": 0}, "prod all")

	inv := load(Selection{Exactly: []types.NamespacedName{key("prod", "c2")}, Others: func(m *clusterv1.Machine) bool { return m.Name == "v1" }})
	check("with the others counted", inv, map[string]int{"prod/c2": 2, "elsewhere prod/c1": machines, "elsewhere test/c3": 1}, "prod all", " all")
	if busy := inv.Elsewhere[1].Busy; len(busy) != 1 || busy[0].Name != "v1" {
		t.Errorf("chosen among the others: %v", busy)
	}
	if o := inv.Clusters[0].Owners[1]; o.Machine == nil || o.Infra.GetManagedFields() != nil || o.Machine.ManagedFields != nil ||
		o.Ref.UID == "" || o.Ref.APIVersion != infrav1.GroupVersion.String() {
		t.Errorf("owner %+v with %d managed fields", o.Ref, len(o.Infra.GetManagedFields()))
	}

	machine("prod", "c2", "w2", nil)
	load(Selection{Exactly: []types.NamespacedName{key("prod", "c2")}})
	lists.take()
	check("narrow, with an object that has no label", load(only), map[string]int{"prod/c2": 3, "elsewhere prod/c1": 0, "elsewhere test/c3": 0}, "prod all")

	lists.fail = "AWSMachineList" // on its second page
	if _, err := live.Load(ctx, Selection{}); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("a page that failed gave %v", err)
	}
	lists.fail = ""
	lists.take()

	live.Namespaces = []string{"test"}
	inv = load(Selection{})
	check("one namespace alone", inv, map[string]int{"test/c3": 2, "elsewhere prod/c1": 0, "elsewhere prod/c2": 0}, "test all")
	if inv.Unlisted != "" {
		t.Errorf("unlisted: %s", inv.Unlisted)
	}
}
