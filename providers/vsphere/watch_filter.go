package vsphere

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

const (
	// waitSeconds is how long one call waits at vCenter; the connection is
	// known to be dead waitSlack later.
	waitSeconds = 30
	waitSlack   = 30 * time.Second
)

// watchProps tell that a machine changed, and which it is. The first three are
// for the latter. Any reconfiguration changes config.changeVersion. vCenter
// computes the whole filter whenever one of them changes anywhere: scalars
// only, and the fewer the better.
var watchProps = []string{
	"config.instanceUuid", "name", "parent",
	"config.changeVersion", "runtime.powerState", "resourcePool",
}

// once watches until something breaks.
func (w *watch) once(ctx context.Context) (err error) {
	c, err := w.provider.connection(w.scope)
	if err != nil {
		return err
	}
	live, err := c.session(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if sessionLost(err) {
			c.drop(live)
		}
	}()
	made, err := methods.CreatePropertyCollector(ctx, live.vim, &types.CreatePropertyCollector{This: live.vim.ServiceContent.PropertyCollector})
	if err != nil {
		return fmt.Errorf("create a property collector: %w", err)
	}
	s := &watchSession{watch: w, vim: live.vim, collector: made.Returnval}
	defer s.end(ctx)
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.follow(ctx)
}

// watchSession is one session of a watch. What it makes in vCenter goes with
// its collector, or with the login.
type watchSession struct {
	*watch
	vim       *vim25.Client
	collector types.ManagedObjectReference
	view      *view.ContainerView
	// events is the event collector, nil where events may not be read.
	events *types.ManagedObjectReference
}

func (s *watchSession) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	// Errors do not matter: after a restart none of it exists.
	if s.events != nil {
		_, _ = methods.DestroyCollector(ctx, s.vim, &types.DestroyCollector{This: *s.events})
	}
	if s.view != nil {
		_ = s.view.Destroy(ctx)
	}
	_, _ = methods.DestroyPropertyCollector(ctx, s.vim, &types.DestroyPropertyCollector{This: s.collector})
}

// open sets the filters. The clock is read first, so that no event falls
// between it and the filters.
func (s *watchSession) open(ctx context.Context) error {
	if s.since.IsZero() {
		now, err := methods.GetCurrentTime(ctx, s.vim)
		if err != nil {
			return fmt.Errorf("read vCenter's clock: %w", err)
		}
		s.since = *now
	}
	v, err := view.NewManager(s.vim).CreateContainerView(ctx, s.vim.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		return fmt.Errorf("create a view: %w", err)
	}
	s.view = v
	err = s.filter(ctx, types.PropertyFilterSpec{
		PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: watchProps}},
		ObjectSet: []types.ObjectSpec{{
			Obj:  v.Reference(),
			Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{
				Type: v.Reference().Type,
				Path: "view",
			}},
		}},
	})
	if err != nil {
		return fmt.Errorf("filter virtual machines: %w", err)
	}
	if err := s.openEvents(ctx); err != nil {
		if !hasFault[types.BaseNoPermission](err) || sessionLost(err) {
			return err
		}
		s.events = nil
		logr.FromContextOrDiscard(ctx).Info("Events may not be read, so that changes are told without who made them",
			"scope", s.scope.String(), "error", err.Error())
	}
	return nil
}

func (s *watchSession) filter(ctx context.Context, spec types.PropertyFilterSpec) error {
	_, err := methods.CreateFilter(ctx, s.vim, &types.CreateFilter{This: s.collector, Spec: spec})
	return err
}

// follow waits for updates and tells them. The first ones are the machines as
// they are: nothing to tell, except that changes before them may be lost.
func (s *watchSession) follow(ctx context.Context) error {
	s.now = map[types.ManagedObjectReference]watched{}
	version := ""
	for first := true; ; {
		set, err := s.wait(ctx, version)
		if err != nil {
			return fmt.Errorf("wait for updates: %w", err)
		}
		if set == nil {
			continue
		}
		version = set.Version
		changes, page := s.take(set)
		if first {
			if set.Truncated != nil && *set.Truncated {
				continue
			}
			first, page, changes = false, true, nil
			if s.missed {
				s.missed = false
				s.tell(providers.Event{At: s.provider.now(), What: "watching began anew", Gap: true})
			}
		}
		if page {
			if changes, err = s.tellEvents(ctx, changes); err != nil {
				return fmt.Errorf("read events: %w", err)
			}
		}
		for _, e := range changes {
			s.tell(e)
		}
	}
}

// wait gives the next updates, nil if there were none for long.
func (s *watchSession) wait(ctx context.Context, version string) (*types.UpdateSet, error) {
	const limit = waitSeconds*time.Second + waitSlack
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seconds := int32(waitSeconds)
	res, err := methods.WaitForUpdatesEx(ctx, s.vim, &types.WaitForUpdatesEx{
		This: s.collector, Version: version, Options: &types.WaitOptions{MaxWaitSeconds: &seconds},
	})
	if err != nil {
		return nil, err
	}
	return res.Returnval, nil
}

// take gives an event for each machine that updates are about, in their order,
// and reports whether there are new events of vCenter's.
func (s *watchSession) take(set *types.UpdateSet) (changes []providers.Event, page bool) {
	for _, f := range set.FilterSet {
		for _, u := range f.ObjectSet {
			if s.events != nil && u.Obj == *s.events {
				page = true
				continue
			}
			ids, what := s.update(&u)
			if len(ids) > 0 {
				changes = append(changes, providers.Event{IDs: ids, At: s.provider.now(), What: what})
			}
		}
	}
	return changes, page
}

// update takes over one machine's update.
func (s *watchSession) update(u *types.ObjectUpdate) (ids []providers.ID, what string) {
	before, known := s.now[u.Obj]
	if u.Kind == types.ObjectUpdateKindLeave {
		if !known {
			return nil, ""
		}
		s.gone(u.Obj)
		return []providers.ID{virtualMachine(before.id)}, "gone from the inventory"
	}
	after := watched{id: u.Obj.Value, props: maps.Clone(before.props)}
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
	// What is named otherwise than in a sweep could not be found there: see
	// machineReader.resource.
	if uuid, err := canonical.UUID(after.props["config.instanceUuid"]); err == nil {
		after.id = uuid
	}
	s.now[u.Obj] = after
	ids = []providers.ID{virtualMachine(after.id)}
	if !known {
		return ids, "new in the inventory"
	}
	if len(paths) == 0 {
		return nil, "" // servers send more than has changed
	}
	if before.id != after.id {
		ids = append(ids, virtualMachine(before.id))
	}
	slices.Sort(paths)
	return ids, "changed: " + strings.Join(slices.Compact(paths), ", ")
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
