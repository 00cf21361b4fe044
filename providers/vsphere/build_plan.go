package vsphere

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func (p *Provider) planMachine(owner *providers.Owner, machine *infrav1.VSphereMachine, snap *providers.Snapshot) ([]providers.Resource, error) {
	if err := readInFull(snap); err != nil {
		return nil, err
	}
	want, err := p.desiredMachine(owner, machine, snap)
	if err != nil || !want[0].Unsettled {
		return want[:min(1, len(want))], err
	}
	name, err := nameOf(owner, machine)
	if err != nil {
		return nil, err
	}
	x, w := p.index.get(snap), resolve(owner, machine)
	r := providers.Resource{
		ID: providers.Provisional(providers.KindVirtualMachine, name), Name: name, Owner: owner.Ref,
		Since: machine.CreationTimestamp.Time,
	}
	d := &desired{w: w, places: w.places(x), index: x, secret: p.secret, r: &r}
	if err := d.fields(); err != nil {
		return nil, fmt.Errorf("%s: %w", owner.Ref, err)
	}
	d.unbuildable(machine)
	return append([]providers.Resource{r}, d.unchecked...), nil
}

// unbuildable leaves in unchecked what stands against a clone: references that
// mean nothing, and what is asked for and would not be made.
func (d *desired) unbuildable(machine *infrav1.VSphereMachine) {
	found := d.unchecked
	d.unchecked = nil
	for _, u := range found {
		switch part := strings.TrimPrefix(u.ID.Name, d.r.ID.Name+"/"); {
		case part == "clusterModule", strings.HasSuffix(part, "/addressesFromPools"):
		case part == "cryptoKeyID", part == "cryptoProfile":
			d.skip(part, "Holdfast makes no encrypted machines: take it out, or leave this machine to CAPV")
		default:
			d.unchecked = append(d.unchecked, u)
		}
	}
	if d.w.vm != nil {
		d.skip("VSphereVM "+d.w.vm.Name, "CAPV has begun to make this machine: have it finish, or delete the VSphereVM, before Holdfast takes over")
	}
	d.unbuildableTemplate()
	d.unbuildableNetworks()
	d.nameTaken(machine)
}

func (d *desired) unbuildableTemplate() {
	ref := d.w.spec.Template
	switch {
	case ref == "":
		d.skip("template", "the spec names none: set spec.template to a template's name, path or instance UUID")
	case len(d.places.template(ref)) == 0 && !d.isMachine(ref):
		d.skip("template", fmt.Sprintf("the inventory has no template %q: upload it, correct spec.template, or let the account see its folder", ref))
	}
}

// isMachine reports whether a reference to a template means a virtual machine
// that is not marked as one, which may be cloned as well.
func (d *desired) isMachine(ref string) bool {
	for name, list := range d.index.name {
		for _, r := range list {
			at := r.Fields.Get("/folder").Value.Text() + "/" + name
			for _, dc := range d.places.datacenters {
				if strings.HasPrefix(at, dc+"/") && matches(r, at, dc+"/vm", ref) {
					return true
				}
			}
			if strings.EqualFold(r.ID.Name, ref) || isMoid(r, ref) {
				return true
			}
		}
	}
	return false
}

func isMoid(r *providers.Resource, ref string) bool {
	_, id, ok := strings.Cut(ref, ":")
	return ok && id == moid(r)
}

func (d *desired) unbuildableNetworks() {
	devices := d.w.spec.Network.Devices
	if len(devices) == 0 {
		d.skip("network/devices", "the spec names none, and a machine without a network becomes no node")
	}
	for i := range devices {
		dev := &devices[i]
		part := fmt.Sprintf("network/devices/%d", i)
		switch {
		case dev.NetworkName == "":
			d.skip(part+"/networkName", "the spec names no network for it")
		case len(dev.AddressesFromPools) > 0:
			d.skip(part+"/addressesFromPools", fmt.Sprintf(
				"it wants an address from %s %s, and Holdfast makes no IPAddressClaims: give it ipAddrs, or dhcp4 or dhcp6",
				dev.AddressesFromPools[0].Kind, dev.AddressesFromPools[0].Name))
		case len(dev.IPAddrs) == 0 && !ptr.Deref(dev.DHCP4, false) && !ptr.Deref(dev.DHCP6, false) && !ptr.Deref(dev.SkipIPAllocation, false):
			d.skip(part, "it has neither dhcp4, dhcp6 nor ipAddrs: set one of them, or skipIPAllocation")
		}
	}
}

// nameTaken looks for a machine of another's in the place of the one to be made:
// vCenter has no two of a name in a folder.
func (d *desired) nameTaken(machine *infrav1.VSphereMachine) {
	own := map[string]bool{}
	for _, id := range d.w.instances(machine) {
		own[id] = true
	}
	folders := d.places.folder(d.w.spec.Folder)
	if len(folders) != 1 {
		return
	}
	for _, r := range d.index.name[d.r.Name] {
		if r.Fields.Get("/folder").Value.Text() != folders[0] || own[r.ID.Name] || r.ID.Name == moid(r) {
			continue
		}
		d.skip("name", fmt.Sprintf("folder %s has a virtual machine %s already (%s, instance UUID %s), which is not this machine's: rename or remove it",
			folders[0], r.Name, moid(r), r.ID.Name))
	}
}
