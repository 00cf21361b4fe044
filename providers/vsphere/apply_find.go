package vsphere

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// writeProps are read of a machine that is to be changed, besides machineProps.
var writeProps = []string{
	"config.changeVersion", "config.cpuHotRemoveEnabled", "recentTask", "summary.runtime.bootTime",
}

// machine is a virtual machine as it is at one moment of a change.
type machine struct {
	object
	now *providers.Resource
	hw  types.VirtualHardware
}

func (m *machine) power() types.VirtualMachinePowerState {
	return types.VirtualMachinePowerState(m.str("runtime.powerState"))
}

func (m *machine) on() bool { return m.power() == types.VirtualMachinePowerStatePoweredOn }

func (m *machine) off() bool { return m.power() == types.VirtualMachinePowerStatePoweredOff }

func (m *machine) may(property string) bool {
	yes, _ := boolean(m.props[property])
	return yes
}

// read finds the machine by the change's UUID, as Confirm does, and reads it
// with its tags where the change is about them. A name, a folder or a managed
// object never finds one.
func (w *writer) read(ctx context.Context) (*machine, error) {
	c := w.live.vim
	refs, err := candidates(ctx, c, w.change.Resource.Name)
	if err != nil {
		return nil, err
	}
	found, err := readRefs(ctx, c, refs, writeProps...)
	if err != nil && (!errors.Is(err, errVanished) || named(w.change.Resource.Name)) {
		return nil, err
	}
	switch len(found) {
	case 0:
		return nil, refusal(providers.ReasonMoved, "no virtual machine has UUID %s any more", w.change.Resource.Name)
	case 1:
	default:
		return nil, refusal(providers.ReasonMoved, "%d virtual machines may be meant by UUID %s", len(found), w.change.Resource.Name)
	}
	if w.inv == nil {
		if w.inv, err = readInventory(ctx, c); err != nil {
			return nil, err
		}
	}
	m := &machine{object: found[0]}
	m.hw, _ = m.props["config.hardware"].(types.VirtualHardware)
	m.now = (&machineReader{inv: w.inv, secret: w.provider.secret}).resource(&m.object)
	if err := w.identified(ctx, m); err != nil {
		return nil, err
	}
	if err := w.readTags(ctx, m); err != nil {
		return nil, fmt.Errorf("read its tags: %w", err)
	}
	return m, nil
}

// identified makes sure that the machine is the one that was compared, and the
// only one: an identity that is in doubt is never written to.
func (w *writer) identified(ctx context.Context, m *machine) error {
	was, is := w.change.Have.Fields.Get("/biosUuid").Value.Text(), m.now.Fields.Get("/biosUuid").Value.Text()
	if was != is {
		return refusal(providers.ReasonMoved, "virtual machine %s has BIOS UUID %s now, and had %s when the change was decided", m.ref.Value, is, was)
	}
	if m.now.Unknown != "" {
		return fmt.Errorf("its state cannot be told: %s", m.now.Unknown)
	}
	same, err := sameBIOS(ctx, w.live.vim, is)
	if err != nil {
		return err
	}
	if len(same) > 1 {
		var names []string
		for i := range same {
			names = append(names, same[i].str("name")+" ("+same[i].ref.Value+")")
		}
		return refusal(providers.ReasonMoved, "%d virtual machines have BIOS UUID %s: %s", len(same), is, strings.Join(names, ", "))
	}
	return nil
}
