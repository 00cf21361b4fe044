package vspherecluster

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Tamper is one way in which a cluster drifts: what somebody does behind the
// back of Cluster API, and what Holdfast must then say.
type Tamper struct {
	// Name is short, lower case and unique.
	Name string
	// Row is the row of the drift catalog that it exercises.
	Row string
	// Cases are what it plays again: public reports, such as C34, or a word of a
	// platform's own documentation.
	Cases []string
	// Do does it.
	Do func(context.Context, *Environment) (*Damage, error)
}

// Damage is what a tamper has done.
type Damage struct {
	// Findings are all that a report must have, in any order. None means that
	// the tamper must not be noticed.
	Findings []Finding
	// Undo brings vCenter and the objects back to where they were; nil if
	// nothing does and the cluster must be made anew.
	Undo func(context.Context) error
}

// Finding is what an expected finding must say.
type Finding struct {
	// Owner is the object's kind and name.
	Owner  string
	Kind   string
	Name   string
	Status detector.Status
	// Diffs are ordered by path and value.
	Diffs []Diff
	// Warnings is how many there must be.
	Warnings int
}

// Diff is what an expected difference must say.
type Diff struct {
	Path string
	Type detector.DiffType
	// Want and Have are the values as text; empty is absence. Digests are
	// "(digest)".
	Want, Have string
}

// Tampers lists every tamper, in the order of the drift catalog.
func Tampers() []Tamper {
	return slices.Concat(existenceTampers(), powerTampers(), hardwareTampers(), diskTampers(), networkTampers(),
		addressTampers(), placeTampers(), templateTampers(), tagTampers(), configTampers())
}

// FindingOf gives what a detector's finding says in the words of expected ones.
func FindingOf(f *detector.Finding) Finding {
	out := Finding{Kind: f.Resource.Kind, Name: f.Resource.Name, Status: f.Status, Warnings: len(f.Warnings)}
	if f.Owner.Kind != "" {
		out.Owner = f.Owner.Kind + "/" + f.Owner.Name
	}
	for _, d := range f.Diffs {
		diff := Diff{Path: d.Path, Type: d.Type, Want: d.Want.Text(), Have: d.Have.Text()}
		if d.Sensitive {
			diff.Want, diff.Have = digest(d.Want), digest(d.Have)
		}
		out.Diffs = append(out.Diffs, diff)
	}
	sortDiffs(out.Diffs)
	return out
}

func digest(v providers.Value) string {
	if v.IsAbsent() {
		return ""
	}
	return "(digest)"
}

// SortFindings orders findings for comparison.
func SortFindings(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Status, b.Status))
	})
	for i := range findings {
		sortDiffs(findings[i].Diffs)
	}
}

func sortDiffs(diffs []Diff) {
	slices.SortFunc(diffs, func(a, b Diff) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Want, b.Want), cmp.Compare(a.Have, b.Have))
	})
}
