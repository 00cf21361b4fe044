package vsphere

import (
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/ptr"
)

// What vCenter reports of cores per socket is the guest's only while the
// number is one: unset is 1, and a size that vCenter chooses at power-on is not
// told while the machine is off.
func TestPlatformCoresPerSocketDefault(t *testing.T) {
	on, off := types.VirtualMachinePowerStatePoweredOn, types.VirtualMachinePowerStatePoweredOff
	tests := map[string]struct {
		cores *int32
		auto  *bool
		power types.VirtualMachinePowerState
		want  string // "" is not told
	}{
		"set":               {ptr.To[int32](2), nil, on, "2"},
		"set, off":          {ptr.To[int32](2), ptr.To(false), off, "2"},
		"unset before 7.0":  {nil, nil, on, "1"},
		"chosen, on":        {ptr.To[int32](4), ptr.To(true), on, "4"},
		"chosen, off":       {ptr.To[int32](4), ptr.To(true), off, ""},
		"chosen, suspended": {ptr.To[int32](4), ptr.To(true), types.VirtualMachinePowerStateSuspended, ""},
		"zero":              {ptr.To[int32](0), nil, on, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			hw := types.VirtualHardware{NumCPU: 4, NumCoresPerSocket: tt.cores, AutoCoresPerSocket: tt.auto}
			r := testReader().resource(seenMachine(prop("config.hardware", hw), prop("runtime.powerState", string(tt.power))))
			if got := r.Fields.Get("/coresPerSocket").Value.Text(); got != tt.want || r.Closes("/coresPerSocket") {
				t.Errorf("cores per socket %q, want %q; closed %v", got, tt.want, r.Closes("/coresPerSocket"))
			}
		})
	}
}

// A disk's mode is nobody's wish, so none is drift; those that discard writes
// are worth a warning. Deltas are known in every format that a datastore makes.
func TestPlatformDiskModes(t *testing.T) {
	flat := func(mode types.VirtualDiskMode) types.BaseVirtualDeviceBackingInfo {
		return &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(mode)}
	}
	tests := map[string]struct {
		backing types.BaseVirtualDeviceBackingInfo
		warned  string
		parent  bool
	}{
		"persistent":                    {backing: flat(types.VirtualDiskModePersistent)},
		"independent, persistent":       {backing: flat(types.VirtualDiskModeIndependent_persistent)},
		"nonpersistent":                 {backing: flat(types.VirtualDiskModeNonpersistent), warned: "scsi0:0 is in mode nonpersistent"},
		"independent, nonpersistent":    {backing: flat(types.VirtualDiskModeIndependent_nonpersistent), warned: "independent_nonpersistent"},
		"undoable":                      {backing: flat(types.VirtualDiskModeUndoable), warned: "undoable"},
		"append":                        {backing: flat(types.VirtualDiskModeAppend), warned: "append"},
		"raw device":                    {backing: &types.VirtualDiskRawDiskMappingVer1BackingInfo{DiskMode: string(types.VirtualDiskModeIndependent_persistent)}},
		"raw device, nonpersistent":     {backing: &types.VirtualDiskRawDiskMappingVer1BackingInfo{DiskMode: string(types.VirtualDiskModeNonpersistent)}, warned: "nonpersistent"},
		"linked clone on NFS":           {backing: &types.VirtualDiskFlatVer2BackingInfo{Parent: &types.VirtualDiskFlatVer2BackingInfo{}}, parent: true},
		"linked clone on VMFS 6":        {backing: &types.VirtualDiskSeSparseBackingInfo{Parent: &types.VirtualDiskSeSparseBackingInfo{}}, parent: true},
		"linked clone, sparse":          {backing: &types.VirtualDiskSparseVer2BackingInfo{Parent: &types.VirtualDiskSparseVer2BackingInfo{}}, parent: true},
		"no backing that we know":       {backing: &types.VirtualDiskPartitionedRawDiskVer2BackingInfo{}},
		"nonpersistent, thin, SEsparse": {backing: &types.VirtualDiskSeSparseBackingInfo{DiskMode: "nonpersistent"}, warned: "nonpersistent"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			scsi := &types.ParaVirtualSCSIController{}
			scsi.Key = 1000
			d := &types.VirtualDisk{CapacityInBytes: 40 << 30}
			d.Key, d.ControllerKey, d.UnitNumber, d.Backing = 2000, 1000, ptr.To[int32](0), tt.backing
			r := testReader().resource(seenMachine(prop("config.hardware", types.VirtualHardware{Device: []types.BaseVirtualDevice{scsi, d}})))
			if size, _ := r.Fields.Get("/disks/2000/sizeGiB").Value.Number(); size != 40 {
				t.Errorf("size %d: the mode is no matter of it", size)
			}
			if got := !r.Fields.Get("/disks/2000/hasParent").Value.IsAbsent(); got != tt.parent {
				t.Errorf("has a parent: %v", got)
			}
			if (len(r.Warnings) == 1) != (tt.warned != "") || !strings.Contains(strings.Join(r.Warnings, ""), tt.warned) {
				t.Errorf("warnings %q, want %q", r.Warnings, tt.warned)
			}
			for path := range r.Fields.All() {
				if strings.HasSuffix(path, "/mode") {
					t.Errorf("%s would be compared", path)
				}
			}
		})
	}
}
