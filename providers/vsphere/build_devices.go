package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Temporary keys of new devices, until vCenter gives others.
const (
	newCards = -100
	newDisks = -200
)

// devices puts the spec's adapters in the place of the template's, and adds the
// data disks.
func (m *maker) devices(ctx context.Context, source *object, at *place) ([]types.BaseVirtualDeviceConfigSpec, error) {
	hw, _ := source.props["config.hardware"].(types.VirtualHardware)
	like := &machine{object: *source, hw: hw, now: &providers.Resource{}}
	like.now.Set("/datacenter", field(providers.String(at.dc.path)))
	r := &reconfiguration{w: m.writer, m: like}
	for _, card := range cardsOf(like) {
		r.device(types.VirtualDeviceConfigSpecOperationRemove, card)
	}
	for i, a := range r.wantedAdapters() {
		if err := m.addCard(ctx, r, i, a); err != nil {
			return nil, err
		}
	}
	if err := m.dataDisks(r); err != nil {
		return nil, err
	}
	return r.spec.DeviceChange, nil
}

func (m *maker) addCard(ctx context.Context, r *reconfiguration, i int, a wantedAdapter) error {
	if a.network.IsAbsent() {
		return refusal(providers.ReasonRefused, "the spec names no network for device %d", i)
	}
	if a.network.IsSet() && len(a.network.Elements()) > 1 {
		return refusal(providers.ReasonRefused, "several networks may be meant for device %d: %s: name one by its path", i, a.network.Text())
	}
	backing, err := r.backing(ctx, a.network)
	if err != nil {
		return fmt.Errorf("device %d: %w", i, err)
	}
	device, err := vimobject.EthernetCardTypes().CreateEthernetCard(a.kind, backing)
	if err != nil {
		return refusal(providers.ReasonRefused, "adapter type %q: %w", a.kind, err)
	}
	card := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	card.Key = newCards - int32(i) //nolint:gosec // ten at most
	if !a.mac.IsAbsent() {
		card.MacAddress, card.AddressType = a.mac.Text(), string(types.VirtualEthernetCardMacTypeManual)
	}
	r.device(types.VirtualDeviceConfigSpecOperationAdd, device)
	return nil
}

// dataDisks adds the spec's data disks in the free places of the controller of
// the template's first disk, where Desired looks for them.
func (m *maker) dataDisks(r *reconfiguration) error {
	wanted := m.w.spec.DataDisks
	if len(wanted) == 0 {
		return nil
	}
	have := disksOf(r.m.hw.Device)
	if len(have) == 0 {
		return refusal(providers.ReasonRefused, "template %q has no disk, so there is no controller for data disks", m.w.spec.Template)
	}
	first := r.disk(have[0].key)
	seen := make([]seenDisk, 0, len(have))
	for _, d := range have {
		seen = append(seen, seenDisk{key: strconv.Itoa(int(d.key)), position: d.position})
	}
	places := dataDiskPlaces(seen, len(wanted))
	for i := range wanted {
		_, unit, _ := strings.Cut(places[i], ":")
		n, err := strconv.ParseInt(unit, 10, 32)
		if err != nil {
			return refusal(providers.ReasonRefused, "the place of the first disk of template %q cannot be told (%s)", m.w.spec.Template, have[0].position)
		}
		r.any = true
		r.spec.DeviceChange = append(r.spec.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: types.VirtualDeviceConfigSpecFileOperationCreate,
			Device: dataDisk(&wanted[i], first.ControllerKey, int32(n), int32(i)),
		})
	}
	return nil
}

func dataDisk(d *infrav1.VSphereDisk, controller, unit, i int32) *types.VirtualDisk {
	yes, no := true, false
	backing := &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent)}
	switch d.ProvisioningMode {
	case infrav1.ThinProvisioningMode:
		backing.ThinProvisioned = &yes
	case infrav1.ThickProvisioningMode:
		backing.ThinProvisioned = &no
	case infrav1.EagerlyZeroedProvisioningMode:
		backing.ThinProvisioned, backing.EagerlyScrub = &no, &yes
	}
	return &types.VirtualDisk{
		VirtualDevice: types.VirtualDevice{Key: newDisks - i, ControllerKey: controller, UnitNumber: &unit, Backing: backing},
		CapacityInKB:  int64(d.SizeGiB) << 20, CapacityInBytes: int64(d.SizeGiB) << 30,
	}
}

// macs gives the addresses of a machine's adapters in their order; ok is false
// while vCenter has not given each one.
func macs(m *machine) (out []string, ok bool) {
	for _, device := range cardsOf(m) {
		out = append(out, strings.ToLower(device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress))
	}
	return out, !slices.Contains(out, "")
}
