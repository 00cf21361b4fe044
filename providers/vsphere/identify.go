package vsphere

import (
	"fmt"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// identity is which machine in a snapshot an owner means.
type identity struct {
	id   providers.ID
	seen *providers.Resource
	// unsettled, unchecked and unknown say why there is none, as in
	// providers.Resource.
	unsettled          bool
	unchecked, unknown string
}

// identify finds the owner's machine by the UUID in its provider id, which
// CAPV sets to the BIOS UUID. A name, a folder or a managed object never
// identifies a machine; they only keep a changed UUID from looking like loss.
func (w *wantedMachine) identify(machine *infrav1.VSphereMachine, snap *providers.Snapshot, x *snapshotIndex) identity {
	recorded := machine.Spec.ProviderID
	if recorded == "" && w.vm != nil && w.vm.Spec.BiosUUID != "" {
		recorded = "vsphere://" + w.vm.Spec.BiosUUID
	}
	if recorded == "" {
		return identity{id: virtualMachine(""), unsettled: true}
	}
	uuid, ok := canonical.VMUUID(recorded)
	if !ok {
		return identity{
			id:        virtualMachine(""),
			unchecked: fmt.Sprintf("its provider id %q holds no UUID, and nothing else identifies a virtual machine", recorded),
		}
	}
	if found := x.byUUID(snap, uuid); len(found) > 0 {
		return identity{id: found[0].ID, seen: found[0]}
	}
	if r := w.lookalike(snap, x); r != nil {
		// The wanted UUID stays the id: the other machine is not claimed.
		return identity{id: virtualMachine(uuid), unknown: mismatch(uuid, r)}
	}
	return identity{id: virtualMachine(uuid)}
}

// mismatch says why the machine in an owner's place cannot be told to be its.
func mismatch(uuid string, r *providers.Resource) string {
	bios := r.Fields.Get("/biosUuid").Value.Text()
	if bios == "" {
		return fmt.Sprintf("no virtual machine reports UUID %s, and %s (%s) in its place reports none: %s", uuid, r.Name, moid(r), r.Unknown)
	}
	return fmt.Sprintf("identity mismatch: the provider id says UUID %s, and virtual machine %s (%s) in its place has BIOS UUID %s",
		uuid, r.Name, moid(r), bios)
}

func virtualMachine(name string) providers.ID {
	return providers.ID{Kind: providers.KindVirtualMachine, Name: name}
}

// lookalike gives a machine that may be the owner's with another UUID than
// recorded: it has the instance UUID that CAPV gives its clones (the
// VSphereVM's UID), or the managed object that CAPV recorded, or the name in
// the wanted folder. A machine that another owner has recorded is not one.
func (w *wantedMachine) lookalike(snap *providers.Snapshot, x *snapshotIndex) *providers.Resource {
	var candidates []*providers.Resource
	if w.vm != nil {
		if id, err := canonical.UUID(string(w.vm.UID)); err == nil {
			if r := snap.Resources[virtualMachine(id)]; r != nil {
				candidates = append(candidates, r)
			}
		}
		_, ref, _ := strings.Cut(w.vm.Status.VMRef, ":")
		candidates = append(candidates, x.moid[ref]...)
	}
	folders := w.places(x).folder(w.spec.Folder)
	for _, r := range x.name[w.name()] {
		folder := r.Fields.Get("/folder").Value
		if len(folders) == 0 || folder.IsAbsent() || providers.Set(folders...).Has(folder.Text()) {
			candidates = append(candidates, r)
		}
	}
	for _, r := range candidates {
		if !w.claimed(r) {
			return r
		}
	}
	return nil
}

// claimed reports whether another machine of the cluster has recorded the
// UUID.
func (w *wantedMachine) claimed(r *providers.Resource) bool {
	bios := r.Fields.Get("/biosUuid").Value.Text()
	if bios == "" {
		return false
	}
	for _, o := range w.owner.Siblings {
		sibling, ok := o.(*infrav1.VSphereMachine)
		if !ok || sibling.Name == w.owner.Ref.Name && sibling.Namespace == w.owner.Ref.Namespace {
			continue
		}
		if uuid, ok := canonical.VMUUID(sibling.Spec.ProviderID); ok && (uuid == bios || canonical.SwapUUID(uuid) == bios) {
			return true
		}
	}
	return false
}
