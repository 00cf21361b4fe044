package remediation_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
	"github.com/holdfast-io/holdfast/reconcilers/remediation"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/remediator"
)

// world is a namespace of a real API server with one cluster, a cloud in
// memory, and a clock that a test moves. A stand-in plays Cluster API's
// controllers: see capi_test.go.
type world struct {
	t     *testing.T
	ns    string
	clock *clocktesting.FakeClock
	cloud *fake.Provider
	api   client.Client // the test's own
	capi  standIn
	set   *policies.Set
	kinds *inventory.Kinds
	proc  *process
	// touched are the machines that a sweep reads: the others are well.
	touched map[string]bool
	told    []string
	// restart, if not nil, needs several calls for each change.
	restart *restart
	// by is who is said to have changed what is read; after are called when the
	// controller has read an owner of that name.
	by    string
	after map[string]func()
}

var start = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

const policyHead = "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: p}\nspec:\n  mode: enforce\n"

// policyBase lets one action at a time run, as soon as it is seen.
const policyBase = `  safety: {maxDriftRatio: 100%, minHealthy: 50%, controlPlane: enforce}
  budgets: [{scope: cluster, max: 1}]
  rules:
  - {id: tags, target: {kind: Instance}, paths: [/tags], action: patch, grace: {for: 0s}, attempts: {max: 3, per: 24h}}
  - {id: key, target: {kind: Instance}, paths: [/keyName], action: replace, grace: {for: 0s}, attempts: {max: 3, per: 24h}REPLACE}
  - {id: type, target: {kind: Instance}, paths: [/instanceType], action: patch, disruptive: allowed, grace: {for: 0s}}
  - {id: gone, target: {kind: Instance, statuses: [Missing]}, action: replace, grace: {for: 0s}REPLACE}
`

func newWorld(t *testing.T, policy string) *world {
	t.Helper()
	cfg := controlPlane(t)
	w := &world{t: t, clock: clocktesting.NewFakeClock(start), touched: map[string]bool{}}
	w.ns = strings.ToLower(strings.NewReplacer("/", "-", "_", "-", " ", "-", ",", "").Replace(t.Name()))
	if len(w.ns) > 50 {
		w.ns = w.ns[:30] + fmt.Sprintf("-%x", hash(w.ns))
	}
	w.ns = strings.Trim(w.ns, "-")
	w.cloud = fake.New("111122223333", "eu-central-1", w.clock.Now, providers.KindInstance, providers.KindVPC)
	var err error
	registration := w.cloud.Registration(func(s *runtime.Scheme) error { return infrav1.AddToScheme(s) },
		providers.OwnerKind{GVK: infrav1.GroupVersion.WithKind("AWSMachine"), Role: providers.RoleMachine},
		providers.OwnerKind{GVK: infrav1.GroupVersion.WithKind("AWSCluster"), Role: providers.RoleCluster})
	if w.kinds, err = inventory.NewKinds(registration); err != nil {
		t.Fatal(err)
	}
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, controlplanev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(w.kinds.Scheme()); err != nil {
			t.Fatal(err)
		}
	}
	if w.api, err = client.New(cfg, client.Options{Scheme: w.kinds.Scheme()}); err != nil {
		t.Fatal(err)
	}
	w.capi = standIn{world: w}
	w.policy(policy)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}})
	w.build()
	w.start()
	return w
}

func hash(s string) uint32 {
	h := uint32(2166136261)
	for _, b := range []byte(s) {
		h = (h ^ uint32(b)) * 16777619
	}
	return h
}

// policy sets the policy: the base one, with what is given in place of REPLACE,
// or another one.
func (w *world) policy(text string) {
	w.t.Helper()
	if !strings.HasPrefix(text, "  ") {
		text = strings.ReplaceAll(policyBase, "REPLACE", text)
	}
	set, problems := policies.LoadSources(policies.Options{}, policies.Source{Name: "p.yaml", Data: []byte(policyHead + text)})
	if err := problems.Err(); err != nil {
		w.t.Fatal(err)
	}
	w.set = set
}

func (w *world) ctx() context.Context { return context.Background() }

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.api.Create(w.ctx(), o); err != nil {
		w.t.Fatal(err)
	}
}

// update changes an object, and its status, as it is now.
func (w *world) update(o client.Object, change func()) {
	w.t.Helper()
	if err := w.api.Get(w.ctx(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
	change()
	status := o.DeepCopyObject().(client.Object)
	if err := w.api.Update(w.ctx(), o); err != nil {
		w.t.Fatal(err)
	}
	status.SetResourceVersion(o.GetResourceVersion())
	if err := w.api.Status().Update(w.ctx(), status); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) meta(name string, labels map[string]string) metav1.ObjectMeta {
	all := map[string]string{clusterv1.ClusterNameLabel: "eu"}
	maps.Copy(all, labels)
	return metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: all}
}

func controlledBy(o client.Object, apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true)}}
}

