package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// cardsOf gives the adapters in the order in which their paths number them.
func cardsOf(m *machine) []types.BaseVirtualDevice {
	var cards []types.BaseVirtualDevice
	for _, device := range m.hw.Device {
		if _, ok := device.(types.BaseVirtualEthernetCard); ok {
			cards = append(cards, device)
		}
	}
	sortByKey(cards)
	return cards
}

// networkStops reports whether an adapter's field is set with the machine off.
// A missing adapter is added as it is wanted, live.
func networkStops(m *machine, path string) bool {
	index, part, ok := networkField(path)
	return ok && index < len(cardsOf(m)) && part != "networkName"
}

func networkField(path string) (index int, part string, ok bool) {
	segments := providers.Segments(path)
	if len(segments) != 3 || segments[0] != "networks" {
		return 0, "", false
	}
	index, err := strconv.Atoi(segments[1])
	return index, segments[2], err == nil && index >= 0
}

// adapters sets the adapters: those that are missing first, and while any is,
// nothing else, since which is which shows only once all are there.
func (r *reconfiguration) adapters(ctx context.Context, stopping bool) error {
	left := r.w.left(r.m, func(path string) bool { return path == countPath || strings.HasPrefix(path, networksPrefix) })
	if len(left) == 0 {
		return nil
	}
	cards := cardsOf(r.m)
	wanted := r.wantedAdapters()
	if len(cards) < len(wanted) {
		return r.addMissing(ctx, cards, wanted)
	}
	if len(cards) > len(wanted) && slices.ContainsFunc(left, func(f *providers.FieldChange) bool { return f.Path == countPath }) {
		return refusal(providers.ReasonForeign, "the machine has %d adapters and its spec names %d: whose the further ones are is not known", len(cards), len(wanted))
	}
	if err := r.unpermuted(cards, wanted); err != nil {
		return err
	}
	return r.edit(ctx, cards, left, stopping)
}

