package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

const (
	ns        = "prod"
	finalizer = "test.holdfast.io/machine"
	pool      = 4
)

var (
	start       = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	coreVersion = clusterv1.GroupVersion.String()
)

const stalePolicy = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: p}
spec:
  mode: enforce
  safety: {maxDriftRatio: 100%%, minHealthy: 50%%, controlPlane: enforce}
  budgets: [{scope: cluster, max: 1}]
  rules:
  - {id: tags, target: {kind: Instance}, paths: [/tags], action: patch, grace: {for: 0s}, attempts: {max: 5, per: 24h}}
  - {id: key, target: {kind: Instance}, paths: [/keyName], action: replace, grace: {for: 0s}, attempts: {max: 5, per: 24h}, replace: {strategy: %[1]s}}
  - {id: gone, target: {kind: Instance, statuses: [Missing]}, action: replace, grace: {for: 0s}, replace: {strategy: %[1]s}}
`

// world is a cluster in a store, a cloud in memory, a clock, Cluster API's
// controllers in as few words as can be, and people who change things.
type world struct {
	rand  *rand.Rand
	clock *clocktesting.FakeClock
	cloud *fake.Provider
	store *store
	kinds *inventory.Kinds
	set   *policies.Set
	made  int
	story []string
}

func (w *world) log(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%6s v%-4d ", w.clock.Since(start), len(w.store.states)-1)+fmt.Sprintf(format, args...))
}

func must(err error) {
	if err != nil {
		panic(err) // the test's own world is at fault
	}
}

func newStaleWorld(r *rand.Rand, strategy string) *world {
	w := &world{rand: r, clock: clocktesting.NewFakeClock(start)}
	w.cloud = fake.New("111122223333", "eu-central-1", w.clock.Now, providers.KindInstance, providers.KindVPC)
	var err error
	w.kinds, err = inventory.NewKinds(w.cloud.Registration(func(s *runtime.Scheme) error { return infrav1.AddToScheme(s) },
		providers.OwnerKind{GVK: infrav1.GroupVersion.WithKind("AWSMachine"), Role: providers.RoleMachine},
		providers.OwnerKind{GVK: infrav1.GroupVersion.WithKind("AWSCluster"), Role: providers.RoleCluster}))
	must(err)
	must(v1alpha1.AddToScheme(w.kinds.Scheme()))
	must(controlplanev1.AddToScheme(w.kinds.Scheme()))
	w.store = newStore(w.kinds.Scheme(), w.clock.Now)
	set, problems := policies.LoadSources(policies.Options{}, policies.Source{Name: "p.yaml", Data: fmt.Appendf(nil, stalePolicy, strategy)})
	must(problems.Err())
	w.set = set
	w.build()
	return w
}

func (w *world) meta(name string, labels map[string]string) metav1.ObjectMeta {
	all := map[string]string{clusterv1.ClusterNameLabel: "eu"}
	for k, v := range labels {
		all[k] = v
	}
	return metav1.ObjectMeta{Namespace: ns, Name: name, Labels: all}
}

func controlledBy(o client.Object, apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true)}}
}

func (w *world) create(o client.Object) { must(w.store.create(o)) }

// get reads what is; it reports whether there is one.
func (w *world) get(name string, o client.Object) bool {
	k, err := w.store.keyOf(o, types.NamespacedName{Namespace: ns, Name: name})
	must(err)
	return w.store.get(w.store.latest(), k, o) == nil
}

// edit changes an object and its status, if it is there and the change does.
func (w *world) edit(o client.Object, change func()) {
	name := o.GetName()
	if !w.get(name, o) {
		return
	}
	change()
	status := o.DeepCopyObject().(client.Object)
	must(w.store.update(o, false))
	if !w.get(name, o) {
		return // its finalizer was the last
	}
	status.SetResourceVersion("")
	must(w.store.update(status, true))
}

func (w *world) build() {
	cluster := &clusterv1.Cluster{ObjectMeta: w.meta("eu", nil)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSCluster", Name: "eu"}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "cp"}
	w.create(cluster)
	infra := &infrav1.AWSCluster{ObjectMeta: w.meta("eu", nil)}
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: coreVersion, Kind: "Cluster", Name: "eu", UID: cluster.UID}}
	w.create(infra)
	template := clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{clusterv1.ClusterNameLabel: "eu", clusterv1.MachineDeploymentNameLabel: "a"}},
		Spec: clusterv1.MachineSpec{ClusterName: "eu", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("x")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachineTemplate", Name: "a"}},
	}
	selector := metav1.LabelSelector{MatchLabels: template.Labels}
	md := &clusterv1.MachineDeployment{ObjectMeta: w.meta("a", nil),
		Spec: clusterv1.MachineDeploymentSpec{ClusterName: "eu", Replicas: ptr.To(int32(pool)), Selector: selector, Template: template}}
	w.create(md)
	ms := &clusterv1.MachineSet{ObjectMeta: w.meta("a-1", map[string]string{clusterv1.MachineDeploymentNameLabel: "a"}),
		Spec: clusterv1.MachineSetSpec{ClusterName: "eu", Replicas: ptr.To(int32(pool)), Selector: selector, Template: template}}
	ms.OwnerReferences = controlledBy(md, coreVersion, "MachineDeployment")
	w.create(ms)
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: w.meta("cp", nil)}
	kcp.Spec.Replicas, kcp.Spec.Version = ptr.To(int32(1)), "v1.36.0"
	w.create(kcp)
	for range pool {
		w.machine(fmt.Sprintf("a-1-m%d", w.made+1))
	}
	w.step()
}

func idOf(machine string) providers.ID {
	return providers.ID{Kind: providers.KindInstance, Name: "i-" + machine}
}

// machine makes one, with its infrastructure and instance, well and ready.
func (w *world) machine(name string) {
	w.made++
	ms := &clusterv1.MachineSet{}
	w.get("a-1", ms)
	labels := map[string]string{clusterv1.MachineDeploymentNameLabel: "a", clusterv1.MachineSetNameLabel: "a-1"}
	m := &clusterv1.Machine{ObjectMeta: w.meta(name, labels)}
	m.OwnerReferences, m.Finalizers = controlledBy(ms, coreVersion, "MachineSet"), []string{finalizer}
	m.Spec = clusterv1.MachineSpec{ClusterName: "eu", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("x")}, ProviderID: "aws:///z/i-" + name,
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachine", Name: name}}
	w.create(m)
	w.infra(m)
	fields := providers.FieldsOf(map[string]providers.Field{
		"/tags/team": {Value: providers.String("blue"), Mutability: providers.InPlace},
		"/keyName":   {Value: providers.String("k"), Mutability: providers.Immutable},
	})
	w.cloud.Want(providers.OwnerRef{Kind: "AWSMachine", Namespace: ns, Name: name}, providers.Resource{ID: idOf(name), Fields: fields, Since: w.clock.Now().Add(-24 * time.Hour)})
	w.cloud.Put(&providers.Resource{ID: idOf(name), Name: name, Fields: fields, Closed: []string{"/tags"}})
	w.edit(m, func() {
		m.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		condition(m, clusterv1.MachineReadyCondition, true, "X")
		condition(m, clusterv1.MachineUpToDateCondition, true, "X")
	})
}

func (w *world) infra(m *clusterv1.Machine) {
	o := &infrav1.AWSMachine{ObjectMeta: w.meta(m.Name, m.Labels)}
	o.Spec.InstanceType, o.Spec.ProviderID = "m5.large", ptr.To("aws:///z/i-"+m.Name)
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: coreVersion, Kind: "Machine", Name: m.Name, UID: m.UID}}
	w.create(o)
}

func condition(m *clusterv1.Machine, kind string, holds bool, reason string) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason})
}

func all[T any, P interface {
	*T
	client.Object
}](w *world) []P {
	var out []P
	k, err := w.store.keyOf(P(new(T)), types.NamespacedName{})
	must(err)
	for at := range w.store.latest() {
		if at.kind == k.kind {
			o := P(new(T))
			must(w.store.get(w.store.latest(), at, o))
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b P) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

func (w *world) machines() []*clusterv1.Machine { return all[clusterv1.Machine](w) }

// step is one round of Cluster API's controllers.
func (w *world) step() {
	for _, m := range w.machines() {
		_, asked := m.Annotations[clusterv1.RemediateMachineAnnotation]
		if asked && len(all[clusterv1.MachineHealthCheck](w)) > 0 && m.DeletionTimestamp.IsZero() {
			w.edit(m, func() {
				condition(m, clusterv1.MachineHealthCheckSucceededCondition, false, "X")
				condition(m, clusterv1.MachineOwnerRemediatedCondition, false, "WaitingForRemediation")
			})
		}
		if m.DeletionTimestamp.IsZero() && meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition) &&
			meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) {
			must(w.store.remove(m))
		} else if !m.DeletionTimestamp.IsZero() && w.rand.IntN(3) > 0 {
			w.finish(m)
		}
	}
	w.scale()
}

// finish lets a deleted Machine go, with its infrastructure and instance.
func (w *world) finish(m *clusterv1.Machine) {
	infra := &infrav1.AWSMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: m.Name}}
	_ = w.store.remove(infra) // it may have gone before
	w.cloud.Remove(idOf(m.Name))
	w.log("world: %s %s is gone", m.Name, m.UID)
	w.edit(m, func() { m.Finalizers = nil })
}

// scale is MachineDeployment and MachineSet.
func (w *world) scale() {
	md, ms := &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}
	w.get("a", md)
	w.get("a-1", ms)
	if *ms.Spec.Replicas != *md.Spec.Replicas {
		w.edit(ms, func() { ms.Spec.Replicas = md.Spec.Replicas })
	}
	var stay []*clusterv1.Machine
	for _, m := range w.machines() {
		if m.DeletionTimestamp.IsZero() {
			stay = append(stay, m)
		}
	}
	for n := len(stay); n < int(*ms.Spec.Replicas); n++ {
		w.machine(fmt.Sprintf("a-1-m%d", w.made+1))
	}
	slices.SortStableFunc(stay, func(a, b *clusterv1.Machine) int {
		_, x := a.Annotations[clusterv1.DeleteMachineAnnotation]
		_, y := b.Annotations[clusterv1.DeleteMachineAnnotation]
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	for i := range max(len(stay)-int(*ms.Spec.Replicas), 0) {
		w.log("world: %s is scaled away", stay[i].Name)
		must(w.store.remove(stay[i]))
	}
	n := int32(len(w.machines()))
	ready := int32(0)
	for _, m := range w.machines() {
		if m.DeletionTimestamp.IsZero() {
			ready++
		}
	}
	w.edit(md, func() {
		md.Status.ObservedGeneration = md.Generation
		md.Status.Replicas, md.Status.UpToDateReplicas, md.Status.ReadyReplicas = &n, &n, &ready
	})
	kcp := &controlplanev1.KubeadmControlPlane{}
	if w.get("cp", kcp); kcp.Status.ObservedGeneration != kcp.Generation {
		w.edit(kcp, func() {
			kcp.Status.ObservedGeneration = kcp.Generation
			kcp.Status.Replicas, kcp.Status.ReadyReplicas, kcp.Status.UpToDateReplicas = ptr.To(int32(1)), ptr.To(int32(1)), ptr.To(int32(1))
		})
	}
}

func clusterRef() detector.ClusterRef { return detector.ClusterRef{Namespace: ns, Name: "eu"} }

func ownerOf(m *infrav1.AWSMachine) providers.OwnerRef {
	return providers.OwnerRef{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSMachine", Namespace: ns, Name: m.Name, UID: m.UID}
}

// drifts reports whether an instance differs from what is wanted of it.
func (w *world) drifts(machine, path string) bool {
	snap, err := w.cloud.Observe(context.Background(), providers.Scope{Provider: fake.Name, Account: "111122223333", Region: "eu-central-1"})
	must(err)
	r := snap.Resources[idOf(machine)]
	if r == nil {
		return true
	}
	want := map[string]string{"/tags/team": "blue", "/keyName": "k"}
	if path != "" {
		return r.Fields.Get(path).Value.Text() != want[path]
	}
	return slices.ContainsFunc([]string{"/tags/team", "/keyName"}, func(p string) bool { return r.Fields.Get(p).Value.Text() != want[p] })
}
