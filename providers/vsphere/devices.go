package vsphere

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// hardware gives processors, memory and devices.
func (mr *machineReader) hardware(o *object, r *providers.Resource) {
	hw, ok := o.props["config.hardware"].(types.VirtualHardware)
	if !ok {
		return
	}
	r.Set("/numCPUs", field(providers.Int(hw.NumCPU)))
	r.Set("/memoryMiB", field(providers.Int(hw.MemoryMB)))
	if cores, known := coresPerSocket(&hw, o.str("runtime.powerState")); known {
		r.Set("/coresPerSocket", field(providers.Int(cores)))
	}
	for _, d := range disksOf(hw.Device) {
		d.set(r)
	}
	mr.adapters(hw.Device, r)
	pciDevices(hw.Device, r)
}

// coresPerSocket gives the socket size that the guest sees. Unset means one, as
// releases before 7.0 U3 leave it out; and while a machine is off whose size
// vCenter chooses, the number says nothing (VirtualHardware.numCoresPerSocket).
func coresPerSocket(hw *types.VirtualHardware, power string) (cores int32, known bool) {
	chosen := hw.AutoCoresPerSocket != nil && *hw.AutoCoresPerSocket
	switch {
	case chosen && power != string(types.VirtualMachinePowerStatePoweredOn):
		return 0, false
	case hw.NumCoresPerSocket == nil:
		return 1, true
	default:
		return *hw.NumCoresPerSocket, *hw.NumCoresPerSocket > 0
	}
}

// disk is one virtual disk.
type disk struct {
	key      int32
	position string // controller and unit: "scsi0:1"
	bytes    int64
	foreign  string // who attached it, empty for a plain disk
	parent   bool   // it is a delta over another disk
	mode     string // VirtualDiskMode, empty where none is reported
}

func (d disk) path(part string) string {
	return providers.Pointer("disks", strconv.Itoa(int(d.key)), part)
}

const gibibyte = 1 << 30

func (d disk) set(r *providers.Resource) {
	r.Set(d.path("sizeGiB"), field(providers.Int(d.bytes/gibibyte)))
	r.Set(d.path("position"), field(providers.String(d.position)))
	if d.foreign != "" {
		r.Set(d.path("foreign"), field(providers.String(d.foreign)))
	}
	if d.parent {
		r.Set(d.path("hasParent"), field(providers.Bool(true)))
	}
	switch types.VirtualDiskMode(d.mode) {
	case types.VirtualDiskModeNonpersistent, types.VirtualDiskModeIndependent_nonpersistent, types.VirtualDiskModeUndoable, types.VirtualDiskModeAppend:
		// No spec has an opinion on the mode, so it is no drift; but the next
		// power-off takes what the node has written since.
		r.Warnings = append(r.Warnings, fmt.Sprintf("the disk at %s is in mode %s: what is written to it can be lost at power-off", d.position, d.mode))
	}
}

// disksOf gives the disks in the order of their device keys.
func disksOf(devices []types.BaseVirtualDevice) []disk {
	buses := busNames(devices)
	var out []disk
	for _, device := range devices {
		v, ok := device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		d := disk{key: v.Key, bytes: v.CapacityInBytes, position: buses[v.ControllerKey] + ":?"}
		if d.bytes == 0 {
			d.bytes = v.CapacityInKB << 10
		}
		if v.UnitNumber != nil {
			d.position = buses[v.ControllerKey] + ":" + strconv.Itoa(int(*v.UnitNumber))
		}
		file := ""
		if backing, ok := v.Backing.(types.BaseVirtualDeviceFileBackingInfo); ok {
			file = backing.GetVirtualDeviceFileBackingInfo().FileName
		}
		d.mode, d.parent = backingOf(v.Backing)
		d.foreign = diskOwner(v, file)
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b disk) int { return int(a.key) - int(b.key) })
	return out
}

// backingOf gives the mode of a disk and whether it is a delta. Which type of
// backing a linked clone has depends on its datastore: VMFS 6 makes SEsparse
// ones (VirtualDiskSeSparseBackingInfo).
func backingOf(backing types.BaseVirtualDeviceBackingInfo) (mode string, parent bool) {
	switch b := backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		return b.DiskMode, b.Parent != nil
	case *types.VirtualDiskSeSparseBackingInfo:
		return b.DiskMode, b.Parent != nil
	case *types.VirtualDiskSparseVer2BackingInfo:
		return b.DiskMode, b.Parent != nil
	case *types.VirtualDiskRawDiskMappingVer1BackingInfo:
		return b.DiskMode, b.Parent != nil
	case *types.VirtualDiskFlatVer1BackingInfo:
		return b.DiskMode, b.Parent != nil
	case *types.VirtualDiskSparseVer1BackingInfo:
		return b.DiskMode, b.Parent != nil
	default:
		return "", false
	}
}

// diskOwner recognises what the CSI driver attaches: first-class disks have an
// id of their own and lie in folder fcd (VirtualDisk.vDiskId, Virtual Storage
// Object); the in-tree driver before it used folder kubevols.
func diskOwner(d *types.VirtualDisk, file string) string {
	_, file, _ = strings.Cut(file, "] ")
	switch {
	case d.VDiskId != nil && d.VDiskId.Id != "", strings.HasPrefix(file, "fcd/"):
		return "first-class disk, as the CSI driver attaches"
	case strings.HasPrefix(file, "kubevols/"):
		return "volume of the in-tree vSphere driver"
	default:
		return ""
	}
}

