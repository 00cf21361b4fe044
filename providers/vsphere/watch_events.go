package vsphere

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	tagAttached = "com.vmware.cis.tagging.attach"
	tagDetached = "com.vmware.cis.tagging.detach"
	// eventsAtOnce is how many events one call reads; the API allows 1,000
	// (EventHistoryCollector.ReadNextEvents).
	eventsAtOnce = 200
)

// eventTypes are the events that tell of a change that the catalog may have a
// row for (vSphere API, Event and its extenders). Moves that DRS makes of its
// own accord are none.
var eventTypes = []string{
	"VmConnectedEvent", "VmDisconnectedEvent", "VmGuestShutdownEvent", "VmInstanceUuidChangedEvent", "VmMacChangedEvent",
	"VmMigratedEvent", "VmOrphanedEvent", "VmPoweredOffEvent", "VmPoweredOnEvent", "VmReconfiguredEvent", "VmRegisteredEvent",
	"VmRelocatedEvent", "VmRemovedEvent", "VmRenamedEvent", "VmResourcePoolMovedEvent", "VmResourceReallocatedEvent",
	"VmSuspendedEvent", "VmUpgradeCompleteEvent", "VmUuidChangedEvent",
	tagAttached, tagDetached,
}

// openEvents makes a collector of events and has the filter tell of its latest
// page, which is one event long: events themselves are read on from where the
// last read ended, so that none is lost in a burst.
func (s *watchSession) openEvents(ctx context.Context) error {
	if s.vim.ServiceContent.EventManager == nil {
		return nil
	}
	res, err := methods.CreateCollectorForEvents(ctx, s.vim, &types.CreateCollectorForEvents{
		This: *s.vim.ServiceContent.EventManager,
		Filter: types.EventFilterSpec{
			Time:        &types.EventFilterSpecByTime{BeginTime: &s.since},
			EventTypeId: eventTypes,
		},
	})
	if err != nil {
		return fmt.Errorf("create an event collector: %w", err)
	}
	s.events = &res.Returnval
	if _, err := methods.SetCollectorPageSize(ctx, s.vim, &types.SetCollectorPageSize{This: *s.events, MaxCount: 1}); err != nil {
		return fmt.Errorf("set the event collector's page: %w", err)
	}
	// A new collector stands at its latest page, and is to be read from its
	// oldest.
	if _, err := methods.RewindCollector(ctx, s.vim, &types.RewindCollector{This: *s.events}); err != nil {
		return fmt.Errorf("rewind the event collector: %w", err)
	}
	err = s.filter(ctx, types.PropertyFilterSpec{
		PropSet:   []types.PropertySpec{{Type: s.events.Type, PathSet: []string{"latestPage"}}},
		ObjectSet: []types.ObjectSpec{{Obj: *s.events}},
	})
	if err != nil {
		return fmt.Errorf("filter events: %w", err)
	}
	return nil
}

// tellEvents tells vCenter's events since the last one told. It gives those of
// the changes back of which none of them tells more.
func (s *watchSession) tellEvents(ctx context.Context, changes []providers.Event) ([]providers.Event, error) {
	if s.events == nil {
		return changes, nil
	}
	for {
		res, err := methods.ReadNextEvents(ctx, s.vim, &types.ReadNextEvents{This: *s.events, MaxCount: eventsAtOnce})
		if err != nil {
			return nil, err
		}
		for _, e := range res.Returnval {
			told := s.event(e)
			if at := e.GetEvent().CreatedTime; at.After(s.since) {
				s.since = at
			}
			if len(told.IDs) == 0 {
				continue
			}
			s.tell(told)
			changes = slices.DeleteFunc(changes, func(c providers.Event) bool {
				return len(c.IDs) == 1 && slices.Contains(told.IDs, c.IDs[0])
			})
		}
		if len(res.Returnval) == 0 {
			return changes, nil
		}
	}
}

// event gives what one of vCenter's events tells; no ids if it is about no
// machine that is known.
func (s *watchSession) event(e types.BaseEvent) providers.Event {
	base := e.GetEvent()
	out := providers.Event{
		At: base.CreatedTime, By: base.UserName, What: eventName(e),
		Own: s.provider.isOwn(s.scope, base.ChainId),
	}
	if base.Vm != nil {
		if m, ok := s.find(base.Vm.Vm); ok && m.id != "" {
			out.IDs = []providers.ID{virtualMachine(m.id)}
		}
		return out
	}
	if ex, ok := e.(*types.EventEx); ok {
		s.tagEvent(ex, &out)
	}
	return out
}

// tagEvent reads an event of the tagging service, which names the object and
// the user in its arguments only, and the object by its name: every machine of
// that name may be it.
func (s *watchSession) tagEvent(e *types.EventEx, out *providers.Event) {
	object := ""
	for _, a := range e.Arguments {
		text := strings.TrimSpace(fmt.Sprint(a.Value))
		switch a.Key {
		case "Object":
			object = text
		case "User":
			out.By = text
		}
	}
	for ref, m := range s.now {
		if m.id == "" {
			continue
		}
		if e.ObjectId == ref.Value || object != "" && m.name == object {
			out.IDs = append(out.IDs, virtualMachine(m.id))
		}
	}
	slices.SortFunc(out.IDs, func(a, b providers.ID) int { return strings.Compare(a.Name, b.Name) })
}

func eventName(e types.BaseEvent) string {
	if ex, ok := e.(*types.EventEx); ok {
		return ex.EventTypeId
	}
	return reflect.TypeOf(e).Elem().Name()
}
