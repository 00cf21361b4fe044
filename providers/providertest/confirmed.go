package providertest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

// checkConfirm holds a live read to the bulk read, for whatever exists and is
// of a kind that is compared: it is what a repair is decided by, so that a
// field which it left out would never be repaired.
func checkConfirm(ctx context.Context, h Harness, env *Environment, _ *testing.T) (out problems) {
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	ids := s.namedIDs(env)
	for _, id := range s.seenIDs() {
		if !slices.Contains(ids, id) && compares(h, id.Kind) {
			ids = append(ids, id)
		}
	}
	c, err := env.Provider.Confirm(ctx, s.scope, append(slices.Clone(ids), env.Absent...))
	if err != nil {
		return problems{fmt.Sprintf("confirm: %v", err)}
	}
	for _, id := range ids {
		out = append(out, confirmed(id, s.snap.Resources[id], c)...)
	}
	for _, id := range env.Absent {
		if c.Resources[id] != nil || c.Unconfirmed[id] != nil {
			out = append(out, fmt.Sprintf("%s does not exist; confirm says it does: %v, or could not tell: %v", id, c.Resources[id] != nil, c.Unconfirmed[id]))
		}
	}
	return out
}

// confirmed compares the two ways of reading one resource.
func confirmed(id providers.ID, bulk *providers.Resource, c *providers.Confirmation) problems {
	live := c.Resources[id]
	switch {
	case c.Unconfirmed[id] != nil:
		return problems{fmt.Sprintf("%s could not be confirmed: %v", id, c.Unconfirmed[id])}
	case bulk == nil && live == nil:
		return problems{fmt.Sprintf("%s is wanted, and neither observe nor confirm knows it", id)}
	case bulk == nil || live == nil:
		return problems{fmt.Sprintf("%s: observe sees it: %v, confirm sees it: %v", id, bulk != nil, live != nil)}
	default:
		return disagreements(bulk, live)
	}
}

func compares(h Harness, kind string) bool {
	return slices.ContainsFunc(h.Registration.Catalog, func(row providers.CatalogRow) bool { return row.Kind == kind })
}

// seenIDs are the ids of a snapshot in order.
func (s *state) seenIDs() []providers.ID {
	ids := make([]providers.ID, 0, len(s.snap.Resources))
	for id := range s.snap.Resources {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, byID)
	return ids
}

// disagreements compares what both ways of reading give of one resource. The
// live read may tell more, as of a VPC that no cluster uses.
func disagreements(bulk, live *providers.Resource) (out problems) {
	for path, b := range bulk.Fields.All() {
		l, ok := live.Fields.Lookup(path)
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("%s%s: observe says %q, confirm nothing", bulk.ID, path, b.Value.Text()))
		case !b.Value.Equal(l.Value):
			out = append(out, fmt.Sprintf("%s%s: observe says %q, confirm %q", bulk.ID, path, b.Value.Text(), l.Value.Text()))
		}
	}
	slices.Sort(out)
	if len(out) > 0 {
		return out
	}
	for _, path := range bulk.Closed {
		if !live.Closes(path) {
			out = append(out, fmt.Sprintf("%s: observe read %s in full, and confirm did not", bulk.ID, path))
		}
	}
	// Beyond fields, which may be more, both say the same.
	b, l := *bulk, *live
	b.Fields, b.Closed, l.Fields, l.Closed = nil, nil, nil, nil
	if diff := cmp.Diff(&b, &l); diff != "" {
		out = append(out, fmt.Sprintf("%s: observe and confirm differ (-observe +confirm):\n%s", bulk.ID, diff))
	}
	return append(out, foreignDisagreements(bulk, live)...)
}

// foreignDisagreements compares who owns the elements of sets.
func foreignDisagreements(bulk, live *providers.Resource) (out problems) {
	for path, b := range bulk.Fields.All() {
		if diff := cmp.Diff(b.Foreign, live.Fields.Get(path).Foreign); diff != "" {
			out = append(out, fmt.Sprintf("%s%s: observe and confirm differ in what is foreign (-observe +confirm):\n%s", bulk.ID, path, diff))
		}
	}
	return out
}
