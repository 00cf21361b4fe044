package infra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-io/holdfast/providers"
)

// rounds bounds how often a plan is made in one go. A network takes seven: its
// VPC, what is in it, what that needs to be set up, gateways, routes, a load
// balancer and its settings.
const rounds = 30

// work is one owner's way through the pipeline.
type work struct {
	*reconciler
	owner *providers.Owner
	scope providers.Scope
	// ready says that the owner has been ready once, so that a difference is
	// drift, but on what was made by this very work.
	ready bool
	made  map[providers.ID]bool

	snap     *providers.Snapshot
	progress providers.Progress
}

// run makes what can be made now. Its error is of what stands outside the owner;
// what stands against the owner is in the progress.
func (w *work) run(ctx context.Context) (err error) {
	begun := w.clock.Now()
	if w.snap, err = w.snapshots.since(ctx, w.provider, w.scope, begun.Add(-w.snapshots.keep(w.scope))); err != nil {
		return err
	}
	looked := map[providers.ID]bool{}
	for range rounds {
		plan, err := w.builder.Plan(w.owner, w.snap)
		if err != nil {
			w.progress = providers.Progress{Failed: err}
			return nil
		}
		s := next(w.owner, plan, w.snap, w.mayset)
		w.progress = providers.Progress{Plan: plan, Open: s.open, Failed: s.failed, At: s.at}
		look := append(s.look, w.old(plan, s, begun.Add(-freshBuilding))...)
		look = slices.DeleteFunc(look, func(id providers.ID) bool { return looked[id] })
		var done []providers.ID
		if len(look) == 0 {
			if s.failed != nil || len(s.todo) == 0 {
				return nil
			}
			done = w.do(ctx, s.todo)
		}
		for _, id := range look {
			looked[id] = true
		}
		if err := w.look(ctx, append(look, done...)); err != nil {
			return err
		}
		if w.progress.Failed != nil || len(look) == 0 && len(done) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: what is planned is another thing after each of %d rounds: %s", w.owner.Ref, rounds, w.openWords())
}

// old are those of an owner's resources that it may be waiting for and that were
// last read before a time. What is open is what it waits for, or else something
// about what is there, such as an address. The scope as a whole need not be read
// for them.
func (w *work) old(plan []providers.Resource, s *steps, t time.Time) []providers.ID {
	if w.ready {
		return nil
	}
	var open, all []providers.ID
	for i := range plan {
		id := plan[i].ID
		if id.Provisional() || w.snap.Resources[id] == nil {
			continue
		}
		all = append(all, id)
		if _, is := s.open[id]; is {
			open = append(open, id)
		}
	}
	if len(s.open) == 0 {
		open = all
	}
	return w.snapshots.unread(w.scope, open, t)
}

func (w *work) mayset(id providers.ID) bool { return !w.ready || w.made[id] }

// openWords lists what is open, for a person who has to find out why.
func (w *work) openWords() string {
	var out []string
	for id, why := range w.progress.Open {
		out = append(out, id.String()+": "+why)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// look reads ids again.
func (w *work) look(ctx context.Context, ids []providers.ID) error {
	if len(ids) == 0 {
		return nil
	}
	c, err := w.snapshots.confirm(ctx, w.provider, w.scope, ids...)
	if err != nil {
		return err
	}
	w.snap = w.snapshots.latest(w.scope)
	for _, id := range ids {
		if err := c.Unconfirmed[id]; err != nil {
			return fmt.Errorf("read %s again: %w", id, err)
		}
	}
	return nil
}

// do takes the steps, and gives the resources that differ since. A step that
// fails does not keep those from being taken that do not need it.
func (w *work) do(ctx context.Context, todo []step) (done []providers.ID) {
	for i := range todo {
		var err error
		id := todo[i].want.ID
		if todo[i].creates() {
			id, err = w.create(ctx, &todo[i])
		} else {
			err = w.set(ctx, &todo[i])
		}
		switch {
		case errors.Is(err, providers.ErrPending):
			w.progress.Open[todo[i].want.ID] = "it is being made"
			continue
		case err != nil && w.progress.Failed == nil:
			w.progress.Failed, w.progress.At = err, todo[i].want.ID
		}
		if ctx.Err() != nil {
			return done
		}
		if err == nil {
			done = append(done, id)
		}
	}
	return done
}

// create makes a resource and records it. What was made and cannot be recorded
// is found again by its token or its tags.
func (w *work) create(ctx context.Context, s *step) (providers.ID, error) {
	c := providers.Creation{Owner: w.owner, Want: s.want, Token: token(w.owner, s.want.ID)}
	if w.owner.Machine != nil && w.owner.Machine.Spec.Bootstrap.DataSecretName != nil {
		var err error
		if c.Bootstrap, err = w.bootstrapData(ctx, w.owner.Machine); err != nil {
			return providers.ID{}, err
		}
	}
	id, err := w.builder.Create(ctx, w.scope, c)
	if err != nil {
		return providers.ID{}, err
	}
	w.made[id] = true
	ctrl.LoggerFrom(ctx).Info("Made", "kind", id.Kind, "id", id.Name, "name", s.want.Name)
	w.event(w.owner, corev1.EventTypeNormal, "Created"+id.Kind, fmt.Sprintf("made %s %s (%s)", id.Kind, id.Name, s.want.Name))
	// A process that is told to stop still records what it has just made.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if err := w.change(ctx, w.owner, func() error { return w.builder.Record(w.owner, s.want.ID, id) }); err != nil {
		return providers.ID{}, fmt.Errorf("record %s in %s: %w", id, w.owner.Ref, err)
	}
	return id, nil
}

// recordTime is what is left for recording when the process stops: it promises
// to end within ten seconds.
const recordTime = 5 * time.Second

// set sets fields of a resource that is there.
func (w *work) set(ctx context.Context, s *step) error {
	fields := slices.Clone(s.fields)
	slices.SortStableFunc(fields, func(a, b providers.FieldChange) int { return strings.Compare(a.Path, b.Path) })
	return w.builder.Apply(ctx, w.scope, providers.Change{
		Resource: s.want.ID, Owner: w.owner.Ref, Want: s.want, Have: s.have, Fields: fields, Token: token(w.owner, s.want.ID),
	})
}

// doomedNow are the resources of a list that no other one of it needs.
func doomedNow(doomed []providers.Resource) (out []*providers.Resource) {
	needed := map[providers.ID]bool{}
	for i := range doomed {
		for _, id := range doomed[i].Needs {
			needed[id] = true
		}
	}
	for i := range doomed {
		if !needed[doomed[i].ID] && !doomed[i].Unsettled {
			out = append(out, &doomed[i])
		}
	}
	return out
}

// stillThere lists doomed resources with what is said of them.
func stillThere(doomed []providers.Resource) map[providers.ID]string {
	out := map[providers.ID]string{}
	for i := range doomed {
		out[doomed[i].ID] = "it is still there"
		if doomed[i].Unsettled {
			out[doomed[i].ID] = "it is going"
		}
	}
	return maps.Clone(out)
}
