package detector

import (
	"github.com/holdfast-io/holdfast/providers"
)

// fieldDiffs gathers what comparing the fields of one resource came to.
type fieldDiffs struct {
	drift   []Diff
	claimed []Diff
	foreign []Diff
}

// compareField adds what differs between a wanted field and what is seen at
// its path. Absence in the cloud is the zero Field. It allocates only for
// differences.
func (out *fieldDiffs) compareField(path string, want, have *providers.Field) {
	if want.Value.IsSet() && want.Match != providers.OneOf && (have.Value.IsSet() || have.Value.IsAbsent()) {
		out.compareSets(path, want, have)
		return
	}
	if satisfies(want, have.Value) {
		return
	}
	d := newDiff(path, want, have)
	d.Want, d.Have = want.Value, have.Value
	switch {
	case have.Value.IsAbsent():
		d.Type = Removed
	case want.Value.IsAbsent():
		d.Type = Added
	default:
		d.Type = Changed
	}
	out.drift = append(out.drift, d)
}

// satisfies compares whole values. A match that does not fit the values' kinds
// is never satisfied, so that a provider's mistake shows as drift in its own
// tests and never as in sync.
func satisfies(want *providers.Field, have providers.Value) bool {
	switch want.Match {
	case providers.OneOf:
		return !have.IsAbsent() && !have.IsSet() && (want.Value.Equal(have) || want.Value.Has(have.Text()))
	case providers.AtLeast:
		least, wantNumber := want.Value.Number()
		n, haveNumber := have.Number()
		return wantNumber && haveNumber && n >= least
	default:
		return want.Value.Equal(have)
	}
}

// compareSets walks both sorted sets at once and adds one diff for each
// element that only one of them has. An element that somebody else owns is
// foreign, not drift; one that only claims to be somebody's is drift of its
// own; one that is wanted is the owner's, whoever else names it.
func (out *fieldDiffs) compareSets(path string, want, have *providers.Field) {
	if want.Value.Equal(have.Value) || want.Match == providers.Contains && have.Value.HasAll(want.Value) {
		return // the usual case, without the elements being taken apart
	}
	w, h := want.Value.Elements(), have.Value.Elements()
	for len(w) > 0 || len(h) > 0 {
		switch {
		case len(h) == 0 || len(w) > 0 && w[0] < h[0]:
			d := newDiff(path, want, have)
			d.Type, d.Element, d.Want = Removed, true, providers.String(w[0])
			out.drift = append(out.drift, d)
			w = w[1:]
		case len(w) == 0 || h[0] < w[0]:
			if want.Match != providers.Contains {
				out.addElement(path, want, have, h[0])
			}
			h = h[1:]
		default:
			w, h = w[1:], h[1:]
		}
	}
}

func (out *fieldDiffs) addElement(path string, want, have *providers.Field, element string) {
	d := newDiff(path, want, have)
	d.Type, d.Element, d.Have = Added, true, providers.String(element)
	if owner, ok := have.Foreign[element]; ok {
		d.Foreign = owner
		out.foreign = append(out.foreign, d)
		return
	}
	if owner, ok := have.Claimed[element]; ok {
		d.Foreign = owner
		out.claimed = append(out.claimed, d)
		return
	}
	out.drift = append(out.drift, d)
}

func newDiff(path string, want, have *providers.Field) Diff {
	return Diff{
		Path:       path,
		Mutability: want.Mutability,
		Sensitive:  want.Sensitive || have.Sensitive,
		Adopted:    want.Adopted,
	}
}
