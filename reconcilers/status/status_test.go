package status_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	capv "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

// TestMain fails the package if anything goes on after its tests, and keeps
// controller-runtime from complaining that nobody took its log.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

// TestOnAPIServer runs what needs a real one on one.
func TestOnAPIServer(t *testing.T) {
	cfg := controlplane.Start(t)
	for name, run := range map[string]func(*testing.T, *rest.Config){
		"life of a drift":           testConditions,
		"atomic list":               testAtomicList,
		"failed read flips nothing": testFailedReadFlipsNothing,
		"infrastructure drifted":    testInfrastructureDrifted,
		"conflicts and others":      testConflictsAndOthers,
		"targeted read":             testTargetedRead,
	} {
		t.Run(name, func(t *testing.T) { run(t, cfg) })
	}
}

func (w *world) machine(t *testing.T, key client.ObjectKey) *clusterv1.Machine {
	t.Helper()
	m := &clusterv1.Machine{}
	if err := w.client.Get(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func drift(t *testing.T, conditions []metav1.Condition, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		t.Fatalf("no condition %s among %v", kind, conditions)
	}
	return *c
}

// testConditions goes through the life of one drift on a real API server: on
// the three places where contracts keep conditions.
func testConditions(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg)
	s := w.sink(t)

	w.consume(t, s)
	if w.taken() == 0 {
		t.Fatal("the first sweep writes nothing")
	}
	for _, e := range w.events.taken() {
		t.Errorf("a first look at what is in sync tells the event %q", e)
	}
	worker := w.aws.Machines[len(w.aws.Machines)-1]
	key := client.ObjectKeyFromObject(worker)
	if c := drift(t, w.machine(t, key).Status.Conditions, v1alpha1.ConditionDriftDetected); c.Status != metav1.ConditionFalse || c.Reason != "InSync" || c.ObservedGeneration == 0 {
		t.Errorf("in sync: %+v", c)
	}
	vm := &capv.VSphereMachine{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(w.vsphere.VSphereMachines[0]), vm); err != nil {
		t.Fatal(err)
	}
	if c := drift(t, vm.Status.Conditions, v1alpha1.ConditionDriftDetected); c.Status != metav1.ConditionFalse {
		t.Errorf("VSphereMachine in sync: %+v", c)
	}

	// Steady state, and a new process: nothing is written.
	w.consume(t, s)
	w.now = w.now.Add(time.Hour)
	w.consume(t, w.sink(t))
	if n := w.taken(); n != 0 {
		t.Errorf("%d writes while nothing changes", n)
	}

	damage := w.tamper(t, "tag changed")
	machine := w.machineOf(t, damage.Findings[0].ID)
	w.consume(t, s)
	after := w.machine(t, machine)
	c := drift(t, after.Status.Conditions, v1alpha1.ConditionDriftDetected)
	if c.Status != metav1.ConditionTrue || c.Reason != "Drifted" || !strings.Contains(c.Message, "Instance "+damage.Findings[0].ID+": /tags/") || !strings.Contains(c.Message, "held back by") {
		t.Errorf("drifted: %+v", c)
	}
	if c := drift(t, after.Status.Conditions, v1alpha1.ConditionInfrastructureDrifted); c.Status != metav1.ConditionFalse {
		t.Errorf("a patch in mode observe replaces nothing: %+v", c)
	}
	if d := cmp.Diff([]string{"Warning DriftDetected Machine/" + machine.Name}, w.events.taken()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	// The Machine, its AWSMachine and the Cluster.
	if n := w.taken(); n != 3 {
		t.Errorf("%d writes, want 3", n)
	}
	cluster := &clusterv1.Cluster{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(w.aws.Cluster), cluster); err != nil {
		t.Fatal(err)
	}
	if c := drift(t, cluster.Status.Conditions, v1alpha1.ConditionDriftDetected); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "AWSMachine ") {
		t.Errorf("cluster: %+v", c)
	}
	if err := damage.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.consume(t, s)
	if c := drift(t, w.machine(t, machine).Status.Conditions, v1alpha1.ConditionDriftDetected); c.Status != metav1.ConditionFalse {
		t.Errorf("resolved: %+v", c)
	}
	if d := cmp.Diff([]string{"Normal DriftResolved Machine/" + machine.Name}, w.events.taken()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// machineOf gives the Machine of an instance.
func (w *world) machineOf(t *testing.T, instance string) client.ObjectKey {
	t.Helper()
	for i, m := range w.aws.AWSMachines {
		if m.Spec.InstanceID != nil && *m.Spec.InstanceID == instance {
			return client.ObjectKeyFromObject(w.aws.Machines[i])
		}
	}
	t.Fatalf("no machine has instance %s", instance)
	return client.ObjectKey{}
}

// testAtomicList: CAPA's list of conditions is one value to the API server.
// Ours comes and goes, and nothing else of it changes; what CAPA writes between
// our read and our write stays.
func testAtomicList(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg)
	m := w.aws.AWSMachines[0]
	key := client.ObjectKeyFromObject(m)
	others := func() []clusterv1beta1.Condition {
		live := &capa.AWSMachine{}
		if err := w.client.Get(t.Context(), key, live); err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(slices.Clone(live.Status.Conditions), func(c clusterv1beta1.Condition) bool { return c.Type == v1alpha1.ConditionDriftDetected })
	}
	live := &capa.AWSMachine{}
	if err := w.client.Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(w.now.Truncate(time.Second))
	live.Status.Conditions = clusterv1beta1.Conditions{
		{Type: "Ready", Status: corev1.ConditionTrue, LastTransitionTime: at},
		{Type: "InstanceReady", Status: corev1.ConditionFalse, Severity: "Error", Reason: "Gone", Message: "m", LastTransitionTime: at},
	}
	if err := w.client.Status().Patch(t.Context(), live, client.Merge); err != nil {
		t.Fatal(err)
	}
	before := others()
	s := w.sink(t)
	w.consume(t, s)
	if d := cmp.Diff(before, others()); d != "" {
		t.Errorf("CAPA's conditions changed (-before +after):\n%s", d)
	}
	if err := w.client.Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, c := range live.Status.Conditions {
		order = append(order, string(c.Type))
	}
	if d := cmp.Diff([]string{"Ready", "DriftDetected", "InstanceReady"}, order); d != "" {
		t.Errorf("order, as Cluster API's helpers sort (-want +got):\n%s", d)
	}
	w.policy = "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: off}\nspec: {mode: \"off\"}\n"
	w.consume(t, s)
	if err := w.client.Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	if len(live.Status.Conditions) != len(before) {
		t.Errorf("switched off, and still there: %v", live.Status.Conditions)
	}
	if meta.FindStatusCondition(w.machine(t, client.ObjectKeyFromObject(w.aws.Machines[0])).Status.Conditions, v1alpha1.ConditionDriftDetected) != nil {
		t.Error("switched off, and the Machine still carries the condition")
	}
	w.taken()
	w.consume(t, s)
	if n := w.taken(); n != 0 {
		t.Errorf("%d writes about what is switched off", n)
	}
}

// testFailedReadFlipsNothing: while the cloud cannot be read the last verdict
// stands, until it is stale.
func testFailedReadFlipsNothing(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg)
	s := w.sink(t)
	damage := w.tamper(t, "tag changed")
	machine := w.machineOf(t, damage.Findings[0].ID)
	w.consume(t, s)
	w.taken()
	w.events.taken()
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	w.consume(t, s)
	w.now = w.now.Add(30 * time.Minute)
	w.consume(t, s)
	if n := w.taken(); n != 0 {
		t.Errorf("%d writes after failed reads", n)
	}
	if c := drift(t, w.machine(t, machine).Status.Conditions, v1alpha1.ConditionDriftDetected); c.Status != metav1.ConditionTrue {
		t.Errorf("after a failed read: %+v", c)
	}
	w.now = w.now.Add(24 * time.Hour)
	w.consume(t, s)
	c := drift(t, w.machine(t, machine).Status.Conditions, v1alpha1.ConditionDriftDetected)
	if c.Status != metav1.ConditionUnknown || c.Reason == "" || !strings.HasPrefix(c.Message, "not compared for longer than the policy's staleAfter; ") {
		t.Errorf("stale: %+v", c)
	}
	if got := w.events.taken(); !slices.Contains(got, "Warning DriftUnknown Machine/"+machine.Name) {
		t.Errorf("events: %v", got)
	}
	w.taken()
	w.consume(t, s)
	if n := w.taken(); n != 0 {
		t.Errorf("%d writes while it stays unreadable", n)
	}
}

