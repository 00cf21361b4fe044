package vsphere

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/fault"
	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// Confirm asks vCenter's search index for each machine by UUID: as instance
// and as BIOS UUID, in both byte orders, since an id may be any of the four.
// It finds machines that a listing may miss, such as those moved meanwhile.
// What it says of a machine is as much as Observe says, tags and storage policy
// included; where those could not be read, the machine has a warning and is not
// closed there.
func (p *Provider) Confirm(ctx context.Context, scope providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	c, err := p.connection(scope)
	if err != nil {
		return nil, err
	}
	out := &providers.Confirmation{
		Resources:   map[providers.ID]*providers.Resource{},
		Unconfirmed: map[providers.ID]error{},
	}
	check := &confirmer{
		reader: machineReader{secret: p.secret}, out: out, refs: map[types.ManagedObjectReference]*providers.Resource{},
	}
	for i, id := range ids {
		err := c.do(ctx, func(live *liveSession) error { return check.one(ctx, live.vim, id) })
		if err == nil {
			continue
		}
		var scopeErr *providers.ScopeError
		if errors.As(err, &scopeErr) || ctx.Err() != nil {
			// No session: asking for each id would wait for each.
			for _, rest := range ids[i:] {
				out.Unconfirmed[rest] = fmt.Errorf("read %s live: %w", rest, err)
			}
			break
		}
		out.Unconfirmed[id] = fmt.Errorf("read %s live: %w", id, err)
	}
	check.absences(ctx, c, ids)
	check.attachments(ctx, c, p.now())
	return out, nil
}

// absences keeps those that the index does not know as absent only if vCenter
// shows anything at all: one that answers every question with nothing, as it may
// while it starts, proves no absence.
func (f *confirmer) absences(ctx context.Context, c *connection, ids []providers.ID) {
	var absent []providers.ID
	for _, id := range ids {
		if f.out.Resources[id] == nil && f.out.Unconfirmed[id] == nil {
			absent = append(absent, id)
		}
	}
	if len(absent) == 0 {
		return
	}
	err := c.do(ctx, func(live *liveSession) error { return showsSomething(ctx, live.vim) })
	if err == nil {
		return
	}
	for _, id := range absent {
		f.out.Unconfirmed[id] = fmt.Errorf("read %s live: %w", id, err)
	}
}

// showsSomething gives an error unless the inventory has at least a datacenter.
func showsSomething(ctx context.Context, c *vim25.Client) error {
	root, err := retrieveRefs(ctx, c, []types.ManagedObjectReference{c.ServiceContent.RootFolder},
		[]types.PropertySpec{{Type: "Folder", PathSet: []string{"childEntity"}}})
	if err != nil {
		return fmt.Errorf("read the root folder: %w", err)
	}
	for i := range root {
		if in, _ := root[i].props["childEntity"].(types.ArrayOfManagedObjectReference); len(in.ManagedObjectReference) > 0 {
			return nil
		}
	}
	return errors.New("vCenter shows no datacenter at all")
}

// confirmer reads single machines. The inventory around them is read when the
// first was found, so that what Confirm returns equals what Observe would.
type confirmer struct {
	reader machineReader
	out    *providers.Confirmation
	// refs are the machines found, by managed object.
	refs map[types.ManagedObjectReference]*providers.Resource
}

func (f *confirmer) one(ctx context.Context, c *vim25.Client, id providers.ID) error {
	if id.Kind != providers.KindVirtualMachine {
		return fmt.Errorf("only a %s can be read by its id", providers.KindVirtualMachine)
	}
	refs, err := candidates(ctx, c, id.Name)
	if err != nil {
		return err
	}
	found, err := readRefs(ctx, c, refs)
	if errors.Is(err, errVanished) && !named(id.Name) {
		return nil // the object itself says that it is gone
	}
	if err != nil || len(found) == 0 {
		return err
	}
	if f.reader.inv == nil {
		if f.reader.inv, err = readInventory(ctx, c); err != nil {
			return err
		}
	}
	machines := make([]*providers.Resource, len(found))
	for i := range found {
		machines[i] = f.reader.resource(&found[i])
	}
	if err := f.markSharedBIOS(ctx, c, machines[0]); err != nil {
		return err
	}
	markSame(machines, "UUID "+id.Name)
	machines[0].ID = id
	f.out.Resources[id] = machines[0]
	f.refs[found[0].ref] = machines[0]
	return nil
}