// busNames gives each disk controller's name: scsi0, sata0, nvme0, ide1.
func busNames(devices []types.BaseVirtualDevice) map[int32]string {
	names := map[int32]string{}
	for _, device := range devices {
		c, ok := device.(types.BaseVirtualController)
		if !ok {
			continue
		}
		kind := ""
		switch device.(type) {
		case types.BaseVirtualSCSIController:
			kind = "scsi"
		case types.BaseVirtualSATAController:
			kind = "sata"
		case *types.VirtualNVMEController:
			kind = "nvme"
		case *types.VirtualIDEController:
			kind = "ide"
		default:
			continue
		}
		v := c.GetVirtualController()
		names[v.Key] = kind + strconv.Itoa(int(v.BusNumber))
	}
	return names
}

// adapters gives the network adapters by their place in the order of keys,
// which is the order in which CAPV adds the devices of the spec.
func (mr *machineReader) adapters(devices []types.BaseVirtualDevice, r *providers.Resource) {
	var cards []types.BaseVirtualDevice
	for _, device := range devices {
		if _, ok := device.(types.BaseVirtualEthernetCard); ok {
			cards = append(cards, device)
		}
	}
	sortByKey(cards)
	for i, device := range cards {
		card := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
		index := strconv.Itoa(i)
		r.Set(providers.Pointer("networks", index, "adapterType"), field(providers.String(adapterType(device))))
		if mac, err := canonical.MAC(card.MacAddress); err == nil {
			r.Set(providers.Pointer("networks", index, "macAddress"), field(providers.String(mac)))
		}
		r.Set(providers.Pointer("networks", index, "networkName"), field(providers.String(mr.networkOf(card))))
		if card.Connectable != nil {
			r.Set(providers.Pointer("networks", index, "connected"), field(providers.Bool(card.Connectable.Connected)))
		}
	}
	r.Set("/networkCount", field(providers.Int(len(cards))))
}

// networkOf resolves an adapter's backing. A network that is not in the
// inventory is shown by the id that the adapter holds.
func (mr *machineReader) networkOf(card *types.VirtualEthernetCard) string {
	switch b := card.Backing.(type) {
	case *types.VirtualEthernetCardNetworkBackingInfo:
		if b.Network != nil {
			if e := mr.inv.entities[*b.Network]; e != nil {
				return mr.inv.networkName(e)
			}
		}
		return b.DeviceName
	case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
		if e := mr.inv.portgroups[b.Port.PortgroupKey]; e != nil {
			return mr.inv.networkName(e)
		}
		return "port group " + b.Port.PortgroupKey
	case *types.VirtualEthernetCardOpaqueNetworkBackingInfo:
		if e := mr.inv.opaque[b.OpaqueNetworkId]; e != nil {
			return mr.inv.networkName(e)
		}
		return "opaque network " + b.OpaqueNetworkId
	default:
		return ""
	}
}

func adapterType(device types.BaseVirtualDevice) string {
	switch device.(type) {
	case *types.VirtualVmxnet3:
		return "vmxnet3"
	case *types.VirtualVmxnet2:
		return "vmxnet2"
	case *types.VirtualE1000:
		return "e1000"
	case *types.VirtualE1000e:
		return "e1000e"
	case *types.VirtualPCNet32:
		return "pcnet32"
	case *types.VirtualSriovEthernetCard:
		return "sriov"
	case *types.VirtualVmxnet3Vrdma:
		return "vmxnet3vrdma"
	default:
		return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", device), "*types.Virtual"))
	}
}

// pciDevices gives passed-through devices as "VENDOR:DEVICE" in hexadecimal,
// as lspci and vCenter write them, and shared GPUs as "vgpu PROFILE".
func pciDevices(devices []types.BaseVirtualDevice, r *providers.Resource) {
	var words []string
	for _, device := range devices {
		d, ok := device.(*types.VirtualPCIPassthrough)
		if !ok {
			continue
		}
		switch b := d.Backing.(type) {
		case *types.VirtualPCIPassthroughVmiopBackingInfo:
			words = append(words, vgpuWord(b.Vgpu))
		case *types.VirtualPCIPassthroughDynamicBackingInfo:
			for _, allowed := range b.AllowedDevice {
				words = append(words, pciWord(allowed.VendorId, allowed.DeviceId))
			}
		case *types.VirtualPCIPassthroughDeviceBackingInfo:
			id, err := strconv.ParseInt(b.DeviceId, 16, 32)
			if err == nil {
				words = append(words, pciWord(int32(b.VendorId), int32(id)))
			}
		}
	}
	slices.Sort(words)
	r.Set("/pciDevices", field(providers.Set(numbered(words)...)))
}

func vgpuWord(profile string) string { return "vgpu " + profile }

// pciWord prints ids as 16 bits: vendors above 0x7fff come negative in some
// answers.
func pciWord(vendor, device int32) string {
	return fmt.Sprintf("%04x:%04x", uint16(vendor), uint16(device)) //nolint:gosec // PCI ids have 16 bits
}

// numbered keeps equal words of a sorted list apart, since a set would lose
// how many there are: "10de:1eb8", "10de:1eb8 (2)".
func numbered(words []string) []string {
	out := make([]string, len(words))
	n := 0
	for i, w := range words {
		if i > 0 && words[i-1] == w {
			n++
			out[i] = fmt.Sprintf("%s (%d)", w, n+1)
			continue
		}
		n, out[i] = 0, w
	}
	return out
}
