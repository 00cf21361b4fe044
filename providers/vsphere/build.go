package vsphere

import (
	"context"
	"fmt"
	"slices"

	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

var _ providers.Builder = (*Provider)(nil)

// Settle has nothing to decide: a VSphereCluster makes nothing, and what a
// VSphereMachine leaves open vCenter chooses once, when it is cloned.
func (p *Provider) Settle(context.Context, providers.Scope, *providers.Owner) error { return nil }

// Plan gives the virtual machine that a VSphereMachine wants, under a
// provisional ID for as long as none is recorded: also when the snapshot shows
// what an earlier call has cloned, since only Create knows what it lacks. A
// VSphereCluster wants nothing that would have to be made.
//
// Parts of the spec that are not compared do not stand against building and are
// left out; what a clone cannot be given is Unchecked.
func (p *Provider) Plan(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	switch infra := owner.Infra.(type) {
	case *infrav1.VSphereMachine:
		return p.planMachine(owner, infra, snap)
	case *infrav1.VSphereCluster:
		return nil, nil
	default:
		return nil, unknownOwner(owner)
	}
}

func unknownOwner(owner *providers.Owner) error {
	return fmt.Errorf("%s is a %T, which the vsphere provider does not know", owner.Ref, owner.Infra)
}

// Record writes the instance UUID of the clone into the provider id, which
// identifies it as well as the BIOS UUID does. Note puts the BIOS UUID in its
// place, by which nodes are known, before the machine is told to be there.
func (p *Provider) Record(owner *providers.Owner, planned, made providers.ID) error {
	machine, ok := owner.Infra.(*infrav1.VSphereMachine)
	if !ok {
		return unknownOwner(owner)
	}
	uuid, err := canonical.UUID(made.Name)
	if err != nil || made.Kind != providers.KindVirtualMachine || planned.Kind != made.Kind {
		return fmt.Errorf("record %s for %s of %s: not a virtual machine with an instance UUID", made, planned, owner.Ref)
	}
	if recorded, ok := canonical.VMUUID(machine.Spec.ProviderID); ok {
		if recorded == uuid {
			return nil
		}
		return fmt.Errorf("record %s for %s: its provider id is %q already", made, owner.Ref, machine.Spec.ProviderID)
	}
	machine.Spec.ProviderID = providerID(uuid)
	return nil
}

func providerID(uuid string) string { return "vsphere://" + uuid }

// Doomed gives the virtual machine of a VSphereMachine. A VSphereCluster has
// nothing of its own, and stays while machines need it for the way to vCenter.
func (p *Provider) Doomed(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	switch infra := owner.Infra.(type) {
	case *infrav1.VSphereMachine:
		return p.doomedMachine(owner, infra, snap)
	case *infrav1.VSphereCluster:
		for _, o := range owner.Siblings {
			if _, ok := o.(*infrav1.VSphereMachine); ok {
				return nil, fmt.Errorf("VSphereMachine %s still needs it: it names vCenter and the identity", o.GetName())
			}
		}
		return nil, nil
	default:
		return nil, unknownOwner(owner)
	}
}

// doomedMachine finds what is the owner's: by the UUID that is recorded, else by
// the instance UUID that Create gives. A machine of the same name with other
// UUIDs is somebody else's; one whose UUIDs cannot be read is in doubt.
func (p *Provider) doomedMachine(owner *providers.Owner, machine *infrav1.VSphereMachine, snap *providers.Snapshot) ([]providers.Resource, error) {
	if err := readInFull(snap); err != nil {
		return nil, err
	}
	x, w := p.index.get(snap), resolve(owner, machine)
	uuids := w.instances(machine)
	if machine.Spec.ProviderID != "" {
		recorded, ok := canonical.VMUUID(machine.Spec.ProviderID)
		if !ok {
			return nil, fmt.Errorf("its provider id %q holds no UUID, so it cannot be told which virtual machine is to go: correct it, or empty it if there is none", machine.Spec.ProviderID)
		}
		uuids = append([]string{recorded}, uuids...)
	}
	for i, uuid := range uuids {
		found := x.byUUID(snap, uuid)
		switch {
		case len(found) > 1:
			return nil, fmt.Errorf("%d virtual machines may be meant by UUID %s: %s", len(found), uuid, found[0].Unknown)
		case len(found) == 1 && i > 0 && machine.Spec.ProviderID != "":
			return nil, fmt.Errorf("%s, and has the instance UUID of this one: a person must look", mismatch(uuids[0], found[0]))
		case len(found) == 1:
			r := *found[0]
			r.Owner, r.Needs = owner.Ref, nil
			return []providers.Resource{r}, nil
		}
	}
	for _, t := range snap.OfKind(kindTemplate) {
		if slices.Contains(uuids, t.Fields.Get("/instanceUuid").Value.Text()) {
			return nil, fmt.Errorf("its virtual machine %s (%s) has been marked as a template: mark it as a machine again, or destroy it by hand", t.Name, t.ID.Name)
		}
	}
	return nil, w.inDoubt(snap, x)
}

// inDoubt gives an error where something in the snapshot may yet prove to be the
// owner's machine.
func (w *wantedMachine) inDoubt(snap *providers.Snapshot, x *snapshotIndex) error {
	for _, r := range x.name[w.name()] {
		if r.ID.Name == moid(r) || r.Fields.Get("/biosUuid").Value.IsAbsent() {
			return fmt.Errorf("virtual machine %s (%s) has its name and reports no UUID, so it cannot be told whose it is: %s", r.Name, moid(r), r.Unknown)
		}
	}
	for _, r := range snap.OfKind(kindClone) {
		if r.Name == w.name() || r.Name == "" {
			return fmt.Errorf("a virtual machine of its name is being cloned (%s): it is deleted when that has ended", r.ID.Name)
		}
	}
	return nil
}

// readInFull gives an error unless the snapshot shows all virtual machines, what
// they refer to, and the clones under way.
func readInFull(snap *providers.Snapshot) error {
	for _, kind := range []string{providers.KindVirtualMachine, kindTemplate, kindDatacenter, kindClone} {
		err, known := snap.Covered(kind, "")
		if err == nil && !known {
			err = providers.ErrNotRead
		}
		if err != nil {
			return fmt.Errorf("what vCenter holds is not known in full: %s: %w", kind, err)
		}
	}
	if len(snap.OfKind(kindDatacenter)) == 0 {
		return fmt.Errorf("vCenter %s shows no datacenter at all: the account may see too little", snap.Scope.Account)
	}
	return nil
}
