package providertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// applierOf gives the provider's writing side. What does not write yet is left
// out with a reason; what writes has to show that it does.
func applierOf(env *Environment, t *testing.T) providers.Applier {
	t.Helper()
	a, ok := env.Provider.(providers.Applier)
	if !ok {
		t.Skip("the provider does not write")
	}
	return a
}

// token is what a Change carries where the suite makes it.
const token = "00000000-0000-4000-8000-000000000000"

// changesOf makes of findings what Apply is asked for: one change of each
// resource that drifted. What cannot be written in place is a problem, since a
// tamper is there to be repaired.
func changesOf(findings []detector.Finding) (changes []providers.Change, out problems) {
	for i := range findings {
		f := &findings[i]
		switch f.Status {
		case detector.InSync, detector.Foreign, detector.NotChecked:
			continue
		case detector.Drifted:
		default:
			out = append(out, "no repair in place is due: "+describe(f))
			continue
		}
		c := providers.Change{Resource: f.Want.ID, Owner: f.Owner, Want: f.Want, Have: f.Have, Disruptive: true, Token: token}
		for _, d := range f.Diffs {
			c.Fields = append(c.Fields, providers.FieldChange{Path: d.Path, Want: d.Want, Have: d.Have, Element: d.Element, Mutability: d.Mutability})
		}
		changes = append(changes, c)
	}
	return changes, out
}

// mostTries bounds the calls that one change may take.
const mostTries = 200

// apply calls until the change is no longer pending.
func apply(ctx context.Context, env *Environment, t *testing.T, a providers.Applier, scope providers.Scope, c providers.Change) error {
	t.Helper()
	for range mostTries {
		err := a.Apply(ctx, scope, c)
		if !errors.Is(err, providers.ErrPending) {
			return err
		}
		if env.Settle != nil {
			env.Settle(t)
		}
	}
	return fmt.Errorf("still pending after %d calls", mostTries)
}

// reasonOf gives the reason of an *ApplyError, or what came instead.
func reasonOf(err error) string {
	if refused := (*providers.ApplyError)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	if err == nil {
		return "success"
	}
	return fmt.Sprintf("%T %q", err, err)
}

// refusal is a change that Apply must refuse for a reason.
type refusal struct {
	what   string
	reason string
	change providers.Change
}

// checkApplyRefuses bends changes rather than the environment: none of them
// may be made.
func checkApplyRefuses(ctx context.Context, _ Harness, env *Environment, t *testing.T) (out problems) {
	a := applierOf(env, t)
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	refusals, allowed := s.refusals(env)
	if len(refusals) == 0 {
		return problems{"nothing that is wanted could be asked of Apply: no wanted resource exists"}
	}
	before := env.Mutations()
	for _, r := range refusals {
		if got := reasonOf(a.Apply(ctx, s.scope, r.change)); got != r.reason {
			out = append(out, fmt.Sprintf("%s, %s of %s: apply gave %s, want it refused with %s", r.what, r.change.Fields[0].Path, r.change.Resource, got, r.reason))
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for i := range allowed {
		if err := a.Apply(cancelled, s.scope, allowed[i]); err == nil {
			out = append(out, fmt.Sprintf("apply to %s under a cancelled context succeeded", allowed[i].Resource))
		}
	}
	if n := env.Mutations() - before; n != 0 {
		out = append(out, fmt.Sprintf("refused changes made %d mutating calls", n))
	}
	return out
}

// refusals asks, for each kind and mutability once, for what is not allowed;
// and gives what would be.
func (s *state) refusals(env *Environment) (out []refusal, allowed []providers.Change) {
	asked := map[string]bool{}
	s.each(env, func(o *providers.Owner, w *providers.Resource) {
		have := s.snap.Resources[w.ID]
		if !comparable(w) || w.Absent || have == nil || have.Gone != "" {
			return
		}
		for _, f := range wantedChanges(w) {
			c := providers.Change{Resource: w.ID, Owner: o.Ref, Want: w, Have: have, Fields: []providers.FieldChange{f}, Token: token}
			if key := w.ID.Kind + f.Mutability.String(); asked[key] {
				continue
			} else {
				asked[key] = true
			}
			switch f.Mutability {
			case providers.InPlaceDisruptive:
				out = append(out, refusal{"without leave to disrupt", providers.ReasonDisruptive, c})
			case providers.InPlace:
				allowed = append(allowed, c)
			default:
				out = append(out, refusal{"a field that is " + f.Mutability.String(), providers.ReasonUnsupported, c})
			}
			c.Have, c.Disruptive = have.Clone(), true
			c.Have.ForeignTo = "somebody else"
			out = append(out, refusal{"a foreign resource", providers.ReasonForeign, c})
			c.Have = nil
			out = append(out, refusal{"a resource that is gone", providers.ReasonUnsupported, c})
		}
	})
	return out, allowed
}

// wantedChanges are changes that would make each wanted field, ordered.
func wantedChanges(w *providers.Resource) (out []providers.FieldChange) {
	for path, f := range w.Fields.All() {
		if f.Value.IsSet() && f.Match != providers.OneOf {
			for _, e := range f.Value.Elements() {
				out = append(out, providers.FieldChange{Path: path, Want: providers.String(e), Element: true, Mutability: f.Mutability})
			}
			continue
		}
		out = append(out, providers.FieldChange{Path: path, Want: f.Value, Mutability: f.Mutability})
	}
	slices.SortFunc(out, func(a, b providers.FieldChange) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Want.Text(), b.Want.Text()))
	})
	return out
}

// checkApplyGone asks for every field of a resource that the cloud has lost
// since: the change was decided by what was read before.
func checkApplyGone(ctx context.Context, _ Harness, env *Environment, t *testing.T) (out problems) {
	a := applierOf(env, t)
	if env.Remove == nil {
		t.Skip("the environment removes nothing")
	}
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	id := env.Remove(t)
	if env.SeenAs != nil {
		id = env.SeenAs(id)
	}
	before := env.Mutations()
	asked := 0
	s.each(env, func(o *providers.Owner, w *providers.Resource) {
		if w.ID != id || s.snap.Resources[id] == nil {
			return
		}
		for _, f := range wantedChanges(w) {
			if f.Mutability != providers.InPlace && f.Mutability != providers.InPlaceDisruptive {
				continue
			}
			asked++
			c := providers.Change{Resource: id, Owner: o.Ref, Want: w, Have: s.snap.Resources[id], Fields: []providers.FieldChange{f}, Disruptive: true, Token: token}
			if err := a.Apply(ctx, s.scope, c); err == nil || errors.Is(err, providers.ErrPending) {
				out = append(out, fmt.Sprintf("%s is gone, and apply of %s gave %v", id, f.Path, err))
			}
		}
	})
	if asked == 0 {
		out = append(out, fmt.Sprintf("nothing could be asked of %s, which was removed", id))
	}
	if n := env.Mutations() - before; n != 0 {
		out = append(out, fmt.Sprintf("changes of what is gone made %d mutating calls", n))
	}
	return out
}