// markSharedBIOS makes a machine Unknown that shares its BIOS UUID with
// another one, as markDuplicates does in a sweep.
func (f *confirmer) markSharedBIOS(ctx context.Context, c *vim25.Client, r *providers.Resource) error {
	bios := r.Fields.Get("/biosUuid").Value.Text()
	same, err := sameBIOS(ctx, c, bios)
	if err != nil || len(same) < 2 {
		return err
	}
	machines := []*providers.Resource{r}
	for i := range same {
		if same[i].ref.Value != moid(r) {
			machines = append(machines, f.reader.resource(&same[i]))
		}
	}
	markSame(machines, "BIOS UUID "+bios)
	return nil
}

// attachments reads what hangs on the machines found: one call each for any
// number of them.
func (f *confirmer) attachments(ctx context.Context, c *connection, now time.Time) {
	if len(f.refs) == 0 {
		return
	}
	s := &sweep{refs: f.refs, snap: &providers.Snapshot{Resources: map[providers.ID]*providers.Resource{}}}
	for _, part := range []struct {
		what string
		read func(*liveSession) error
	}{
		{"tags", func(live *liveSession) error { return s.tags(ctx, live, &c.names, now) }},
		{"storage policy", func(live *liveSession) error { return s.storagePolicies(ctx, live) }},
	} {
		if err := c.do(ctx, part.read); err != nil {
			for _, r := range f.refs {
				r.Warnings = append(r.Warnings, fmt.Sprintf("its %s could not be read live: %v", part.what, err))
			}
		}
	}
}

// sameBIOS gives the machines with a BIOS UUID, if there are several.
func sameBIOS(ctx context.Context, c *vim25.Client, bios string) ([]object, error) {
	if bios == "" {
		return nil, nil
	}
	instance := false
	found, err := vimobject.NewSearchIndex(c).FindAllByUuid(ctx, nil, bios, true, &instance)
	if err != nil && !notFound(err) {
		return nil, err
	}
	if len(found) < 2 {
		return nil, nil
	}
	refs := make([]types.ManagedObjectReference, 0, len(found))
	for _, r := range found {
		refs = append(refs, r.Reference())
	}
	machines, err := readRefs(ctx, c, refs)
	if err != nil || len(machines) < 2 {
		return nil, err
	}
	return machines, nil
}

// candidates gives every machine that a name may mean. A name that is no UUID
// is the managed object of a machine that reported none.
func candidates(ctx context.Context, c *vim25.Client, name string) ([]types.ManagedObjectReference, error) {
	uuid, err := canonical.UUID(name)
	if err != nil {
		return []types.ManagedObjectReference{{Type: "VirtualMachine", Value: name}}, nil
	}
	index := vimobject.NewSearchIndex(c)
	seen := map[types.ManagedObjectReference]bool{}
	var refs []types.ManagedObjectReference
	for _, instance := range []bool{true, false} {
		for _, spelling := range []string{uuid, canonical.SwapUUID(uuid)} {
			found, err := index.FindAllByUuid(ctx, nil, spelling, true, &instance)
			if err != nil && !notFound(err) {
				return nil, err
			}
			for _, f := range found {
				if ref := f.Reference(); !seen[ref] {
					seen[ref] = true
					refs = append(refs, ref)
				}
			}
		}
	}
	return refs, nil
}

// notFound reports whether a fault says that an object does not exist. The
// simulator answers so where vCenter gives an empty list.
func notFound(err error) bool {
	return fault.Is(err, &types.ManagedObjectNotFound{}) || fault.Is(err, &types.NotFound{})
}

// named reports whether a machine is looked for in the index: by its UUID.
func named(name string) bool {
	_, err := canonical.UUID(name)
	return err == nil
}

// errVanished says of machines that the index has just named that vCenter does
// not know them. One of the two is behind, or the machine went in between, or
// may not be seen any more: the next read tells, and this one proves nothing.
var errVanished = errors.New("vCenter's index names it, and vCenter does not know it")

// readRefs reads machines one by one, with further properties besides
// machineProps: one that is gone must not hide the rest. Where all are gone it
// is errVanished. Templates are no machines.
func readRefs(ctx context.Context, c *vim25.Client, refs []types.ManagedObjectReference, further ...string) ([]object, error) {
	var out []object
	props, gone := append(slices.Clone(machineProps), further...), 0
	for _, ref := range refs {
		found, err := retrieveRefs(ctx, c, []types.ManagedObjectReference{ref},
			[]types.PropertySpec{{Type: "VirtualMachine", PathSet: props}})
		if notFound(err) {
			gone++
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, errors.New("vCenter found it and then gave no answer about it")
		}
		for _, o := range found {
			if template, _ := boolean(o.props["config.template"]); !template {
				out = append(out, o)
			}
		}
	}
	if gone > 0 && gone == len(refs) {
		return nil, errVanished
	}
	return out, nil
}
