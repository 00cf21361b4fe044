package vsphere

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// hardware wants processors, memory and what else the spec sets. Zero and
// unset leave the template's value, or CAPV's default of the day, and are no
// opinion.
func (d *desired) hardware() error {
	spec := &d.w.spec
	if spec.NumCPUs > 0 {
		d.want("/numCPUs", providers.Int(spec.NumCPUs), d.hotAdd("/numCPUs", "/cpuHotAdd", int64(spec.NumCPUs)), providers.Exactly)
	}
	if n := spec.NumCoresPerSocket; n != nil && *n > 0 {
		// 0 asks vSphere 8 to assign it at power on.
		d.want("/coresPerSocket", providers.Int(*n), providers.InPlaceDisruptive, providers.Exactly)
	}
	if spec.MemoryMiB > 0 {
		d.want("/memoryMiB", providers.Int(spec.MemoryMiB), d.hotAdd("/memoryMiB", "/memoryHotAdd", spec.MemoryMiB), providers.Exactly)
	}
	if spec.HardwareVersion != "" {
		n, err := canonical.HardwareVersion(spec.HardwareVersion)
		if err != nil {
			return fmt.Errorf("spec.hardwareVersion: %w", err)
		}
		d.want("/hardwareVersion", providers.Int(n), providers.InPlaceDisruptive, providers.AtLeast)
	}
	if spec.NestedHV != nil {
		d.want("/nestedHV", providers.Bool(*spec.NestedHV), providers.InPlaceDisruptive, providers.Exactly)
	}
	if spec.FtEncryptionMode != "" {
		d.want("/ftEncryptionMode", providers.String(string(spec.FtEncryptionMode)), providers.InPlaceDisruptive, providers.Exactly)
	}
	if spec.MigrateEncryption != "" {
		d.want("/migrateEncryption", providers.String(string(spec.MigrateEncryption)), providers.InPlace, providers.Exactly)
	}
	if err := d.resources(&spec.Resources); err != nil {
		return err
	}
	d.pciDevices(spec.PciDevices)
	return nil
}

// hotAdd says how processors or memory change: in place where the machine takes
// more of them while it runs, otherwise with the machine stopped.
func (d *desired) hotAdd(path, enabled string, want int64) providers.Mutability {
	if d.seen == nil || d.seen.Fields.Get(powerPath).Value.Text() != string(infrav1.VirtualMachinePowerStatePoweredOn) {
		return providers.InPlaceDisruptive
	}
	have, ok := d.seen.Fields.Get(path).Value.Number()
	if ok && want > have && d.seen.Fields.Get(enabled).Value.Equal(providers.Bool(true)) {
		return providers.InPlace
	}
	return providers.InPlaceDisruptive
}

// resources are in MHz and MiB, rounded up as CAPV does.
func (d *desired) resources(r *infrav1.VirtualMachineResources) error {
	const mega, mebi = 1_000_000, 1 << 20
	for _, q := range []struct {
		path string
		q    resource.Quantity
		unit int64
	}{
		{"/resources/requests/cpu", r.Requests.CPU, mega},
		{"/resources/requests/memory", r.Requests.Memory, mebi},
		{"/resources/limits/cpu", r.Limits.CPU, mega},
		{"/resources/limits/memory", r.Limits.Memory, mebi},
	} {
		if !q.q.IsZero() {
			n := q.q.Value()
			if n <= 0 { // below zero, or beyond 64 bits
				return fmt.Errorf("spec%s is %s, which is no amount that a machine can have", strings.ReplaceAll(q.path, "/", "."), q.q.String())
			}
			whole := n / q.unit
			if n%q.unit > 0 {
				whole++
			}
			d.want(q.path, providers.Int(whole), providers.InPlace, providers.Exactly)
		}
	}
	if r.Shares.CPU > 0 {
		d.want("/resources/shares/cpu", providers.Int(r.Shares.CPU), providers.InPlace, providers.Exactly)
	}
	if r.Shares.Memory > 0 {
		d.want("/resources/shares/memory", providers.Int(r.Shares.Memory), providers.InPlace, providers.Exactly)
	}
	return nil
}

func (d *desired) pciDevices(devices []infrav1.PCIDeviceSpec) {
	var words []string
	for _, dev := range devices {
		switch {
		case dev.VGPUProfile != "":
			words = append(words, vgpuWord(dev.VGPUProfile))
		case dev.DeviceID != nil && dev.VendorID != nil:
			words = append(words, pciWord(*dev.VendorID, *dev.DeviceID))
		}
	}
	if len(words) > 0 {
		slices.Sort(words)
		d.want("/pciDevices", providers.Set(numbered(words)...), providers.InPlaceDisruptive, providers.Contains)
	}
}

// networks wants the spec's devices in their order. More adapters than
// devices, and fewer, show in the count too.
func (d *desired) networks() error {
	devices := d.w.spec.Network.Devices
	if len(devices) == 0 {
		return nil
	}
	d.want("/networkCount", providers.Int(len(devices)), providers.InPlace, providers.Exactly)
	var addresses []string
	for i := range devices {
		dev := &devices[i]
		index := strconv.Itoa(i)
		d.network(index, dev)
		// CAPV makes every adapter a vmxnet3 (package vcenter, clone.go), and
		// no template's type survives.
		d.want(providers.Pointer("networks", index, "adapterType"), providers.String("vmxnet3"), providers.InPlaceDisruptive, providers.Exactly)
		if dev.MACAddr != "" {
			mac, err := canonical.MAC(dev.MACAddr)
			if err != nil {
				return fmt.Errorf("spec.network.devices[%d].macAddr: %w", i, err)
			}
			d.want(providers.Pointer("networks", index, "macAddress"), providers.String(mac), providers.InPlaceDisruptive, providers.Exactly)
		}
		for _, a := range dev.IPAddrs {
			ip, err := canonical.IP(a)
			if err != nil {
				return fmt.Errorf("spec.network.devices[%d].ipAddrs: %w", i, err)
			}
			addresses = append(addresses, ip)
		}
		if len(dev.AddressesFromPools) > 0 {
			d.skip("network/devices/"+index+"/addressesFromPools", "addresses from an IPAM provider's pools are not compared")
		}
	}
	if len(addresses) > 0 {
		// Guests report addresses of containers and their bridges as well, in
		// any order (C39).
		d.want("/addresses", providers.Set(addresses...), providers.ReadOnly, providers.Contains)
	}
	return nil
}

func (d *desired) network(index string, dev *infrav1.NetworkDeviceSpec) {
	if d.w.placement != "" || dev.NetworkName == "" {
		return
	}
	path := providers.Pointer("networks", index, "networkName")
	names := d.places.network(dev.NetworkName)
	if len(names) == 0 {
		d.unresolved("network/devices/"+index+"/networkName", "network", dev.NetworkName)
		return
	}
	d.wantOneOf(path, names, providers.InPlace)
}

// wantOneOf wants the one value, or any of several.
func (d *desired) wantOneOf(path string, values []string, m providers.Mutability) {
	if len(values) == 1 {
		d.want(path, providers.String(values[0]), m, providers.Exactly)
		return
	}
	d.want(path, providers.Set(values...), m, providers.OneOf)
}

// unresolved says that a reference means nothing in the inventory as it is
// now: what is wanted is unknown, and unknown is no drift.
func (d *desired) unresolved(part, what, ref string) {
	d.skip(part, fmt.Sprintf("the inventory has no %s %q, so what is wanted cannot be told", what, ref))
}
