package providertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

func checkSeen(ctx context.Context, _ Harness, env *Environment, _ *testing.T) (out problems) {
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	for id, r := range s.snap.Resources {
		if _, known := s.snap.Covered(id.Kind, ""); !known {
			out = append(out, fmt.Sprintf("seen %s: coverage says nothing of its kind", id))
		}
		for _, problem := range badSeenResource(id, r) {
			out = append(out, fmt.Sprintf("seen %s: %s", id, problem))
		}
	}
	for part := range s.snap.Coverage {
		if part == "" || strings.HasPrefix(part, "/") || strings.HasSuffix(part, "/") {
			out = append(out, fmt.Sprintf("coverage of %q: want Kind or Kind/part", part))
		}
	}
	slices.Sort(out)
	return out
}

func badSeenResource(id providers.ID, r *providers.Resource) (out problems) {
	if r == nil {
		return problems{"nil"}
	}
	if r.ID != id || id.Kind == "" || id.Name == "" {
		out = append(out, fmt.Sprintf("stands under that id, and is %s", r.ID))
	}
	if r.Unsettled || r.Unchecked != "" || r.Absent || !r.Since.IsZero() {
		out = append(out, "it carries what only wanted resources may: unsettled, unchecked, absent or since")
	}
	for path, f := range r.Fields.All() {
		if problem := badSeenField(path, f); problem != "" {
			out = append(out, path+": "+problem)
		}
	}
	return out
}

func badSeenField(path string, f providers.Field) string {
	switch {
	case !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/"):
		return "path is no JSON pointer to a field"
	case f.Value.IsAbsent():
		return "a seen field without a value: leave it out"
	case f.Match != providers.Exactly || f.Mutability != providers.ReadOnly || f.Adopted:
		return "match, mutability and adopted are for wanted fields"
	}
	for element := range f.Foreign {
		if !f.Value.Has(element) {
			return fmt.Sprintf("foreign element %q is not in the set", element)
		}
	}
	for element := range f.Claimed {
		if !f.Value.Has(element) || f.Foreign[element] != "" {
			return fmt.Sprintf("claimed element %q is not in the set, or foreign as well", element)
		}
	}
	return ""
}

// compareAll compares every owner.
func (s *state) compareAll(env *Environment, opt detector.Options) []detector.Result {
	results := make([]detector.Result, 0, len(env.Owners))
	for i, o := range env.Owners {
		results = append(results, detector.Compare(o, s.wants[i], s.snap, opt))
	}
	return results
}

func optionsFor(env *Environment, snap *providers.Snapshot) detector.Options {
	if env.Now.IsZero() {
		return detector.Options{Now: snap.TakenAt.Add(24 * time.Hour)}
	}
	return detector.Options{Now: env.Now}
}

func checkFresh(ctx context.Context, h Harness, env *Environment, t *testing.T) (out problems) {
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	for part, err := range s.snap.Coverage {
		if err != nil {
			out = append(out, fmt.Sprintf("%s could not be read in a fresh environment: %v", part, err))
		}
	}
	results := s.compareAll(env, optionsFor(env, s.snap))
	checked, notChecked, inSync := 0, 0, 0
	for i := range results {
		r := &results[i]
		checked, notChecked, inSync = checked+r.Checked, notChecked+r.NotChecked, inSync+len(r.InSync)
		for j := range r.Findings {
			if f := &r.Findings[j]; f.Status == detector.NotChecked {
				t.Logf("not checked: %s", describe(f))
			} else if f.Status != detector.InSync && f.Status != detector.Foreign {
				out = append(out, "fresh, and not in sync: "+describe(f))
			}
		}
	}
	for _, f := range detector.Orphans(results, s.snap, detector.Unseen{}) {
		_, excused := h.NotOrphans[f.Have.ID]
		if f.Status == detector.Unexpected && !excused {
			out = append(out, "fresh, and an orphan: "+describe(&f))
		}
	}
	if checked == 0 {
		return append(out, "nothing was compared")
	}
	ratio := float64(checked) / float64(checked+notChecked)
	t.Logf("compared %d of %d wanted fields (%.1f%%), %d resources in sync", checked, checked+notChecked, 100*ratio, inSync)
	least := h.MinCoverage
	if least == 0 {
		least = 1
	}
	if ratio < least {
		out = append(out, fmt.Sprintf("compared %.3f of the wanted fields, want at least %.3f", ratio, least))
	}
	slices.Sort(out)
	return out
}

func describe(f *detector.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s/%s (%s) is %s", f.Owner, f.Resource.Kind, f.Resource.ID, f.Resource.Name, f.Status)
	if f.Reason != "" {
		fmt.Fprintf(&b, ", %s", f.Reason)
	}
	for _, d := range f.Diffs {
		fmt.Fprintf(&b, "; %s %s: want %q, have %q", d.Path, d.Type, d.Want.Text(), d.Have.Text())
	}
	return b.String()
}
