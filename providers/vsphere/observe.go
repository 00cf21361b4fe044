package vsphere

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// Coverage parts of a machine that need reads of their own.
const (
	coverTags          = providers.KindVirtualMachine + "/tags"
	coverStoragePolicy = providers.KindVirtualMachine + "/storagePolicy"
)

// Observe reads the inventory of one vCenter. A part that cannot be read has
// its reason in the coverage; without a session everything has.
func (p *Provider) Observe(ctx context.Context, scope providers.Scope) (*providers.Snapshot, error) {
	c, err := p.connection(scope)
	if err != nil {
		return nil, err
	}
	snap := &providers.Snapshot{
		Scope:     scope,
		TakenAt:   p.now(),
		Coverage:  map[string]error{},
		Resources: map[providers.ID]*providers.Resource{},
	}
	sweep := &sweep{secret: p.secret, snap: snap}
	if err := c.do(ctx, func(live *liveSession) error { return sweep.inventory(ctx, live) }); err != nil {
		var scopeErr *providers.ScopeError
		if errors.As(err, &scopeErr) || ctx.Err() != nil {
			return nil, err
		}
		inventoryCoverage(snap, fmt.Errorf("read the inventory of %s: %w", scope.Account, err))
	}
	// Before the machines: a clone that ends in between is among them.
	err = c.do(ctx, func(live *liveSession) error { return sweep.clones(ctx, live) })
	if err != nil {
		err = fmt.Errorf("read the clones under way in %s: %w", scope.Account, err)
	}
	snap.Coverage[kindClone] = err
	err = c.do(ctx, func(live *liveSession) error { return sweep.machines(ctx, live) })
	if err != nil {
		err = fmt.Errorf("read the virtual machines of %s: %w", scope.Account, err)
	}
	snap.Coverage[providers.KindVirtualMachine] = err
	snap.Coverage[kindTemplate] = err
	err = c.do(ctx, func(live *liveSession) error { return sweep.tags(ctx, live, &c.names, p.now()) })
	if err != nil {
		err = fmt.Errorf("read the tags of %s: %w", scope.Account, err)
	}
	snap.Coverage[coverTags] = err
	snap.Coverage[kindTag] = err
	err = c.do(ctx, func(live *liveSession) error { return sweep.storagePolicies(ctx, live) })
	if err != nil {
		err = fmt.Errorf("read the storage policies of %s: %w", scope.Account, err)
	}
	snap.Coverage[coverStoragePolicy] = err
	return snap, nil
}

func (p *Provider) connection(scope providers.Scope) (*connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conns[scope]
	if c == nil {
		return nil, &providers.ScopeError{
			Reason: providers.ReasonCredentials,
			Err:    fmt.Errorf("no owner has named credentials for %s yet", scope),
		}
	}
	return c, nil
}

// sweep is one reading of a vCenter on its way into a snapshot. Each part may
// run twice, when the session was lost in the middle.
type sweep struct {
	secret secret
	snap   *providers.Snapshot
	inv    *inventory
	// refs are the machines in the snapshot by managed object.
	refs map[types.ManagedObjectReference]*providers.Resource
}

func (s *sweep) inventory(ctx context.Context, live *liveSession) error {
	s.inv = newInventory(live.vim.ServiceContent.RootFolder)
	inv, err := readInventory(ctx, live.vim)
	if err != nil {
		return err
	}
	s.inv = inv
	inv.resources(s.snap)
	inventoryCoverage(s.snap, nil)
	return nil
}

func (s *sweep) machines(ctx context.Context, live *liveSession) error {
	objects, err := readMachines(ctx, live.vim)
	if err != nil {
		return err
	}
	reader := &machineReader{inv: s.inv, secret: s.secret}
	s.refs = make(map[types.ManagedObjectReference]*providers.Resource, len(objects))
	seen := make([]*providers.Resource, 0, len(objects))
	for i := range objects {
		o := &objects[i]
		if template, _ := boolean(o.props["config.template"]); template {
			t := reader.template(o)
			s.snap.Resources[t.ID] = t
			continue
		}
		r := reader.resource(o)
		s.refs[o.ref] = r
		seen = append(seen, r)
	}
	for _, r := range markDuplicates(seen) {
		s.snap.Resources[r.ID] = r
	}
	return nil
}

func readMachines(ctx context.Context, c *vim25.Client) ([]object, error) {
	return retrieve(ctx, c, []string{"VirtualMachine"}, []types.PropertySpec{{Type: "VirtualMachine", PathSet: machineProps}})
}

// template gives what is known of a template: where it is, and the places of
// its disks, which are those of every machine cloned from it.
func (mr *machineReader) template(o *object) *providers.Resource {
	r := &providers.Resource{ID: providers.ID{Kind: kindTemplate, Name: o.ref.Value}, Name: o.str("name")}
	path := r.Name
	if folder := mr.inv.entities[o.refTo("parent")]; folder != nil && folder.path != "" {
		path = folder.path + "/" + r.Name
		r.Set("/datacenter", field(providers.String(folder.datacenter)))
	}
	r.Set("/path", field(providers.String(path)))
	if uuid := o.str("config.instanceUuid"); uuid != "" {
		r.Set("/instanceUuid", field(providers.String(strings.ToLower(uuid))))
	}
	hw, ok := o.props["config.hardware"].(types.VirtualHardware)
	if !ok {
		return r
	}
	for _, d := range disksOf(hw.Device) {
		d.set(r)
	}
	r.Closed = []string{"/disks"}
	return r
}
