package remediator

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// tokens is the namespace of idempotency tokens.
var tokens = uuid.MustParse("6d1c1f6e-6a51-4b0e-9d0b-7f3f5a0f6c11")

// Token names one attempt: the same for every try of it, also by a process
// that starts anew, and another for the next attempt.
func Token(r *v1alpha1.Remediation) string {
	return uuid.NewSHA1(tokens, []byte(string(r.Spec.Owner.UID)+"\x00"+r.Spec.Fingerprint+"\x00"+strconv.Itoa(int(r.Status.AttemptCount)))).String()
}

// ChangeOf is the change that a record's running attempt makes, from a read
// just now; false where that read leaves nothing to do. drained says that
// nothing runs on the machine, so that it may be stopped.
//
// A change that stops a machine may have got as far as the stop when a process
// died: whatever of the resource the record is about is set, and its state. It
// may have got further than what a read shows, too, for the machine is to be
// started again, and what the provider needed for that to be tidied up. So such
// a change is asked for as it was planned, in full, also where nothing differs
// any more; the provider knows when it is complete.
func ChangeOf(r *v1alpha1.Remediation, read Read, drained bool) (providers.Change, bool) {
	change := providers.Change{Owner: OwnerOf(r), Disruptive: r.Spec.Disruptive && drained, Token: Token(r)}
	for i := range read.Decisions {
		f := &read.Decisions[i].Finding
		if f.Owner.UID != r.Spec.Owner.UID || f.Status != detector.Drifted && f.Status != detector.Missing {
			continue
		}
		if f.Fingerprint != r.Spec.Fingerprint && (!r.Spec.Disruptive || !aboutTheSame(r, f)) {
			continue
		}
		change.Resource = providers.ID{Kind: f.Resource.Kind, Name: f.Resource.ID}
		change.Want, change.Have = f.Want, f.Have
		for j := range f.Diffs {
			if d := &f.Diffs[j]; f.Fingerprint == r.Spec.Fingerprint || stops(d.Path) || planned(r, d) {
				change.Fields = append(change.Fields, providers.FieldChange{
					Path: d.Path, Want: d.Want, Have: d.Have, Element: d.Element, Mutability: d.Mutability})
			}
		}
	}
	if change.Disruptive {
		complete(r, read, &change)
	}
	return change, len(change.Fields) > 0
}

// complete adds the fields for which the record stops the machine and that the
// read does not show to differ.
func complete(r *v1alpha1.Remediation, read Read, change *providers.Change) {
	id := providers.ID{Kind: r.Spec.Resource.Kind, Name: r.Spec.Resource.ID}
	i := slices.IndexFunc(read.Wanted, func(w providers.Resource) bool { return w.ID == id })
	have := read.Seen[id]
	if i < 0 || have == nil || have.Gone != "" || have.Unknown != "" {
		return // nothing to go on with, or not known
	}
	want := &read.Wanted[i]
	for _, p := range r.Spec.Plan {
		f, wanted := want.Fields.Lookup(p.Path)
		there := slices.ContainsFunc(change.Fields, func(c providers.FieldChange) bool { return c.Path == p.Path })
		if !wanted || there || p.Element || f.Mutability != providers.InPlaceDisruptive {
			continue
		}
		change.Resource, change.Want, change.Have = id, want, have
		change.Fields = append(change.Fields, providers.FieldChange{
			Path: p.Path, Want: f.Value, Have: have.Fields.Get(p.Path).Value, Mutability: f.Mutability})
	}
	slices.SortStableFunc(change.Fields, func(a, b providers.FieldChange) int { return strings.Compare(a.Path, b.Path) })
}

func planned(r *v1alpha1.Remediation, d *detector.Diff) bool {
	for i := range r.Spec.Plan {
		if sameValue(&r.Spec.Plan[i], d) {
			return true
		}
	}
	return false
}
