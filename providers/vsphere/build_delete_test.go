package vsphere

import (
	"context"
	"strings"
	"testing"
	"time"

	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
)

// attach gives a machine a disk whose file lies at a path of the datastore.
func (w *buildWorld) attach(vm mo.VirtualMachine, file, fcd string) {
	w.t.Helper()
	ctx := context.Background()
	dc, err := w.v.Finder.Datacenter(ctx, "/fra1")
	if err != nil {
		w.t.Fatal(err)
	}
	folder := file[:strings.LastIndex(file, "/")]
	if err := vimobject.NewFileManager(w.v.Client.Client).MakeDirectory(ctx, folder, dc, true); err != nil && !strings.Contains(err.Error(), "exist") {
		w.t.Fatal(err)
	}
	disks := disksOf(vm.Config.Hardware.Device)
	unit := int32(len(disks) + 1)
	var controller int32
	for _, d := range vm.Config.Hardware.Device {
		if disk, ok := d.(*types.VirtualDisk); ok {
			controller = disk.ControllerKey
		}
	}
	backing := &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent)}
	backing.FileName = file
	disk := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: -1, ControllerKey: controller, UnitNumber: &unit, Backing: backing}, CapacityInKB: 1 << 20}
	if fcd != "" {
		disk.VDiskId = &types.ID{Id: fcd}
	}
	w.reconfigure(vm, types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{&types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: types.VirtualDeviceConfigSpecFileOperationCreate, Device: disk,
	}}})
}

func (w *buildWorld) reconfigure(vm mo.VirtualMachine, spec types.VirtualMachineConfigSpec) {
	w.t.Helper()
	task, err := vimobject.NewVirtualMachine(w.v.Client.Client, vm.Self).Reconfigure(context.Background(), spec)
	if err == nil {
		err = task.WaitEx(context.Background())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// hasFile reports whether a datastore has a file.
func (w *buildWorld) hasFile(store, file string) bool {
	w.t.Helper()
	ds, err := w.v.Finder.Datastore(context.Background(), store)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = ds.Stat(context.Background(), file)
	return err == nil
}

// Whatever is recognised as somebody else's is detached, and its file stays.
func TestBuildDeleteLeavesDisks(t *testing.T) {
	w := newBuildWorld(t)
	o := w.machine("control-plane", "with-volumes")
	w.build(w.p, o)
	vm := w.vm("with-volumes")
	home, _, _ := strings.Cut(strings.TrimPrefix(vm.Config.Files.VmPathName, "["), "]")
	for file, fcd := range map[string]string{
		"[sata-1] fcd/pvc-1.vmdk": "", "[sata-1] kubevols/pvc-2.vmdk": "", "[sata-1] elsewhere/pvc-3.vmdk": "4a1c",
		"[" + home + "] with-volumes/pvc-4.vmdk": "5b2d",
	} {
		w.attach(w.vm("with-volumes"), file, fcd)
	}
	own := fileOf(vm.Config.Hardware.Device[len(vm.Config.Hardware.Device)-1].(*types.VirtualDisk))
	_, own, _ = strings.Cut(own, "] ")
	if err := w.unmake(w.p, o); err != nil {
		t.Fatal(err)
	}
	if len(w.vms()) != 0 {
		t.Error("the machine is still there")
	}
	for store, files := range map[string][]string{"sata-1": {"fcd/pvc-1.vmdk", "kubevols/pvc-2.vmdk", "elsewhere/pvc-3.vmdk"}} {
		for _, f := range files {
			if !w.hasFile(store, f) {
				t.Errorf("%s went with the machine", f)
			}
		}
	}
	if w.hasFile(home, own) {
		t.Errorf("the machine's own disk %s is left behind", own)
	}
}

// Where it is not certain whose a disk is, nothing is destroyed, and what is in
// the way is named. Once it is out of the way, deleting goes on.
func TestBuildDeleteInDoubt(t *testing.T) {
	w := newBuildWorld(t)
	for name, tt := range map[string]struct {
		do   func(vm mo.VirtualMachine)
		says string
	}{
		"a disk from another folder": {func(vm mo.VirtualMachine) { w.attach(vm, "[sata-1] somewhere/data.vmdk", "") }, "whose it is cannot be told"},
		"a snapshot and a volume": {func(vm mo.VirtualMachine) {
			w.attach(vm, "[sata-1] fcd/pvc-9.vmdk", "")
			w.snapshot(vm)
		}, "snapshots and disks of others"},
		"a volume in a snapshot": {func(vm mo.VirtualMachine) {
			w.attach(vm, "[sata-1] fcd/pvc-8.vmdk", "")
			w.snapshot(vm)
			w.detachLast(w.vm(vm.Name))
		}, "holds disk"},
		"a template": {func(vm mo.VirtualMachine) {
			m := vimobject.NewVirtualMachine(w.v.Client.Client, vm.Self)
			task, err := m.PowerOff(context.Background())
			if err == nil {
				err = task.WaitEx(context.Background())
			}
			if err == nil {
				err = m.MarkAsTemplate(context.Background())
			}
			if err != nil {
				w.t.Fatal(err)
			}
		}, "template"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			o := w.machine("control-plane", "doubt-"+strings.ReplaceAll(name, " ", "-"))
			w.build(w.p, o)
			tt.do(w.vm(o.Machine.Name))
			w.v.Log.Reset()
			err := w.unmake(w.p, o)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("delete: %v", err)
			}
			for _, m := range w.v.Log.Mutating() {
				if m == "Destroy_Task" {
					t.Error("it was destroyed")
				}
			}
			if name != "a template" && !strings.Contains(infraOf(o).Status.Conditions[0].Message+infraOf(o).Status.Conditions[1].Message, tt.says) {
				t.Errorf("conditions %+v", infraOf(o).Status.Conditions)
			}
		})
	}
}

