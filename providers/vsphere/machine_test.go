package vsphere

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/ptr"

	"github.com/holdfast-io/holdfast/providers"
)

func seenMachine(mods ...func(*object)) *object {
	o := &object{
		ref: types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-1"},
		props: map[string]any{
			"name": "m1", "config.instanceUuid": "5033B2C1-0000-1111-2222-333344445555", "config.uuid": "4213cc4f-88f3-67bc-88fd-f5a04ad10a56",
			"runtime.connectionState": types.VirtualMachineConnectionStateConnected,
		},
	}
	for _, m := range mods {
		m(o)
	}
	return o
}

func prop(name string, value any) func(*object) {
	return func(o *object) { o.props[name] = value }
}

func without(names ...string) func(*object) {
	return func(o *object) {
		for _, n := range names {
			delete(o.props, n)
		}
	}
}

func missing(name, fault string) func(*object) {
	return func(o *object) {
		delete(o.props, name)
		if o.missing == nil {
			o.missing = map[string]string{}
		}
		o.missing[name] = fault
	}
}

func testReader() *machineReader {
	inv := newInventory(types.ManagedObjectReference{Type: "Folder", Value: "root"})
	pg := &entity{ref: types.ManagedObjectReference{Type: "DistributedVirtualPortgroup", Value: "dvportgroup-1"}, name: "nodes", path: "/dc/network/nodes", datacenter: "/dc"}
	inv.portgroups["key-1"], inv.entities[pg.ref] = pg, pg
	opaque := &entity{ref: types.ManagedObjectReference{Type: "OpaqueNetwork", Value: "network-o1"}, name: "segment", path: "/dc/network/segment", datacenter: "/dc"}
	inv.opaque["nsx-1"], inv.entities[opaque.ref] = opaque, opaque
	return &machineReader{inv: inv, secret: newSecret()}
}

// What vCenter cannot tell the state of is Unknown, whatever else it says.
func TestUnknownState(t *testing.T) {
	tests := map[string]struct {
		mod  func(*object)
		says string // "" is known
	}{
		"connected":           {mod: func(*object) {}},
		"disconnected":        {mod: prop("runtime.connectionState", types.VirtualMachineConnectionStateDisconnected), says: "disconnected"},
		"inaccessible":        {mod: prop("runtime.connectionState", types.VirtualMachineConnectionStateInaccessible), says: "inaccessible"},
		"no state permission": {mod: missing("runtime.connectionState", "NoPermission"), says: "NoPermission"},
		"no BIOS UUID":        {mod: without("config.uuid"), says: "no UUID"},
		"empty BIOS UUID":     {mod: prop("config.uuid", ""), says: "no UUID"},
		"zero BIOS UUID":      {mod: prop("config.uuid", "00000000-0000-0000-0000-000000000000"), says: "no UUID"},
		"no config at all":    {mod: without("config.uuid", "config.instanceUuid"), says: "no UUID"},
		"UUID not permitted":  {mod: missing("config.uuid", "NoPermission"), says: "config.uuid could not be read: NoPermission"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := testReader().resource(seenMachine(tt.mod))
			if (r.Unknown != "") != (tt.says != "") || !strings.Contains(r.Unknown, tt.says) {
				t.Errorf("unknown %q, want %q", r.Unknown, tt.says)
			}
		})
	}
}

