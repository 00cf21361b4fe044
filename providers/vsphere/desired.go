package vsphere

import (
	"fmt"

	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Desired gives what an owner wants.
func (p *Provider) Desired(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	switch infra := owner.Infra.(type) {
	case *infrav1.VSphereMachine:
		return p.desiredMachine(owner, infra, snap)
	case *infrav1.VSphereCluster:
		return desiredCluster(owner, infra), nil
	default:
		return nil, fmt.Errorf("%s is a %T, which the vsphere provider does not know", owner.Ref, owner.Infra)
	}
}

func (p *Provider) desiredMachine(owner *providers.Owner, machine *infrav1.VSphereMachine, snap *providers.Snapshot) ([]providers.Resource, error) {
	x := p.index.get(snap)
	w := resolve(owner, machine)
	who := w.identify(machine, snap, x)
	r := providers.Resource{
		ID:        who.id,
		Name:      w.name(),
		Owner:     owner.Ref,
		Unsettled: who.unsettled,
		Unchecked: who.unchecked,
		Unknown:   who.unknown,
		Since:     machine.CreationTimestamp.Time,
	}
	if who.unsettled || who.unchecked != "" {
		return []providers.Resource{r}, nil
	}
	d := &desired{w: w, seen: who.seen, places: w.places(x), index: x, secret: p.secret, r: &r}
	if err := d.fields(); err != nil {
		return nil, fmt.Errorf("%s: %w", owner.Ref, err)
	}
	return append([]providers.Resource{r}, d.unchecked...), nil
}

// desired collects the fields that one machine wants.
type desired struct {
	w      *wantedMachine
	seen   *providers.Resource // nil where the machine was not found
	places places
	index  *snapshotIndex
	secret secret

	r *providers.Resource
	// unchecked are parts of the spec that are not compared.
	unchecked []providers.Resource
}

func (d *desired) want(path string, v providers.Value, m providers.Mutability, match providers.Match) {
	d.r.Set(path, providers.Field{Value: v, Mutability: m, Match: match})
}

// skip says that a part of the spec is not compared, and why.
func (d *desired) skip(part, why string) {
	d.unchecked = append(d.unchecked, providers.Resource{
		ID:        providers.ID{Kind: d.r.ID.Kind, Name: d.r.ID.Name + "/" + part},
		Name:      d.r.Name,
		Owner:     d.r.Owner,
		Unchecked: part + ": " + why,
	})
}

func (d *desired) warn(format string, args ...any) {
	d.r.Warnings = append(d.r.Warnings, fmt.Sprintf(format, args...))
}

func (d *desired) fields() error {
	// CAPV powers on whatever is off; powerOffMode concerns deletion only.
	d.want("/powerState", providers.String(string(infrav1.VirtualMachinePowerStatePoweredOn)), providers.InPlace, providers.Exactly)
	// Snapshots are no part of any spec: a node with one runs on delta disks,
	// and CAPV cannot clone or grow those.
	d.want("/snapshots", providers.Set(), providers.InPlace, providers.Exactly)
	if d.w.vm != nil {
		d.want("/name", providers.String(d.w.vm.Name), providers.InPlace, providers.Exactly)
	}
	if err := d.hardware(); err != nil {
		return err
	}
	d.disks()
	if err := d.networks(); err != nil {
		return err
	}
	d.placement()
	d.tags()
	d.extraConfig()
	d.unmodelled()
	return nil
}
