package suites

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// A write that vCenter refuses says why in a word, and a machine that was
// stopped for it is on again.
func TestVSphereApplyFaults(t *testing.T) {
	tests := map[string]struct {
		tamper, method string
		fault          types.BaseMethodFault
		reason         string // empty: it may be tried again
	}{
		"no permission":         {"powered off", "PowerOnVM_Task", &types.NoPermission{PrivilegeId: "VirtualMachine.Interact.PowerOn"}, providers.ReasonNotPermitted},
		"switched off":          {"VMX key changed", "ReconfigVM_Task", &types.MethodDisabled{Source: "com.example.backup"}, providers.ReasonProtected},
		"an administrator":      {"moved to another folder", "MoveIntoFolder_Task", &types.RestrictedByAdministrator{Details: "frozen"}, providers.ReasonProtected},
		"no room":               {"fewer CPUs", "PowerOnVM_Task", &types.InsufficientCpuResourcesFault{}, providers.ReasonRefused},
		"a wrong value":         {"less memory", "ReconfigVM_Task", &types.InvalidArgument{InvalidProperty: "memoryMB"}, providers.ReasonRefused},
		"a name that is taken":  {"renamed", "Rename_Task", &types.DuplicateName{Name: "x"}, providers.ReasonRefused},
		"another task":          {"VMX key changed", "ReconfigVM_Task", &types.TaskInProgress{}, ""},
		"changed meanwhile":     {"VMX key changed", "ReconfigVM_Task", &types.ConcurrentAccess{}, ""},
		"a host that is away":   {"moved to another datastore", "RelocateVM_Task", &types.HostCommunication{}, ""},
		"a machine that is off": {"moved to another resource pool", "RelocateVM_Task", &types.InvalidPowerState{}, ""},
	}
	e := vsphereEnv(t, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			damage := do(t, e, tt.tamper)
			p := vsphereProvider(t, e)
			scope, change := vsphereChange(t, p, e)
			e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
				if c.Method != tt.method {
					return false
				}
				vspherecluster.Fault(w, tt.fault)
				return true
			})
			err := applyAll(t.Context(), p, scope, change)
			e.Log.Fail(nil)
			var refused *providers.ApplyError
			if errors.As(err, &refused) != (tt.reason != "") || refused != nil && refused.Reason != tt.reason {
				t.Errorf("%v, want reason %q", err, tt.reason)
			}
			if err == nil {
				t.Error("it succeeded")
			}
			if tt.tamper == "less memory" {
				// The machine was off for it.
				if on := vsphereChangePaths(t, p, e); slices.Contains(on, "/powerState") {
					t.Errorf("the machine was left off: %v", on)
				}
			}
			if err := damage.Undo(t.Context()); err != nil && tt.tamper != "fewer CPUs" {
				t.Fatal(err)
			}
			if tt.tamper == "fewer CPUs" {
				if err := applyAll(t.Context(), p, scope, change); err != nil {
					t.Errorf("once there is room: %v", err)
				}
			}
		})
	}
}

func vsphereChangePaths(t *testing.T, p providers.Provider, e *vspherecluster.Environment) (out []string) {
	t.Helper()
	_, c := vsphereChange(t, p, e)
	for _, f := range c.Fields {
		out = append(out, f.Path)
	}
	return out
}

