package vspherecluster

import (
	"slices"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// guests plays the operating systems of the machines: the simulator forgets
// their addresses whenever an adapter is edited, and guests do not.
type guests struct {
	mu        sync.Mutex
	addresses map[types.ManagedObjectReference]string
}

func newGuests() *guests {
	return &guests{addresses: map[types.ManagedObjectReference]string{}}
}

// Reference names the handler in the simulator's registry.
func (g *guests) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Guests", Value: "vspherecluster"}
}

// PutObject is called for objects that are made; they have no address yet.
func (g *guests) PutObject(*simulator.Context, mo.Reference) {}

// RemoveObject forgets a machine.
func (g *guests) RemoveObject(_ *simulator.Context, ref types.ManagedObjectReference) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.addresses, ref)
}

// UpdateObject is called with the machine's lock held.
func (g *guests) UpdateObject(_ *simulator.Context, o mo.Reference, changes []types.PropertyChange) {
	vm, ok := o.(*mo.VirtualMachine)
	if !ok || vm.Guest == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range changes {
		switch c.Name {
		case "guest.ipAddress":
			g.addresses[vm.Self], _ = c.Val.(string)
		case "config.hardware.device":
			address := g.addresses[vm.Self]
			known := slices.ContainsFunc(vm.Guest.Net, func(n types.GuestNicInfo) bool { return len(n.IpAddress) > 0 })
			if address != "" && !known && len(vm.Guest.Net) > 0 {
				// An edited adapter is the last in the simulator's list, and
				// its guest's first all the same.
				first := slices.MinFunc(vm.Guest.Net, func(a, b types.GuestNicInfo) int {
					return int(a.DeviceConfigId) - int(b.DeviceConfigId)
				})
				for i := range vm.Guest.Net {
					if vm.Guest.Net[i].DeviceConfigId == first.DeviceConfigId {
						vm.Guest.Net[i].IpAddress = []string{address}
					}
				}
			}
		}
	}
}