func (w *buildWorld) snapshot(vm mo.VirtualMachine) {
	w.t.Helper()
	task, err := vimobject.NewVirtualMachine(w.v.Client.Client, vm.Self).CreateSnapshot(context.Background(), "backup", "", false, false)
	if err == nil {
		err = task.WaitEx(context.Background())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *buildWorld) detachLast(vm mo.VirtualMachine) {
	w.t.Helper()
	var last types.BaseVirtualDevice
	for _, d := range vm.Config.Hardware.Device {
		if disk, ok := d.(*types.VirtualDisk); ok && diskOwner(disk, fileOf(disk)) != "" {
			last = disk
		}
	}
	w.reconfigure(vm, types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{&types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: last,
	}}})
}

// A machine that somebody has moved, renamed or powered off is found by its UUID;
// one that is gone is no error; one of the same name that is another's stays.
func TestBuildDeleteMoved(t *testing.T) {
	w := newBuildWorld(t)
	o := w.machine("control-plane", "moved")
	w.build(w.p, o)
	vm := vimobject.NewVirtualMachine(w.v.Client.Client, w.vm("moved").Self)
	folder, err := w.v.Finder.Folder(t.Context(), "/fra1/vm/attic")
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range []func() (*vimobject.Task, error){
		func() (*vimobject.Task, error) {
			return folder.MoveInto(t.Context(), []types.ManagedObjectReference{vm.Reference()})
		},
		func() (*vimobject.Task, error) { return vm.Rename(t.Context(), "renamed") },
		func() (*vimobject.Task, error) { return vm.PowerOff(t.Context()) },
	} {
		task, err := do()
		if err == nil {
			err = task.WaitEx(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	other := w.machine("control-plane", "moved") // of another owner, in the first one's old place
	w.build(w.p, other)
	if err := w.unmake(w.p, o); err != nil {
		t.Fatal(err)
	}
	if vms := w.vms(); len(vms) != 1 || vms["moved"].Config.InstanceUuid != string(other.Ref.UID) {
		t.Errorf("left are %d", len(vms))
	}
	if err := w.unmake(w.p, o); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := w.unmake(w.p, other); err != nil {
		t.Error(err)
	}
}

// A clone that was never recorded goes with its owner; an owner that has made
// nothing goes at once.
func TestBuildDeleteUnrecorded(t *testing.T) {
	w := newBuildWorld(t)
	o := w.machine("control-plane", "unrecorded")
	w.v.Log.Lose(nth(0, nil))
	if _, err := w.pass(w.p, o); err == nil {
		t.Fatal("nothing was lost")
	}
	w.v.Log.Lose(nil)
	for begun := time.Now(); len(w.vms()) == 0; { // the simulator's task ends
		if time.Since(begun) > time.Minute {
			t.Fatal("nothing was cloned")
		}
	}
	if infraOf(o).Spec.ProviderID != "" {
		t.Fatal("it is recorded")
	}
	if err := w.unmake(w.provider(), o); err != nil {
		t.Fatal(err)
	}
	if len(w.vms()) != 0 {
		t.Error("the clone is left behind")
	}
	if err := w.unmake(w.p, w.machine("control-plane", "never-made")); err != nil {
		t.Error(err)
	}
}

// Interrupted at each write, deleting goes on where it was.
func TestBuildDeleteInterrupted(t *testing.T) {
	w := newBuildWorld(t)
	o := w.machine("control-plane", "clean")
	w.build(w.p, o)
	w.attach(w.vm("clean"), "[sata-1] fcd/pvc-clean.vmdk", "")
	w.v.Log.Reset()
	if err := w.unmake(w.p, o); err != nil {
		t.Fatal(err)
	}
	for n, method := range w.v.Log.Mutating() {
		o := w.machine("control-plane", "cut-"+strings.ToLower(strings.TrimSuffix(method, "_Task")))
		w.build(w.p, o)
		w.attach(w.vm(o.Machine.Name), "[sata-1] fcd/pvc-"+o.Machine.Name+".vmdk", "")
		w.v.Log.Lose(nth(n, nil))
		if err := w.unmake(w.p, o); err == nil {
			t.Errorf("%s: nothing was lost", method)
		}
		w.v.Log.Lose(nil)
		if err := w.unmake(w.provider(), o); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		if len(w.vms()) != 0 || !w.hasFile("sata-1", "fcd/pvc-"+o.Machine.Name+".vmdk") {
			t.Errorf("%s: %d machines left, volume there: %v", method, len(w.vms()), w.hasFile("sata-1", "fcd/pvc-"+o.Machine.Name+".vmdk"))
		}
	}
}

// The guest is shut down where the spec asks for it, and has its time.
func TestBuildDeleteSoftly(t *testing.T) {
	w := newBuildWorld(t)
	for mode, asked := range map[infrav1.VirtualMachinePowerOpMode]bool{
		infrav1.VirtualMachinePowerOpModeHard: false, infrav1.VirtualMachinePowerOpModeTrySoft: true, infrav1.VirtualMachinePowerOpModeSoft: true, "": false,
	} {
		o := w.machine("control-plane", "soft-"+strings.ToLower(string(mode)), func(s *infrav1.VSphereMachineSpec) { s.PowerOffMode = mode })
		w.build(w.p, o)
		w.v.Log.Reset()
		if err := w.unmake(w.p, o); err != nil {
			t.Errorf("%q: %v", mode, err)
		}
		if got := strings.Contains(strings.Join(w.v.Log.Mutating(), " "), "ShutdownGuest"); got != asked {
			t.Errorf("%q: the guest was asked: %v, want %v; %q", mode, got, asked, w.v.Log.Mutating())
		}
	}
}