// edit changes adapters that exist, by their device keys. Whatever a change
// does not name stays, MAC addresses above all.
func (r *reconfiguration) edit(ctx context.Context, cards []types.BaseVirtualDevice, left []*providers.FieldChange, stopping bool) error {
	byIndex := map[int][]*providers.FieldChange{}
	for _, f := range left {
		index, part, ok := networkField(f.Path)
		if !ok || index >= len(cards) {
			return refusal(providers.ReasonMoved, "the machine has no adapter for %s", f.Path)
		}
		if stopping && (r.w.stop || part != "networkName") {
			continue
		}
		byIndex[index] = append(byIndex[index], f)
	}
	for index := range cards {
		if len(byIndex[index]) == 0 {
			continue
		}
		if err := r.editCard(ctx, cards[index], byIndex[index]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reconfiguration) editCard(ctx context.Context, old types.BaseVirtualDevice, fields []*providers.FieldChange) error {
	kind := ""
	card := *old.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	for _, f := range fields {
		_, part, _ := networkField(f.Path)
		switch part {
		case "networkName":
			backing, err := r.backing(ctx, f.Want)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
			card.Backing = backing
		case "macAddress":
			card.MacAddress, card.AddressType = f.Want.Text(), string(types.VirtualEthernetCardMacTypeManual)
		case "adapterType":
			kind = f.Want.Text()
		default:
			return refusal(providers.ReasonUnsupported, "%s cannot be set", f.Path)
		}
	}
	if kind == "" {
		return r.editInPlace(old, &card)
	}
	// The type of an adapter is its device's: another one takes its place on
	// the bus, and keeps its address.
	card.AddressType = string(types.VirtualEthernetCardMacTypeManual)
	replacement, err := vimobject.EthernetCardTypes().CreateEthernetCard(kind, card.Backing)
	if err != nil {
		return refusal(providers.ReasonRefused, "adapter type %q: %w", kind, err)
	}
	to := replacement.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	label := to.DeviceInfo
	*to = card
	to.Key, to.DeviceInfo = -card.Key, label
	r.device(types.VirtualDeviceConfigSpecOperationRemove, old)
	r.device(types.VirtualDeviceConfigSpecOperationAdd, replacement)
	return nil
}

// editInPlace sends the device back with what changes.
func (r *reconfiguration) editInPlace(old types.BaseVirtualDevice, card *types.VirtualEthernetCard) error {
	edited, err := vimobject.EthernetCardTypes().CreateEthernetCard(adapterType(old), card.Backing)
	if err != nil {
		return refusal(providers.ReasonUnsupported, "an adapter of type %s is not edited: %w", adapterType(old), err)
	}
	*edited.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard() = *card
	r.device(types.VirtualDeviceConfigSpecOperationEdit, edited)
	return nil
}

// wantedAdapter is what the spec says about one adapter.
type wantedAdapter struct {
	network, mac providers.Value
	kind         string
}

func (a wantedAdapter) on(network string) bool {
	switch {
	case a.network.IsAbsent():
		return true
	case a.network.IsSet():
		return a.network.Has(network)
	default:
		return a.network.Text() == network
	}
}

func (r *reconfiguration) wantedAdapters() []wantedAdapter {
	n, _ := r.w.change.Want.Fields.Get(countPath).Value.Number()
	out := make([]wantedAdapter, 0, max(n, 0))
	for i := range int(n) {
		part := func(name string) providers.Value {
			return r.w.change.Want.Fields.Get(providers.Pointer("networks", strconv.Itoa(i), name)).Value
		}
		a := wantedAdapter{network: part("networkName"), mac: part("macAddress"), kind: part("adapterType").Text()}
		if a.kind == "" {
			a.kind = "vmxnet3"
		}
		out = append(out, a)
	}
	return out
}

// addMissing adds the adapters that the machine has lost. Which they are is
// known only if those that are left are on the networks of the others, in
// order: otherwise an adapter would be put on a network that was another's.
func (r *reconfiguration) addMissing(ctx context.Context, cards []types.BaseVirtualDevice, wanted []wantedAdapter) error {
	next := 0
	var missing []wantedAdapter
	for i, a := range wanted {
		spare := len(wanted) - i - (len(cards) - next) // how many may still be missing
		if next < len(cards) && (spare == 0 || a.on(r.networkAt(next))) {
			if !a.on(r.networkAt(next)) {
				return refusal(providers.ReasonRefused, "%d of %d adapters are left, and which are missing is not certain: adapter %d is on %s",
					len(cards), len(wanted), next, r.networkAt(next))
			}
			next++
			continue
		}
		missing = append(missing, a)
	}
	for i, a := range missing {
		if a.network.IsAbsent() {
			return refusal(providers.ReasonRefused, "the spec names no network for the missing adapter")
		}
		backing, err := r.backing(ctx, a.network)
		if err != nil {
			return err
		}
		device, err := vimobject.EthernetCardTypes().CreateEthernetCard(a.kind, backing)
		if err != nil {
			return refusal(providers.ReasonRefused, "adapter type %q: %w", a.kind, err)
		}
		card := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
		card.Key = -int32(100 + i)
		if !a.mac.IsAbsent() {
			card.MacAddress, card.AddressType = a.mac.Text(), string(types.VirtualEthernetCardMacTypeManual)
		}
		r.device(types.VirtualDeviceConfigSpecOperationAdd, device)
	}
	return nil
}

func (r *reconfiguration) networkAt(index int) string {
	return r.m.now.Fields.Get(providers.Pointer("networks", strconv.Itoa(index), "networkName")).Value.Text()
}

// unpermuted refuses to rewire adapters that are all on a wanted network, each
// on another's: the guest knows them by address, and would lose both networks.
func (r *reconfiguration) unpermuted(cards []types.BaseVirtualDevice, wanted []wantedAdapter) error {
	if len(cards) != len(wanted) {
		return nil
	}
	var have, want []string
	ordered := true
	for i, a := range wanted {
		have = append(have, r.networkAt(i))
		want = append(want, a.network.Text())
		ordered = ordered && a.on(r.networkAt(i))
	}
	slices.Sort(have)
	slices.Sort(want)
	if !ordered && slices.Equal(have, want) {
		return refusal(providers.ReasonRefused, "the adapters are on the wanted networks in another order: rewiring them would cut both off")
	}
	return nil
}

// backing gives the device backing of a network in the machine's datacenter,
// under the name that findings give it.
func (r *reconfiguration) backing(ctx context.Context, want providers.Value) (types.BaseVirtualDeviceBackingInfo, error) {
	dc := r.m.now.Fields.Get("/datacenter").Value.Text()
	for _, name := range want.Elements() {
		for _, e := range r.w.inv.entities {
			if inventoryKinds[e.ref.Type] != kindNetwork || e.datacenter != dc || r.w.inv.networkName(e) != name {
				continue
			}
			network, ok := vimobject.NewReference(r.w.live.vim, e.ref).(vimobject.NetworkReference)
			if !ok {
				continue
			}
			backing, err := network.EthernetCardBackingInfo(ctx)
			if err != nil {
				return nil, fmt.Errorf("read network %s: %w", name, err)
			}
			return backing, nil
		}
	}
	return nil, refusal(providers.ReasonRefused, "the datacenter has no network %s", want.Text())
}
