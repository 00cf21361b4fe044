package vsphere

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	// waitSeconds is how long one call waits at vCenter; the connection is
	// known to be dead waitSlack later.
	waitSeconds = 30
	waitSlack   = 30 * time.Second
)

// watchProps tell that a machine changed. Any reconfiguration changes
// config.changeVersion; power and place are no part of the configuration. The
// fewer and the plainer they are the better: the simulator reads the whole
// filter anew at every change, and vCenter keeps it for every machine.
var watchProps = []string{"config.changeVersion", "runtime.powerState", "parent"}

// whoProps say which machine it is. They are read when it is new or changed.
var whoProps = []string{"config.instanceUuid", "name"}

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
		if first && set.Truncated != nil && *set.Truncated {
			continue
		}
		if first {
			first, page, changes = false, true, nil
			if err := s.everybody(ctx); err != nil {
				return fmt.Errorf("read which machines there are: %w", err)
			}
			if s.missed {
				s.missed = false
				s.tell(providers.Event{At: s.provider.now(), What: "watching began anew", Gap: true})
			}
		}
		events, err := s.about(ctx, changes)
		if err != nil {
			return fmt.Errorf("read which machines changed: %w", err)
		}
		if page {
			if events, err = s.tellEvents(ctx, events); err != nil {
				return fmt.Errorf("read events: %w", err)
			}
		}
		for _, e := range events {
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
