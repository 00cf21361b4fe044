package providertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

// state is one read of an environment.
type state struct {
	scope providers.Scope
	snap  *providers.Snapshot
	// wants of each owner, in the owners' order.
	wants [][]providers.Resource
}

// read does what a sweep does before it compares.
func read(ctx context.Context, env *Environment) (*state, error) {
	s := &state{}
	var err error
	if s.scope, err = env.Provider.Scope(ctx, env.Owners[0]); err != nil {
		return nil, fmt.Errorf("scope of %s: %w", env.Owners[0].Ref, err)
	}
	if s.snap, err = env.Provider.Observe(ctx, s.scope); err != nil {
		return nil, fmt.Errorf("observe %s: %w", s.scope, err)
	}
	for _, o := range env.Owners {
		wants, err := env.Provider.Desired(o, s.snap)
		if err != nil {
			return nil, fmt.Errorf("desired of %s: %w", o.Ref, err)
		}
		s.wants = append(s.wants, wants)
	}
	return s, nil
}

// each calls f for every wanted resource.
func (s *state) each(env *Environment, f func(o *providers.Owner, w *providers.Resource)) {
	for i := range s.wants {
		for j := range s.wants[i] {
			f(env.Owners[i], &s.wants[i][j])
		}
	}
}

// namedIDs are the ids that owners want to exist, each once, in wanted order.
func (s *state) namedIDs(env *Environment) []providers.ID {
	var ids []providers.ID
	seen := map[providers.ID]bool{}
	s.each(env, func(_ *providers.Owner, w *providers.Resource) {
		if comparable(w) && !w.Absent && !seen[w.ID] {
			seen[w.ID] = true
			ids = append(ids, w.ID)
		}
	})
	return ids
}

func comparable(w *providers.Resource) bool {
	return w.Unchecked == "" && !w.Unsettled && w.ID.Name != ""
}

// byText compares errors by what they say.
var byText = cmp.Comparer(func(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
})

func checkScope(ctx context.Context, h Harness, env *Environment, _ *testing.T) (out problems) {
	var first providers.Scope
	for i, o := range env.Owners {
		for range 2 {
			s, err := env.Provider.Scope(ctx, o)
			if err != nil {
				return append(out, fmt.Sprintf("scope of %s: %v", o.Ref, err))
			}
			if i == 0 && first == (providers.Scope{}) {
				first = s
			}
			if s != first {
				out = append(out, fmt.Sprintf("scope of %s is %+v, of %s it was %+v: owners of one environment share a scope, and asking twice changes nothing", o.Ref, s, env.Owners[0].Ref, first))
			}
		}
	}
	if first.Provider != h.Registration.Name {
		out = append(out, fmt.Sprintf("scope names provider %q, the registration %q", first.Provider, h.Registration.Name))
	}
	if first.Account == "" {
		out = append(out, "scope has no account: snapshots of two accounts would be shared")
	}
	return out
}

func checkReadOnly(ctx context.Context, _ Harness, env *Environment, _ *testing.T) (out problems) {
	before := env.Mutations()
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	if _, err := env.Provider.Confirm(ctx, s.scope, append(s.namedIDs(env), env.Absent...)); err != nil {
		return problems{fmt.Sprintf("confirm: %v", err)}
	}
	if n := env.Mutations() - before; n != 0 {
		out = append(out, fmt.Sprintf("reading made %d mutating calls", n))
	}
	return out
}

func checkObserveDeterministic(ctx context.Context, _ Harness, env *Environment, _ *testing.T) (out problems) {
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	again, err := env.Provider.Observe(ctx, s.scope)
	if err != nil {
		return problems{fmt.Sprintf("observe again: %v", err)}
	}
	if diff := cmp.Diff(s.snap.Resources, again.Resources); diff != "" {
		out = append(out, "two reads of one state differ (-first +second):\n"+diff)
	}
	if diff := cmp.Diff(s.snap.Coverage, again.Coverage, byText); diff != "" {
		out = append(out, "coverage of two reads differs (-first +second):\n"+diff)
	}
	if s.snap.TakenAt.IsZero() {
		out = append(out, "snapshot has no time")
	}
	if s.snap.Scope != s.scope {
		out = append(out, fmt.Sprintf("snapshot is of scope %+v, asked was %+v", s.snap.Scope, s.scope))
	}
	return out
}

func checkCancelled(ctx context.Context, _ Harness, env *Environment, _ *testing.T) (out problems) {
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if snap, err := env.Provider.Observe(cancelled, s.scope); err == nil {
		out = append(out, fmt.Sprintf("observe under a cancelled context gave %d resources and no error", len(snap.Resources)))
	}
	ids := s.namedIDs(env)
	c, err := env.Provider.Confirm(cancelled, s.scope, ids)
	if err != nil {
		return out
	}
	for _, id := range ids {
		if c.Resources[id] == nil && c.Unconfirmed[id] == nil {
			out = append(out, fmt.Sprintf("confirm under a cancelled context calls %s absent", id))
		}
	}
	return out
}

func checkConcurrent(ctx context.Context, _ Harness, env *Environment, _ *testing.T) (out problems) {
	const readers = 3
	found := make(chan error, readers)
	for range readers {
		go func() {
			_, err := read(ctx, env)
			found <- err
		}()
	}
	for range readers {
		if err := <-found; err != nil {
			out = append(out, fmt.Sprintf("a concurrent read: %v", err))
		}
	}
	return out
}
