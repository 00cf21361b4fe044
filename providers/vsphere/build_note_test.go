package vsphere

import (
	"slices"
	"strings"
	"testing"

	vimobject "github.com/vmware/govmomi/object"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// A cluster is ready when vCenter is read, its zones can be used and its control
// plane has an address; it goes when no machine needs it any more.
func TestBuildCluster(t *testing.T) {
	w := newBuildWorld(t)
	cluster := w.m.VSphereCluster
	cluster.Spec.FailureDomainSelector = &metav1.LabelSelector{}
	o := &providers.Owner{Ref: providers.OwnerRef{Kind: "VSphereCluster", Namespace: "prod", Name: cluster.Name}, Cluster: w.m.Cluster, Infra: cluster, InfraCluster: cluster}
	for _, z := range w.m.Zones {
		o.Related = append(o.Related, z)
	}
	for _, d := range w.m.FailureDomains {
		o.Related = append(o.Related, d)
	}
	scope, err := w.p.Scope(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := w.p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := cluster.Spec.ControlPlaneEndpoint
	cluster.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{}
	if waiting := w.p.Note(o, snap, providers.Progress{}); !strings.Contains(waiting, "spec.controlPlaneEndpoint") || cluster.Status.Initialization.Provisioned != nil {
		t.Errorf("without an endpoint it waits for %q", waiting)
	}
	cluster.Spec.ControlPlaneEndpoint = endpoint
	datastore := w.m.FailureDomains[0].Spec.Topology.Datastore
	w.m.FailureDomains[0].Spec.Topology.Datastore = "none"
	if waiting := w.p.Note(o, snap, providers.Progress{}); !strings.Contains(waiting, `datastore "none"`) || cluster.Status.Initialization.Provisioned != nil {
		t.Errorf("without its datastore it waits for %q", waiting)
	}
	w.m.FailureDomains[0].Spec.Topology.Datastore = datastore
	if waiting := w.p.Note(o, snap, providers.Progress{}); waiting != "" || !ptr.Deref(cluster.Status.Initialization.Provisioned, false) {
		t.Errorf("it waits for %q", waiting)
	}
	if !slices.EqualFunc(cluster.Status.FailureDomains, []string{"fra1-b-prod"}, func(d clusterv1.FailureDomain, n string) bool { return d.Name == n }) {
		t.Errorf("failure domains %+v", cluster.Status.FailureDomains)
	}
	for _, kind := range []string{"Ready", "VCenterAvailable", "FailureDomainsReady"} {
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, kind) {
			t.Errorf("%s of %+v", kind, cluster.Status.Conditions)
		}
	}
	before := cluster.DeepCopy()
	if w.p.Note(o, snap, providers.Progress{}); !jsonEqual(t, before, cluster) {
		t.Error("Note changed what was so already")
	}
	if plan, err := w.p.Plan(o, snap); len(plan) > 0 || err != nil {
		t.Errorf("plan %v, %v", plan, err)
	}
	o.Siblings = []client.Object{cluster, &infrav1.VSphereMachine{}}
	if _, err := w.p.Doomed(o, snap); err == nil {
		t.Error("it may go before its machines")
	}
	o.Siblings = nil
	if doomed, err := w.p.Doomed(o, snap); len(doomed) > 0 || err != nil {
		t.Errorf("doomed %v, %v", doomed, err)
	}
	// vCenter that cannot be read takes nothing back.
	if waiting := w.p.Note(o, nil, providers.Progress{}); waiting == "" || !ptr.Deref(cluster.Status.Initialization.Provisioned, false) ||
		meta.IsStatusConditionTrue(cluster.Status.Conditions, "VCenterAvailable") {
		t.Errorf("unread, it waits for %q: %+v", waiting, cluster.Status)
	}
}

// A machine that was ready keeps that, and its conditions say what became of it.
func TestBuildNoteKeeps(t *testing.T) {
	w := newBuildWorld(t)
	o := w.machine("control-plane", "kept")
	w.build(w.p, o)
	machine := infraOf(o)
	id := machine.Spec.ProviderID
	note := func() (string, *metav1.Condition) {
		scope, _ := w.p.Scope(t.Context(), o)
		snap, err := w.p.Observe(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		waiting := w.p.Note(o, snap, providers.Progress{})
		return waiting, meta.FindStatusCondition(machine.Status.Conditions, infrav1.VSphereMachineVirtualMachineProvisionedCondition)
	}
	vm := vimobject.NewVirtualMachine(w.v.Client.Client, w.vm("kept").Self)
	for _, tt := range []struct {
		do     func() (*vimobject.Task, error)
		reason string
	}{
		{func() (*vimobject.Task, error) { return vm.PowerOff(t.Context()) }, infrav1.VSphereVMVirtualMachinePoweringOnReason},
		{func() (*vimobject.Task, error) { return vm.PowerOn(t.Context()) }, infrav1.VSphereMachineVirtualMachineProvisionedReason},
		{func() (*vimobject.Task, error) { return vm.PowerOff(t.Context()) }, infrav1.VSphereVMVirtualMachinePoweringOnReason},
		{func() (*vimobject.Task, error) { return vm.Destroy(t.Context()) }, infrav1.VSphereVMVirtualMachineNotFoundByBIOSUUIDReason},
	} {
		task, err := tt.do()
		if err == nil {
			err = task.WaitEx(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, c := note(); c.Reason != tt.reason {
			t.Errorf("condition %+v, want reason %s", c, tt.reason)
		}
		if machine.Spec.ProviderID != id || !ptr.Deref(machine.Status.Initialization.Provisioned, false) || len(machine.Status.Addresses) == 0 {
			t.Errorf("it lost %+v", machine.Status)
		}
	}
	// Nor does it when its status was lost, in a move to another management cluster.
	machine.Status = infrav1.VSphereMachineStatus{}
	scope, _ := w.p.Scope(t.Context(), o)
	snap, err := w.p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	if w.p.Note(o, snap, providers.Progress{WasReady: true}); machine.Spec.ProviderID != id || !ptr.Deref(machine.Status.Initialization.Provisioned, false) {
		t.Errorf("moved, it lost %+v", machine.Status)
	}
	// A machine that is lost is not made anew: Cluster API replaces it.
	w.v.Log.Reset()
	if _, err := w.pass(w.p, o); err != nil {
		t.Error(err)
	}
	if writes := w.v.Log.Mutating(); len(writes) > 0 {
		t.Errorf("it wrote %q", writes)
	}
}
