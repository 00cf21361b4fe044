package vsphere

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// change is what updates say of one machine.
type change struct {
	ref  types.ManagedObjectReference
	what string
	gone bool
}

// take takes over the updates. It gives what changed, in their order, and
// reports whether there are new events of vCenter's.
func (s *watchSession) take(set *types.UpdateSet) (changes []change, page bool) {
	for _, f := range set.FilterSet {
		for i := range f.ObjectSet {
			u := &f.ObjectSet[i]
			if s.events != nil && u.Obj == *s.events {
				page = true
			} else if what := s.update(u); what != "" {
				changes = append(changes, change{ref: u.Obj, what: what, gone: u.Kind == types.ObjectUpdateKindLeave})
			}
		}
	}
	return changes, page
}

// update takes over one machine's update and says what it is, nothing if
// nothing differs: servers send more than has changed.
func (s *watchSession) update(u *types.ObjectUpdate) string {
	before, known := s.now[u.Obj]
	if u.Kind == types.ObjectUpdateKindLeave {
		if !known {
			return ""
		}
		s.gone(u.Obj)
		return "gone from the inventory"
	}
	after := before
	after.props = maps.Clone(before.props)
	if after.props == nil {
		after.props = make(map[string]string, len(watchProps))
	}
	var paths []string
	for _, c := range u.ChangeSet {
		text := propText(c.Val)
		if after.props[c.Name] != text {
			paths = append(paths, c.Name)
		}
		after.props[c.Name] = text
	}
	s.now[u.Obj] = after
	switch {
	case !known:
		return "new in the inventory"
	case len(paths) == 0:
		return ""
	}
	slices.Sort(paths)
	return "changed: " + strings.Join(slices.Compact(paths), ", ")
}

// everybody reads which machines there are.
func (s *watchSession) everybody(ctx context.Context) error {
	objects, err := retrieve(ctx, s.vim, []string{"VirtualMachine"}, []types.PropertySpec{{Type: "VirtualMachine", PathSet: whoProps}})
	for i := range objects {
		s.identify(&objects[i])
	}
	return err
}

// identify notes which machine an object is, by the name that a sweep gives it:
// see machineReader.resource.
func (s *watchSession) identify(o *object) {
	m, ok := s.now[o.ref]
	if !ok {
		return
	}
	m.name = o.str("name")
	m.id = o.ref.Value
	if uuid, err := canonical.UUID(o.str("config.instanceUuid")); err == nil {
		m.id = uuid
	}
	s.now[o.ref] = m
}

// about gives the events that tell of changes. Which machine a changed one is
// may have changed too: then both are told of.
func (s *watchSession) about(ctx context.Context, changes []change) ([]providers.Event, error) {
	var events []providers.Event
	for _, c := range changes {
		before, _ := s.find(c.ref)
		if !c.gone {
			objects, err := retrieveRefs(ctx, s.vim, []types.ManagedObjectReference{c.ref}, []types.PropertySpec{{Type: "VirtualMachine", PathSet: whoProps}})
			if err != nil && !notFound(err) {
				return nil, err
			}
			for i := range objects {
				s.identify(&objects[i])
			}
		}
		after, _ := s.find(c.ref)
		e := providers.Event{At: s.provider.now(), What: c.what}
		for _, id := range []string{after.id, before.id} {
			if v := virtualMachine(id); id != "" && !slices.Contains(e.IDs, v) {
				e.IDs = append(e.IDs, v)
			}
		}
		if len(e.IDs) > 0 {
			events = append(events, e)
		}
	}
	return events, nil
}

// propText gives the value of one of watchProps to be compared.
func propText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case types.VirtualMachinePowerState:
		return string(v)
	case types.ManagedObjectReference:
		return v.Value
	case *types.ManagedObjectReference:
		return v.Value
	default:
		return ""
	}
}
