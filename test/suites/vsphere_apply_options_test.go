package suites

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// Keys of the spec are written and no others; what may be secret is read from
// the object again, and only if it still is what the change was decided by.
func TestVSphereApplyOptions(t *testing.T) {
	const secret = "guestinfo.join-token"
	e := vsphereEnv(t, func(m *vspherecluster.Manifest) {
		for _, tpl := range m.MachineTemplates {
			if keys := tpl.Spec.Template.Spec.CustomVMXKeys; keys != nil {
				keys[secret] = "hunter2 hunter2"
			}
		}
	})
	do(t, e, "VMX key removed")
	spoilOption(t, e, secret)
	objects := fake.NewClientBuilder().WithScheme(vspherecluster.Scheme()).WithObjects(e.Objects()...).Build()
	p := vsphere.New(objects, func(string) string { return "" })
	t.Cleanup(func() { _ = p.Close() })
	scope, change := vsphereChange(t, p, e)
	if strings.Contains(fmt.Sprintf("%+v", change), "hunter2") {
		t.Fatal("the change holds the secret")
	}
	e.Log.Reset()
	if err := applyAll(t.Context(), p, scope, change); err != nil {
		t.Fatal(err)
	}
	vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
	body := bodyOf(t, e, "ReconfigVM_Task")
	if n := strings.Count(body, "<extraConfig"); n != 2 {
		t.Errorf("%d keys were written: %s", n, body)
	}

	spoilOption(t, e, secret)
	scope, change = vsphereChange(t, p, e)
	machine := &infrav1.VSphereMachine{}
	key := client.ObjectKey{Namespace: change.Owner.Namespace, Name: change.Owner.Name}
	if err := objects.Get(t.Context(), key, machine); err != nil {
		t.Fatal(err)
	}
	machine.Spec.CustomVMXKeys[secret] = "another one since"
	if err := objects.Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	err := p.Apply(t.Context(), scope, change)
	if reason(err) != providers.ReasonMoved || !strings.Contains(err.Error(), "wants another value") || strings.Contains(err.Error(), "since") {
		t.Errorf("a spec that changed since: %v", err)
	}
}

func reason(err error) string {
	if refused := (*providers.ApplyError)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	return fmt.Sprint(err)
}

// spoilOption overwrites a key of the first machine.
func spoilOption(t *testing.T, e *vspherecluster.Environment, key string) {
	t.Helper()
	name := e.Machines[0].Name
	vm, err := e.Finder.VirtualMachine(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	task, err := vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: "stolen " + key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := task.WaitEx(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A machine that takes more processors while it runs is not stopped for them,
// and they are no disruption.
func TestVSphereApplyHotAdd(t *testing.T) {
	e := vsphereEnv(t, nil)
	damage := do(t, e, "fewer CPUs")
	vm, err := e.Finder.VirtualMachine(t.Context(), damage.Findings[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	task, err := vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{
		MemoryMB: 16384, CpuHotAddEnabled: ptr.To(true), MemoryHotAddEnabled: ptr.To(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := task.WaitEx(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := vsphereProvider(t, e)
	scope, change := vsphereChange(t, p, e)
	change.Disruptive = false
	e.Log.Reset()
	if err := p.Apply(t.Context(), scope, change); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ReconfigVM_Task"}, writesOf(e)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
}