// testInfrastructureDrifted is True only for what a policy replaces, with no
// gate closed, and stays so while the replacement itself closes gates.
func testInfrastructureDrifted(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg)
	s := w.sink(t)
	w.policy = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: all}
spec:
  mode: enforce
  rules:
  - {id: tags, target: {provider: aws, kind: Instance}, paths: [/tags], action: observe}
  - {id: type, target: {provider: aws, kind: Instance}, paths: [/instanceType], action: replace, grace: {for: 0s}}
  safety: {minHealthy: 0}
`
	damage := w.tamper(t, "instance type changed")
	key := w.machineOf(t, damage.Findings[0].ID)
	w.consume(t, s)
	c := drift(t, w.machine(t, key).Status.Conditions, v1alpha1.ConditionInfrastructureDrifted)
	if c.Status != metav1.ConditionTrue || c.Reason != "ToBeReplaced" {
		t.Fatalf("%+v\n%+v", c, drift(t, w.machine(t, key).Status.Conditions, v1alpha1.ConditionDriftDetected))
	}
	m := w.machine(t, key)
	before := m.DeepCopy()
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "WaitingForRemediation"})
	if err := w.client.Status().Patch(t.Context(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.consume(t, s)
	if c := drift(t, w.machine(t, key).Status.Conditions, v1alpha1.ConditionInfrastructureDrifted); c.Status != metav1.ConditionTrue {
		t.Errorf("while it is being replaced: %+v", c)
	}
	w.policy = strings.Replace(w.policy, "enforce", "dryRun", 1)
	w.consume(t, s)
	if c := drift(t, w.machine(t, key).Status.Conditions, v1alpha1.ConditionInfrastructureDrifted); c.Status != metav1.ConditionFalse {
		t.Errorf("in mode dryRun: %+v", c)
	}
}

// testConflictsAndOthers: an object that is gone, is another one of the same
// name, or is written by somebody else in between stops nothing.
func testConflictsAndOthers(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg)
	s := w.sink(t)
	outcome := w.sweep(t)
	gone, other := w.aws.Machines[0], w.aws.Machines[1]
	remove(t, w.client, gone, other)
	again := other.DeepCopy()
	again.ResourceVersion, again.UID, again.Finalizers = "", "", nil
	if err := w.client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if err := s.Consume(t.Context(), outcome); err != nil {
		t.Fatal(err)
	}
	if c := w.machine(t, client.ObjectKeyFromObject(other)).Status.Conditions; len(c) != 0 {
		t.Errorf("a later object of the same name got %v", c)
	}
}

// testTargetedRead says nothing about owners that it did not look at.
func testTargetedRead(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg)
	s := w.sink(t)
	w.consume(t, s)
	one := w.tamper(t, "tag changed")
	o := w.sweep(t)
	o.Owners = map[providers.OwnerRef]bool{}
	var none []string
	for i := range o.Result.Clusters {
		none = append(none, o.Result.Clusters[i].Ref.String())
	}
	w.taken()
	if err := s.Consume(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if n := w.taken(); n != 0 {
		t.Errorf("%d writes of a read about nobody in %v", n, none)
	}
	for _, c := range o.Inventory.Clusters {
		for _, owner := range c.Owners {
			if owner.Machine != nil && client.ObjectKeyFromObject(owner.Machine) == w.machineOf(t, one.Findings[0].ID) {
				o.Owners[owner.Ref] = true
			}
		}
	}
	if err := s.Consume(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if n := w.taken(); n != 3 {
		t.Errorf("%d writes, want the Machine, the AWSMachine and the Cluster", n)
	}
}
