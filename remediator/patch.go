package remediator

import (
	"strconv"

	"github.com/google/uuid"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
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
// just now; false where that read has nothing left to change. drained says
// that nothing runs on the machine, so that it may be stopped.
//
// A change that stops a machine may have got as far as the stop when a process
// died: whatever of the resource the record is about is set, and its state.
func ChangeOf(r *v1alpha1.Remediation, decisions []policies.Decision, drained bool) (providers.Change, bool) {
	change := providers.Change{Owner: OwnerOf(r), Disruptive: r.Spec.Disruptive && drained, Token: Token(r)}
	for i := range decisions {
		f := &decisions[i].Finding
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
	return change, len(change.Fields) > 0
}

func planned(r *v1alpha1.Remediation, d *detector.Diff) bool {
	for i := range r.Spec.Plan {
		if sameValue(&r.Spec.Plan[i], d) {
			return true
		}
	}
	return false
}
