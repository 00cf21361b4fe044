package providertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

func byID(a, b providers.ID) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// checkApplyRepairs does each tamper, repairs it and expects the cloud to be
// what it was. After one that fails the environment is made anew, so that each
// tamper tells of itself alone.
func checkApplyRepairs(ctx context.Context, h Harness, env *Environment, t *testing.T) (out problems) {
	applierOf(env, t)
	if len(env.Tampers) == 0 {
		return problems{"the provider writes, and the environment has no tampers: nothing shows that it repairs"}
	}
	// Fields by kind and path.
	drifted := map[providers.ID]bool{}
	for i := range env.Tampers {
		found := repair(ctx, h, env, t, &env.Tampers[i], drifted)
		for _, p := range found {
			out = append(out, env.Tampers[i].Name+": "+p)
		}
		if len(found) == 0 {
			continue
		}
		if h.New == nil {
			return out
		}
		env = h.New(t)
	}
	return append(out, untampered(h, drifted)...)
}

// repair does one tamper and repairs it.
func repair(ctx context.Context, h Harness, env *Environment, t *testing.T, tamper *Tamper, drifted map[providers.ID]bool) (out problems) {
	t.Helper()
	a := applierOf(env, t)
	before, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	tamper.Do(t)
	tampered, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	changes, out := changesOf(tampered.findings(env))
	if len(changes) == 0 {
		return append(out, "nothing drifted")
	}
	for _, c := range changes {
		for _, f := range c.Fields {
			drifted[providers.ID{Kind: c.Resource.Kind, Name: f.Path}] = true
		}
		out = append(out, undisturbed(ctx, env, a, tampered.scope, c)...)
		if err := apply(ctx, env, t, a, tampered.scope, c); err != nil {
			out = append(out, fmt.Sprintf("apply to %s: %v", c.Resource, err))
		}
	}
	after, err := read(ctx, env)
	if err != nil {
		return append(out, err.Error())
	}
	for _, f := range after.findings(env) {
		if f.Status != detector.InSync && f.Status != detector.Foreign && f.Status != detector.NotChecked {
			out = append(out, "repaired, and "+describe(&f))
		}
	}
	out = append(out, before.restored(h, tampered, after)...)
	return append(out, twice(ctx, env, t, a, tampered.scope, changes)...)
}

// findings of all owners.
func (s *state) findings(env *Environment) (out []detector.Finding) {
	for _, r := range s.compareAll(env, optionsFor(env, s.snap)) {
		out = append(out, r.Findings...)
	}
	return out
}

// undisturbed asks for a disruptive change without leave to disrupt.
func undisturbed(ctx context.Context, env *Environment, a providers.Applier, scope providers.Scope, c providers.Change) (out problems) {
	disruptive := slices.ContainsFunc(c.Fields, func(f providers.FieldChange) bool { return f.Mutability == providers.InPlaceDisruptive })
	if !disruptive {
		return nil
	}
	before := env.Mutations()
	c.Disruptive = false
	if got := reasonOf(a.Apply(ctx, scope, c)); got != providers.ReasonDisruptive {
		out = append(out, fmt.Sprintf("apply to %s without leave to disrupt gave %s, want it refused with %s", c.Resource, got, providers.ReasonDisruptive))
	}
	if n := env.Mutations() - before; n != 0 {
		out = append(out, fmt.Sprintf("apply to %s without leave to disrupt made %d mutating calls", c.Resource, n))
	}
	return out
}

// restored compares the scope before the tamper with the scope after the
// repair. What the tamper made besides may be there, and nothing else.
func (s *state) restored(h Harness, tampered, after *state) (out problems) {
	for _, id := range s.seenIDs() {
		if diff := gocmp.Diff(lasting(h, s.snap.Resources[id]), lasting(h, after.snap.Resources[id])); diff != "" {
			out = append(out, fmt.Sprintf("%s is not what it was before the tamper (-before +after):\n%s", id, diff))
		}
	}
	for _, id := range after.seenIDs() {
		if s.snap.Resources[id] == nil && tampered.snap.Resources[id] == nil {
			out = append(out, fmt.Sprintf("the repair made %s", id))
		}
	}
	return out
}

// lasting is a resource without its volatile fields.
func lasting(h Harness, r *providers.Resource) *providers.Resource {
	if r == nil || len(h.Volatile) == 0 {
		return r
	}
	r = r.Clone()
	for path := range r.Fields.All() {
		if _, volatile := h.Volatile[r.ID.Kind+path]; volatile {
			r.Fields.Delete(path)
		}
	}
	return r
}

// twice makes changes that were made already, which is success and no write.
func twice(ctx context.Context, env *Environment, t *testing.T, a providers.Applier, scope providers.Scope, changes []providers.Change) (out problems) {
	t.Helper()
	before := env.Mutations()
	for _, c := range changes {
		if err := a.Apply(ctx, scope, c); err != nil {
			out = append(out, fmt.Sprintf("apply to %s once more: %v", c.Resource, err))
		}
	}
	if n := env.Mutations() - before; n != 0 {
		out = append(out, fmt.Sprintf("applying once more made %d mutating calls", n))
	}
	return out
}

// untampered are the rows of the catalog that can be changed and did not
// drift.
func untampered(h Harness, drifted map[providers.ID]bool) (out problems) {
	for _, row := range h.Registration.Catalog {
		if row.Mutability != providers.InPlace && row.Mutability != providers.InPlaceDisruptive {
			continue
		}
		key := row.Kind + row.Path
		_, excused := h.NotTampered[key]
		index := indexCatalog([]providers.CatalogRow{row})
		found := false
		for at := range drifted {
			found = found || index.has(at.Kind, at.Name)
		}
		switch {
		case !found && !excused:
			out = append(out, fmt.Sprintf("catalog row %s can be changed: no tamper makes it drift, and NotTampered gives no reason", key))
		case found && excused:
			out = append(out, fmt.Sprintf("catalog row %s is in NotTampered, and a tamper makes it drift", key))
		}
	}
	return out
}
