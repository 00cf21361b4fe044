package vsphere

import (
	"context"
	"errors"
	"fmt"

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
func (p *Provider) Confirm(ctx context.Context, scope providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	c, err := p.connection(scope)
	if err != nil {
		return nil, err
	}
	out := &providers.Confirmation{
		Resources:   map[providers.ID]*providers.Resource{},
		Unconfirmed: map[providers.ID]error{},
	}
	check := &confirmer{reader: machineReader{secret: p.secret}, out: out}
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
	return out, nil
}

// confirmer reads single machines. The inventory around them is read when the
// first was found, so that what Confirm returns equals what Observe would.
type confirmer struct {
	reader machineReader
	out    *providers.Confirmation
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
	markSame(machines, "UUID "+id.Name)
	machines[0].ID = id
	f.out.Resources[id] = machines[0]
	return nil
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

// readRefs reads machines one by one: one that is gone must not hide the rest.
// Templates are no machines.
func readRefs(ctx context.Context, c *vim25.Client, refs []types.ManagedObjectReference) ([]object, error) {
	var out []object
	for _, ref := range refs {
		found, err := retrieveRefs(ctx, c, []types.ManagedObjectReference{ref},
			[]types.PropertySpec{{Type: "VirtualMachine", PathSet: machineProps}})
		if notFound(err) {
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
	return out, nil
}