var coreVersion = clusterv1.GroupVersion.String()

// build makes the cluster: a MachineDeployment of four and a control plane of
// three, all well.
func (w *world) build() {
	infra := &infrav1.AWSCluster{ObjectMeta: w.meta("eu", nil)}
	cluster := &clusterv1.Cluster{ObjectMeta: w.meta("eu", nil)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSCluster", Name: "eu"}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "cp"}
	w.create(cluster)
	w.update(cluster, func() { cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true) })
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: coreVersion, Kind: "Cluster", Name: "eu", UID: cluster.UID}}
	w.create(infra)
	template := clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{clusterv1.ClusterNameLabel: "eu", clusterv1.MachineDeploymentNameLabel: "a"}},
		Spec: clusterv1.MachineSpec{ClusterName: "eu", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("x")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachineTemplate", Name: "a"}},
	}
	selector := metav1.LabelSelector{MatchLabels: template.Labels}
	md := &clusterv1.MachineDeployment{ObjectMeta: w.meta("a", nil),
		Spec: clusterv1.MachineDeploymentSpec{ClusterName: "eu", Replicas: ptr.To(int32(4)), Selector: selector, Template: template}}
	w.create(md)
	ms := &clusterv1.MachineSet{ObjectMeta: w.meta("a-1", map[string]string{clusterv1.MachineDeploymentNameLabel: "a"}),
		Spec: clusterv1.MachineSetSpec{ClusterName: "eu", Replicas: ptr.To(int32(4)), Selector: selector, Template: template}}
	ms.OwnerReferences = controlledBy(md, coreVersion, "MachineDeployment")
	w.create(ms)
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: w.meta("cp", nil)}
	kcp.Spec.Replicas, kcp.Spec.Version = ptr.To(int32(3)), "v1.36.0"
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachineTemplate", Name: "cp"}
	w.create(kcp)
	for range 4 {
		w.capi.machine(ms, coreVersion, "MachineSet", map[string]string{clusterv1.MachineDeploymentNameLabel: "a", clusterv1.MachineSetNameLabel: "a-1"})
	}
	for range 3 {
		w.capi.machine(kcp, controlplanev1.GroupVersion.String(), "KubeadmControlPlane", map[string]string{clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineControlPlaneNameLabel: "cp"})
	}
	w.capi.step()
	w.tick()
}

// tick waits for the API server's clock to show another second than when the
// last object was made, so that times tell what came first.
func (w *world) tick() {
	w.t.Helper()
	var first time.Time
	for i := 0; ; i++ {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: fmt.Sprint("tick-", len(w.told), "-", i)}}
		w.create(c)
		if first.IsZero() {
			first = c.CreationTimestamp.Time
		}
		if c.CreationTimestamp.After(first) {
			return
		}
	}
}

// start makes a new process: it knows nothing but what is stored.
func (w *world) start() {
	w.t.Helper()
	w.proc = w.process(-1)
}

func (w *world) process(dieAfter int) *process {
	w.t.Helper()
	p := &process{world: w, dieAfter: dieAfter}
	c := p.client(w.api)
	p.store = &remediation.Store{Client: c, Reader: c, Namespace: w.ns, Now: w.clock.Now,
		Told: func(_ context.Context, from v1alpha1.RemediationPhase, r *v1alpha1.Remediation) {
			w.told = append(w.told, fmt.Sprintf("%s %s->%s %s", r.Spec.Owner.Name, from, r.Status.Phase, r.Status.Reason))
		}}
	live := &inventory.Live{Kinds: w.kinds, Reader: c, Mapper: w.api.RESTMapper(), Namespaces: []string{w.ns}}
	p.daemon = &sweep.Daemon{
		Providers: map[string]providers.Provider{fake.Name: w.cloud}, Load: live.Load,
		Policies: func() *policies.Set { return w.set }, Records: p.store, Clock: w.clock, StartSpread: -1,
	}
	objects := remediator.Objects{Reader: c, Mapper: w.api.RESTMapper()}
	p.controller = &remediation.Controller{
		Store: p.store, Daemon: p, Appliers: map[string]providers.Applier{fake.Name: p},
		Replacer: &remediator.Replacer{Objects: objects, Client: c},
		// The workload cluster is the same API server: its nodes and Pods are real.
		Drainer: &remediator.Drainer{Objects: objects, Client: c, Remote: func(context.Context, types.NamespacedName) (client.Client, error) {
			return c, nil
		}},
	}
	return p
}

// sweep reads each touched machine's owner as a sweep does, and has records made.
func (p *process) sweep() error {
	for _, m := range p.world.owners() {
		if p.dead {
			return errKilled
		}
		if !p.world.touched[m.Name] {
			continue
		}
		o, err := p.read(p.world.ctx(), p.world.cluster(), m)
		if err != nil {
			return err
		}
		if err := p.store.Consume(p.world.ctx(), o); err != nil {
			return err
		}
	}
	return nil
}