// A property that could not be read leaves its fields unknown, not absent.
func TestMissingProperties(t *testing.T) {
	r := testReader().resource(seenMachine(
		missing("config.extraConfig", "NoPermission"), missing("config.hardware", "NoPermission"), missing("snapshot", "NoPermission"), missing("guest.net", "NoPermission"),
		prop("guest.toolsRunningStatus", string(types.VirtualMachineToolsRunningStatusGuestToolsRunning))))
	for _, path := range []string{"/extraConfig/a", "/disks/2000/sizeGiB", "/networks/0/networkName", "/snapshots", "/addresses", "/numCPUs"} {
		if _, ok := r.Fields.Lookup(path); ok || r.Closes(path) {
			t.Errorf("%s is told though it was not read", path)
		}
	}
	if len(r.Warnings) != 4 || !strings.Contains(r.Warnings[0], "config.extraConfig could not be read: NoPermission") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestDevices(t *testing.T) {
	scsi := &types.ParaVirtualSCSIController{}
	scsi.Key, scsi.BusNumber = 1000, 0
	nvme := &types.VirtualNVMEController{}
	nvme.Key, nvme.BusNumber = 31000, 1
	disk := func(key, controller, unit int32, gib int64, file, fcd string, parent bool) *types.VirtualDisk {
		d := &types.VirtualDisk{CapacityInBytes: gib << 30}
		b := &types.VirtualDiskFlatVer2BackingInfo{}
		b.FileName = file
		if parent {
			b.Parent = &types.VirtualDiskFlatVer2BackingInfo{}
		}
		if fcd != "" {
			d.VDiskId = &types.ID{Id: fcd}
		}
		d.Key, d.ControllerKey, d.UnitNumber, d.Backing = key, controller, &unit, b
		return d
	}
	dvs, opaque, unknown, standard := &types.VirtualVmxnet3{}, &types.VirtualE1000{}, &types.VirtualE1000e{}, &types.VirtualPCNet32{}
	dvs.Key, opaque.Key, unknown.Key, standard.Key = 4000, 4001, 4002, 4003
	dvs.MacAddress = "00-50-56-9A-01-02"
	dvs.Backing = &types.VirtualEthernetCardDistributedVirtualPortBackingInfo{Port: types.DistributedVirtualSwitchPortConnection{PortgroupKey: "key-1"}}
	opaque.Backing = &types.VirtualEthernetCardOpaqueNetworkBackingInfo{OpaqueNetworkId: "nsx-1"}
	unknown.Backing = &types.VirtualEthernetCardDistributedVirtualPortBackingInfo{Port: types.DistributedVirtualSwitchPortConnection{PortgroupKey: "key-gone"}}
	standard.Backing = &types.VirtualEthernetCardNetworkBackingInfo{VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"}}
	gpu := &types.VirtualPCIPassthrough{}
	gpu.Backing = &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: "grid_v100-4q"}
	direct := &types.VirtualPCIPassthrough{}
	direct.Backing = &types.VirtualPCIPassthroughDynamicBackingInfo{AllowedDevice: []types.VirtualPCIPassthroughAllowedDevice{{VendorId: 0x10de, DeviceId: 0x1eb8}}}
	hw := types.VirtualHardware{NumCPU: 4, NumCoresPerSocket: ptr.To[int32](2), MemoryMB: 4096, Device: []types.BaseVirtualDevice{
		standard, scsi, nvme, disk(31016, 31000, 0, 5, "[ds] fcd/abc.vmdk", "", false), disk(2001, 1000, 1, 9, "[ds] x/y.vmdk", "abc-def", false),
		disk(2000, 1000, 0, 40, "[ds] m1/m1.vmdk", "", true), disk(2002, 1000, 2, 3, "[ds] kubevols/k.vmdk", "", false),
		unknown, opaque, dvs, gpu, direct, direct,
	}}
	r := testReader().resource(seenMachine(prop("config.hardware", hw)))
	want := map[string]string{
		"/numCPUs": "4", "/coresPerSocket": "2", "/memoryMiB": "4096",
		"/disks/2000/sizeGiB": "40", "/disks/2000/position": "scsi0:0", "/disks/2000/hasParent": "true",
		"/disks/2001/sizeGiB": "9", "/disks/2001/position": "scsi0:1", "/disks/2001/foreign": "first-class disk, as the CSI driver attaches",
		"/disks/2002/sizeGiB": "3", "/disks/2002/position": "scsi0:2", "/disks/2002/foreign": "volume of the in-tree vSphere driver",
		"/disks/31016/sizeGiB": "5", "/disks/31016/position": "nvme1:0", "/disks/31016/foreign": "first-class disk, as the CSI driver attaches",
		"/networkCount": "4", "/pciDevices": "10de:1eb8, 10de:1eb8 (2), vgpu grid_v100-4q",
		"/networks/0/networkName": "nodes", "/networks/0/adapterType": "vmxnet3", "/networks/0/macAddress": "00:50:56:9a:01:02",
		"/networks/1/networkName": "segment", "/networks/1/adapterType": "e1000",
		"/networks/2/networkName": "port group key-gone", "/networks/2/adapterType": "e1000e",
		"/networks/3/networkName": "VM Network", "/networks/3/adapterType": "pcnet32",
	}
	got := map[string]string{}
	for path, f := range r.Fields.All() {
		for _, prefix := range []string{"/disks", "/net", "/num", "/cores", "/memory", "/pci"} {
			if strings.HasPrefix(path, prefix) {
				got[path] = f.Value.Text()
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Addresses count only while the tools run: without them nothing is told.
func TestGuestAddresses(t *testing.T) {
	net := types.ArrayOfGuestNicInfo{GuestNicInfo: []types.GuestNicInfo{
		{IpAddress: []string{"172.17.0.1", "fe80::1%eth0"}},
		{IpConfig: &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{{IpAddress: "10.0.0.5"}, {IpAddress: "FD00::A"}, {IpAddress: "junk"}}}},
	}}
	for tools, want := range map[types.VirtualMachineToolsRunningStatus]string{
		types.VirtualMachineToolsRunningStatusGuestToolsRunning:          "10.0.0.5, 172.17.0.1, fd00::a, fe80::1",
		types.VirtualMachineToolsRunningStatusGuestToolsNotRunning:       "",
		types.VirtualMachineToolsRunningStatusGuestToolsExecutingScripts: "",
	} {
		r := testReader().resource(seenMachine(prop("guest.net", net), prop("guest.toolsRunningStatus", string(tools))))
		if got := r.Fields.Get("/addresses").Value; got.Text() != want || got.IsAbsent() != (want == "") {
			t.Errorf("%s: addresses %q, want %q", tools, got.Text(), want)
		}
	}
}

func TestSnapshotNames(t *testing.T) {
	info := types.VirtualMachineSnapshotInfo{RootSnapshotList: []types.VirtualMachineSnapshotTree{{
		Name: "a", ChildSnapshotList: []types.VirtualMachineSnapshotTree{{Name: "b"}, {Name: "c", ChildSnapshotList: []types.VirtualMachineSnapshotTree{{Name: "d"}}}},
	}}}
	r := testReader().resource(seenMachine(prop("snapshot", info)))
	if got := r.Fields.Get("/snapshots").Value.Text(); got != "a, b, c, d" {
		t.Errorf("snapshots %q", got)
	}
}

// Machines that share a UUID are each Unknown, and named in the reason.
func TestC34DuplicateUUIDs(t *testing.T) {
	machine := func(moid, instance, bios string) *providers.Resource {
		o := seenMachine(prop("config.instanceUuid", instance), prop("config.uuid", bios), prop("name", moid))
		o.ref.Value = moid
		return testReader().resource(o)
	}
	const a, b, c = "11111111-0000-0000-0000-000000000001", "11111111-0000-0000-0000-000000000002", "11111111-0000-0000-0000-000000000003"
	out := markDuplicates([]*providers.Resource{
		machine("vm-3", c, c), machine("vm-2", b, a), machine("vm-1", a, a), machine("vm-5", "22222222-0000-0000-0000-000000000001", "33333333-0000-0000-0000-000000000001"),
		machine("vm-4", "22222222-0000-0000-0000-000000000001", "33333333-0000-0000-0000-000000000002"),
	})
	got := map[string]string{}
	for _, r := range out {
		got[r.ID.Name] = r.Unknown
	}
	want := map[string]string{
		a: "2 virtual machines have BIOS UUID " + a + ": vm-1 (vm-1), vm-2 (vm-2)",
		b: "2 virtual machines have BIOS UUID " + a + ": vm-1 (vm-1), vm-2 (vm-2)",
		c: "", "22222222-0000-0000-0000-000000000001": "2 virtual machines have instance UUID 22222222-0000-0000-0000-000000000001: vm-4 (vm-4), vm-5 (vm-5)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSecretOptions(t *testing.T) {
	s := newSecret()
	for _, o := range []struct {
		key, value string
		hidden     bool
	}{
		{"disk.enableUUID", "TRUE", false}, {"sched.cpu.latencySensitivity", "high", false}, {"svga.vramSize", "8388608", false},
		{"guestinfo.userdata", "x", true}, {"GuestInfo.Metadata", "TRUE", true}, {"guestinfo.ignition.config.data", "e30=", true},
		{"vendor.password", "1", true}, {"app.apiToken", "abc", true}, {"vendor.blob", strings.Repeat("a", 40), true},
		{"vendor.text", "two words", true}, {"vendor.b64", "aGVsbG8=", true},
	} {
		f := s.option(o.key, o.value)
		if f.Sensitive != o.hidden || o.hidden == (f.Value.Text() == o.value) {
			t.Errorf("%s=%s: %+v, want hidden %v", o.key, o.value, f, o.hidden)
		}
		if !f.Value.Equal(s.option(o.key, o.value).Value) {
			t.Errorf("%s: two digests of one value differ", o.key)
		}
		other := newSecret()
		if o.hidden && (f.Value.Equal(other.option(o.key, o.value).Value) || !other.foreign(f) || s.foreign(f)) {
			t.Errorf("%s: digests of two keys must differ and be told apart", o.key)
		}
	}
}

// C23: user data is what cloud-init makes of it, in whatever wrapping; what
// cannot be unpacked and what is not boot data stands as it is.
func TestC23BootDataInVMXOptions(t *testing.T) {
	s := newSecret()
	const plain = "#cloud-config\nhostname: a\n"
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	zip.Name = "another header"
	_, _ = zip.Write([]byte(plain))
	_ = zip.Close()
	encoded := base64.StdEncoding.EncodeToString
	for _, key := range []string{"guestinfo.userdata", "guestinfo.metadata", "GuestInfo.VendorData"} {
		want := s.option(key, plain)
		for _, value := range []string{encoded([]byte(plain)), encoded(packed.Bytes())} {
			if got := s.option(key, value); !got.Value.Equal(want.Value) || !got.Sensitive {
				t.Errorf("%s: %q differs from what it holds", key, value)
			}
		}
		if s.option(key, encoded([]byte(plain+"x"))).Value.Equal(want.Value) {
			t.Errorf("%s: other data is equal", key)
		}
		broken := encoded(packed.Bytes()[:20])
		if s.option(key, broken).Value.Equal(s.option(key, broken[4:]).Value) {
			t.Errorf("%s: all that does not unpack is equal", key)
		}
	}
	if s.option("guestinfo.userdata.encoding", "gzip+base64").Value.Equal(s.option("guestinfo.userdata.encoding", "base64").Value) {
		t.Error("two encodings are equal")
	}
	if s.option("guestinfo.other", plain).Value.Equal(s.option("guestinfo.other", encoded([]byte(plain))).Value) {
		t.Error("data of another kind was unpacked")
	}
}

func TestInventoryRing(t *testing.T) {
	inv := newInventory(types.ManagedObjectReference{Type: "Folder", Value: "root"})
	a, b := types.ManagedObjectReference{Type: "Folder", Value: "a"}, types.ManagedObjectReference{Type: "Folder", Value: "b"}
	inv.entities[a] = &entity{ref: a, name: "a", parent: b}
	inv.entities[b] = &entity{ref: b, name: "b", parent: a}
	inv.place(inv.entities[a])
	if p := inv.entities[a].path; p != "" {
		t.Errorf("a ring of parents gave path %q", p)
	}
	if !slices.Contains(inventoryTypes, "Folder") {
		t.Error("folders are not read")
	}
}