// What Apply must not do it refuses with the reason, before it writes anything.
func TestVSphereApplyRefuses(t *testing.T) {
	type bend func(*testing.T, *vspherecluster.Environment, *providers.Change)
	tests := map[string]struct {
		tamper string
		bend   bend // after the sweep that decided
		reason string
		says   string
	}{
		"an adapter too many": {"adapter added", nil, providers.ReasonForeign, "3 adapters and its spec names 2"},
		"a tag that is gone":  {"tag deleted", nil, providers.ReasonRefused, "has no tag"},
		"a lost disk":         {"data disk detached", nil, providers.ReasonUnsupported, "cannot be changed in place"},
		"an address":          {"static address missing", nil, providers.ReasonUnsupported, "ReadOnly"},
		"a value that moved": {"fewer CPUs", func(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
			reconfigure(t, machineOf(t, e, c), types.VirtualMachineConfigSpec{NumCPUs: 2})
		}, providers.ReasonMoved, `"2" now, and was "4"`},
		"another BIOS UUID": {"powered off", func(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
			reconfigure(t, machineOf(t, e, c), types.VirtualMachineConfigSpec{Uuid: "4c4c4544-0051-3610-8054-b4c04f4d5131"})
		}, providers.ReasonMoved, "BIOS UUID 4c4c4544-0051-3610-8054-b4c04f4d5131 now"},
		"a clone with its BIOS UUID": {"powered off", func(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
			clone(t, e, c, types.VirtualMachineConfigSpec{Uuid: c.Have.Fields.Get("/biosUuid").Value.Text()})
		}, providers.ReasonMoved, "2 virtual machines have BIOS UUID"},
		"a clone with its instance UUID": {"powered off", func(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
			clone(t, e, c, types.VirtualMachineConfigSpec{InstanceUuid: c.Resource.Name})
		}, providers.ReasonMoved, "2 virtual machines may be meant"},
		"a machine that is gone": {"powered off", func(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
			task, err := machineOf(t, e, c).Destroy(t.Context())
			finished(t, task, err)
		}, providers.ReasonMoved, "no virtual machine has UUID"},
		"somebody else's tag": {"tag removed", func(_ *testing.T, _ *vspherecluster.Environment, c *providers.Change) {
			c.Fields[0].Path = "/tags/cost:prod"
		}, providers.ReasonForeign, "its spec does not name it"},
		"a tag to take off": {"tag removed", func(_ *testing.T, _ *vspherecluster.Environment, c *providers.Change) {
			c.Fields[0].Want, c.Fields[0].Have = providers.Value{}, c.Fields[0].Want
		}, providers.ReasonForeign, "never taken away"},
		"a disk under a snapshot": {"disk restored from an old backup", func(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
			task, err := machineOf(t, e, c).CreateSnapshot(t.Context(), "before", "", false, false)
			finished(t, task, err)
			deltas(t, e, c)
		}, providers.ReasonRefused, "snapshot or a parent"},
		"a disk of the CSI driver": {"disk restored from an old backup", func(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
			firstClass(t, e, c)
		}, providers.ReasonForeign, "CSI driver"},
		"adapters in another order": {"adapter on a standard network", func(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
			exchange(t, e, c)
		}, providers.ReasonRefused, "in another order"},
		"a folder that is gone": {"moved to another folder", func(_ *testing.T, _ *vspherecluster.Environment, c *providers.Change) {
			c.Fields[0].Want = providers.String("/fra1/vm/k8s/no-such")
		}, providers.ReasonRefused, "the inventory has no"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := vsphereEnv(t, nil)
			do(t, e, tt.tamper)
			p := vsphereProvider(t, e)
			scope, change := vsphereChange(t, p, e)
			if tt.bend != nil {
				tt.bend(t, e, &change)
			}
			e.Log.Reset()
			err := applyAll(t.Context(), p, scope, change)
			if reason(err) != tt.reason || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want reason %s and %q", err, tt.reason, tt.says)
			}
			if calls := writesOf(e); len(calls) > 0 {
				t.Errorf("it wrote: %v", calls)
			}
		})
	}
}