// run lets Cluster API and the process work until nothing more happens within
// the time.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	if err := w.proc.run(d); err != nil {
		w.t.Fatal(err)
	}
}

// run sweeps every minute and takes each record's next step, as the clock goes
// on by ten seconds a round.
func (p *process) run(d time.Duration) error {
	w := p.world
	for end, round := w.clock.Now().Add(d), 0; w.clock.Now().Before(end); round++ {
		if round%6 == 0 {
			if err := p.sweep(); err != nil {
				return err
			}
		}
		for _, r := range w.records() {
			if err := p.reconcile(r.Name); err != nil {
				return err
			}
		}
		w.capi.step()
		w.clock.Step(10 * time.Second)
	}
	return nil
}

func (w *world) records() []v1alpha1.Remediation {
	w.t.Helper()
	list := &v1alpha1.RemediationList{}
	if err := w.api.List(w.ctx(), list, client.InNamespace(w.ns)); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Remediation) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// record gives the one record of a machine.
func (w *world) record(machine string) *v1alpha1.Remediation {
	w.t.Helper()
	var found []*v1alpha1.Remediation
	for _, r := range w.records() {
		if r.Spec.Owner.Name == machine {
			found = append(found, r.DeepCopy())
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d records of %s: %v", len(found), machine, w.story())
	}
	return found[0]
}

func (w *world) story() string { return strings.Join(w.told, "\n\t") }

// phase expects the phase and reason of the one record of a machine.
func (w *world) phase(machine string, phase v1alpha1.RemediationPhase, reason string) *v1alpha1.Remediation {
	w.t.Helper()
	r := w.record(machine)
	if r.Status.Phase != phase || reason != "" && r.Status.Reason != reason {
		w.t.Fatalf("%s is %s (%s: %s), want %s (%s)\n\t%s", machine, r.Status.Phase, r.Status.Reason, r.Status.Message, phase, reason, w.story())
	}
	return r
}

func (w *world) edit(r *v1alpha1.Remediation, change func(*v1alpha1.Remediation)) {
	w.t.Helper()
	if err := w.api.Get(w.ctx(), client.ObjectKeyFromObject(r), r); err != nil {
		w.t.Fatal(err)
	}
	change(r)
	if err := w.api.Update(w.ctx(), r); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) machines() []clusterv1.Machine {
	w.t.Helper()
	list := &clusterv1.MachineList{}
	if err := w.api.List(w.ctx(), list, client.InNamespace(w.ns)); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func (w *world) find(name string) *clusterv1.Machine {
	w.t.Helper()
	for _, m := range w.machines() {
		if m.Name == name {
			return &m
		}
	}
	return nil
}

func (w *world) owners() []providers.OwnerRef {
	w.t.Helper()
	list := &infrav1.AWSMachineList{}
	if err := w.api.List(w.ctx(), list, client.InNamespace(w.ns)); err != nil {
		w.t.Fatal(err)
	}
	var out []providers.OwnerRef
	for _, m := range list.Items {
		out = append(out, providers.OwnerRef{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSMachine", Namespace: w.ns, Name: m.Name, UID: m.UID})
	}
	infra := &infrav1.AWSCluster{}
	w.get("eu", infra)
	out = append(out, providers.OwnerRef{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSCluster", Namespace: w.ns, Name: "eu", UID: infra.UID})
	return out
}

func idOf(machine string) providers.ID {
	return providers.ID{Kind: providers.KindInstance, Name: "i-" + machine}
}

// tamper changes a field of a machine's instance.
func (w *world) tamper(machine, path, value string) {
	w.t.Helper()
	w.touched[machine] = true
	if !w.cloud.Alter(idOf(machine), func(r *providers.Resource) {
		if value == "" {
			r.Fields.Delete(path)
			return
		}
		r.Set(path, providers.Field{Value: providers.String(value)})
	}) {
		w.t.Fatalf("no instance of %s", machine)
	}
}

func (w *world) have(machine, path string) string {
	snap, err := w.cloud.Observe(w.ctx(), providers.Scope{})
	if err != nil || snap.Resources[idOf(machine)] == nil {
		w.t.Fatalf("no instance of %s: %v", machine, err)
	}
	return snap.Resources[idOf(machine)].Fields.Get(path).Value.Text()
}

// applied counts the changes that the cloud was asked for.
func (w *world) applied() (n int) {
	for _, c := range w.cloud.Calls() {
		if c.Op == fake.OpApply {
			n++
		}
	}
	return n
}

func condition(m *clusterv1.Machine, kind string, holds bool, reason string) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason})
}

func nothing(*providers.Resource) {}

func (w *world) get(name string, o client.Object) {
	w.t.Helper()
	if err := w.api.Get(w.ctx(), client.ObjectKey{Namespace: w.ns, Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
}
