package providertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

func checkFailingKinds(ctx context.Context, _ Harness, env *Environment, t *testing.T) (out problems) {
	if len(env.FailKinds) == 0 {
		t.Skip("the environment takes no injected faults")
	}
	for _, kind := range env.FailKinds {
		restore := env.FailKind(t, kind)
		for _, p := range failing(ctx, env, kind) {
			out = append(out, "while "+kind+" cannot be read: "+p)
		}
		restore()
	}
	if _, err := read(ctx, env); err != nil {
		out = append(out, fmt.Sprintf("after the faults: %v", err))
	}
	return out
}

func failing(ctx context.Context, env *Environment, part string) (out problems) {
	scope, err := env.Provider.Scope(ctx, env.Owners[0])
	if err != nil {
		return problems{fmt.Sprintf("scope: %v", err)}
	}
	snap, err := env.Provider.Observe(ctx, scope)
	if err != nil {
		return problems{fmt.Sprintf("observe failed as a whole: %v", err)}
	}
	if snap.Coverage[part] == nil {
		out = append(out, "coverage says nothing of it")
	}
	complete := 0
	for _, err := range snap.Coverage {
		if err == nil {
			complete++
		}
	}
	if complete == 0 {
		out = append(out, "nothing else was read")
	}
	for _, o := range env.Owners {
		wants, err := env.Provider.Desired(o, snap)
		if err != nil {
			out = append(out, fmt.Sprintf("desired of %s blames the owner: %v", o.Ref, err))
			continue
		}
		out = append(out, neverMissing(o, wants, snap, env)...)
	}
	return out
}

// neverMissing settles with a confirmation that denies everything, which is
// the worst that a live read could say: what was not read in bulk must not
// have come so far.
func neverMissing(o *providers.Owner, wants []providers.Resource, snap *providers.Snapshot, env *Environment) (out problems) {
	opt := optionsFor(env, snap)
	r := detector.Settle(detector.Compare(o, wants, snap, opt), snap, &providers.Confirmation{}, opt)
	for i := range r.Findings {
		f := &r.Findings[i]
		switch f.Status {
		case detector.Drifted, detector.Missing, detector.Unexpected:
			out = append(out, describe(f))
		default:
		}
	}
	return out
}

func checkRemoved(ctx context.Context, _ Harness, env *Environment, t *testing.T) (out problems) {
	if env.Remove == nil {
		t.Skip("the environment removes nothing")
	}
	before, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	id := env.Remove(t)
	scope := before.scope
	snap, err := env.Provider.Observe(ctx, scope)
	if err != nil {
		return problems{fmt.Sprintf("observe: %v", err)}
	}
	opt := optionsFor(env, snap)
	missing := 0
	for _, o := range env.Owners {
		wants, err := env.Provider.Desired(o, snap)
		if err != nil {
			out = append(out, fmt.Sprintf("desired of %s without %s: %v", o.Ref, id, err))
			continue
		}
		r := detector.Compare(o, wants, snap, opt)
		c, err := env.Provider.Confirm(ctx, scope, detector.Unconfirmed(r))
		if err != nil {
			out = append(out, fmt.Sprintf("confirm: %v", err))
			continue
		}
		r = detector.Settle(r, snap, c, opt)
		for i := range r.Findings {
			f := &r.Findings[i]
			if f.Status != detector.Missing {
				continue
			}
			if (providers.ID{Kind: f.Resource.Kind, Name: f.Resource.ID}) != id {
				out = append(out, "not removed, and "+describe(f))
				continue
			}
			missing++
		}
	}
	if missing == 0 {
		out = append(out, fmt.Sprintf("%s was removed, and is not missing", id))
	}
	return out
}

// checkEmptySnapshot is what an owner meets when nothing was read: whatever
// Desired says, it does not panic, and nothing is missing for it.
func checkEmptySnapshot(ctx context.Context, _ Harness, env *Environment, _ *testing.T) (out problems) {
	scope, err := env.Provider.Scope(ctx, env.Owners[0])
	if err != nil {
		return problems{fmt.Sprintf("scope: %v", err)}
	}
	snap := &providers.Snapshot{Scope: scope}
	for _, o := range env.Owners {
		wants, err := env.Provider.Desired(o, snap)
		if err != nil {
			continue
		}
		out = append(out, neverMissing(o, wants, snap, env)...)
	}
	return out
}