func finished(t *testing.T, task *object.Task, err error) {
	t.Helper()
	if err == nil {
		err = task.WaitEx(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// machineOf finds a change's machine as the administrator does.
func machineOf(t *testing.T, e *vspherecluster.Environment, c *providers.Change) *object.VirtualMachine {
	t.Helper()
	ref := types.ManagedObjectReference{Type: "VirtualMachine", Value: c.Have.Fields.Get("/moid").Value.Text()}
	return object.NewVirtualMachine(e.Client.Client, ref)
}

func reconfigure(t *testing.T, vm *object.VirtualMachine, spec types.VirtualMachineConfigSpec) {
	t.Helper()
	task, err := vm.Reconfigure(t.Context(), spec)
	finished(t, task, err)
}

func clone(t *testing.T, e *vspherecluster.Environment, c *providers.Change, config types.VirtualMachineConfigSpec) {
	t.Helper()
	folder, err := e.Finder.Folder(t.Context(), "/fra1/vm/attic")
	if err != nil {
		t.Fatal(err)
	}
	task, err := machineOf(t, e, c).Clone(t.Context(), folder, "copy", types.VirtualMachineCloneSpec{Config: &config})
	finished(t, task, err)
}

// editDisks edits the machine's disks inside the simulator.
func editDisks(t *testing.T, e *vspherecluster.Environment, c *providers.Change, edit func(*types.VirtualDisk)) {
	t.Helper()
	devices, err := machineOf(t, e, c).Device(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if disk, ok := d.(*types.VirtualDisk); ok {
			edit(disk)
		}
	}
	e.Poke(machineOf(t, e, c).Reference(), "config.hardware.device", []types.BaseVirtualDevice(devices))
}

func deltas(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
	t.Helper()
	editDisks(t, e, c, func(d *types.VirtualDisk) {
		d.Backing.(*types.VirtualDiskFlatVer2BackingInfo).Parent = &types.VirtualDiskFlatVer2BackingInfo{}
	})
}

func firstClass(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
	t.Helper()
	editDisks(t, e, c, func(d *types.VirtualDisk) { d.VDiskId = &types.ID{Id: "0a4a5b6c-1111-2222-3333-444455556666"} })
}

// exchange puts each of two adapters on the other's network, and has the change
// say so.
func exchange(t *testing.T, e *vspherecluster.Environment, c *providers.Change) {
	t.Helper()
	for i, name := range []string{"storage", "k8s-nodes"} {
		network, err := e.Finder.Network(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		backing, err := network.EthernetCardBackingInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := vspherecluster.Rewire(t.Context(), machineOf(t, e, c), i, backing); err != nil {
			t.Fatal(err)
		}
	}
	c.Fields[0].Have = providers.String("k8s-nodes")
}

// A session that ends in the middle of a repair is renewed, and the repair is
// whole: each write is made once.
func TestVSphereApplySessionLoss(t *testing.T) {
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	for _, method := range []string{"FindAllByUuid", "ReconfigVM_Task", "PowerOnVM_Task"} {
		t.Run(method, func(t *testing.T) {
			do(t, e, "fewer CPUs")
			scope, change := vsphereChange(t, p, e)
			lost := false
			e.Log.Reset()
			e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
				if c.Method != method || lost {
					return false
				}
				lost = true
				vspherecluster.NotAuthenticated(w)
				return true
			})
			defer e.Log.Fail(nil)
			if err := applyAll(t.Context(), p, scope, change); err != nil || !lost {
				t.Errorf("lost %v: %v", lost, err)
			}
			vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
		})
	}
}

// A session that is lost again in the new one, and a login that is refused, say
// nothing of the change: it may be tried again.
func TestVSphereApplySessionLostAgain(t *testing.T) {
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	for name, fail := range map[string]func(c vspherecluster.Call, w http.ResponseWriter) bool{
		"lost again": func(c vspherecluster.Call, w http.ResponseWriter) bool {
			if c.Method == "ReconfigVM_Task" {
				vspherecluster.NotAuthenticated(w)
				return true
			}
			return false
		},
		"login refused": func(c vspherecluster.Call, w http.ResponseWriter) bool {
			switch c.Method {
			case "ReconfigVM_Task":
				vspherecluster.NotAuthenticated(w)
			case "Login":
				vspherecluster.Fault(w, &types.NoPermission{})
			default:
				return false
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, e, "fewer CPUs")
			scope, change := vsphereChange(t, p, e)
			e.Log.Fail(fail)
			var refused *providers.ApplyError
			err := applyAll(t.Context(), p, scope, change)
			e.Log.Fail(nil)
			if err == nil || errors.As(err, &refused) {
				t.Errorf("%v: want an error that is no refusal", err)
			}
			if err := applyAll(t.Context(), p, scope, change); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
		})
	}
}

// The storage policy is the home's alone, by the id that vCenter gives its name.
func TestVSphereApplyStoragePolicy(t *testing.T) {
	e := vsphereEnv(t, nil)
	e.VSphereMachines[0].Spec.StoragePolicyName = vsanPolicy
	p := vsphereProvider(t, e)
	scope, change := vsphereChange(t, p, e)
	e.Log.Reset()
	if err := applyAll(t.Context(), p, scope, change); err != nil {
		t.Fatal(err)
	}
	body := bodyOf(t, e, "ReconfigVM_Task")
	if !strings.Contains(body, "<profileId>"+vsanPolicyID+"</profileId>") || strings.Contains(body, "<deviceChange") {
		t.Errorf("the call was %s", body)
	}
	for i := range change.Fields {
		change.Fields[i].Want = providers.String("no such policy")
	}
	if err := p.Apply(t.Context(), scope, change); reason(err) != providers.ReasonRefused {
		t.Errorf("a policy that vCenter has not: %v", err)
	}
}
