package detector

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/providers"
)

const statePath = "/state"

// reasonAbsent is the reason of a tentative absence.
const reasonAbsent = "absent from the snapshot, and not read again yet"

// Compare says how what one owner wants differs from what a snapshot of its
// scope holds. It is pure.
//
// A resource that is absent from a complete snapshot is Unknown, and Tentative
// unless it is within its creation grace: [Unconfirmed] names those, the caller has the provider confirm them, and
// [Settle] decides. Nothing that could not be read is ever Missing.
func Compare(owner *providers.Owner, want []providers.Resource, snap *providers.Snapshot, opt Options) Result {
	r := Result{
		Owner:  owner,
		InSync: make([]ResourceRef, 0, len(want)),
		Wanted: make([]providers.ID, 0, len(want)),
	}
	for i := range want {
		w := &want[i]
		r.claim(w)
		r.add(compareWanted(owner, w, snap, opt))
	}
	Sort(r.Findings)
	return r
}

// compareWanted decides first whether the resource can be compared at all.
func compareWanted(owner *providers.Owner, w *providers.Resource, snap *providers.Snapshot, opt Options) verdict {
	if reason := beingDeleted(owner); reason != "" {
		return single(owner, snap, w, nil, NotChecked, reason)
	}
	if reason := beingMade(owner); reason != "" && !opt.Building {
		return single(owner, snap, w, nil, NotChecked, reason)
	}
	if reason := notComparable(w, snap); reason != "" {
		return single(owner, snap, w, nil, NotChecked, reason)
	}
	have := snap.Resources[w.ID]
	if w.Unknown != "" {
		return single(owner, snap, w, have, Unknown, oneLine(w.Unknown))
	}
	if have == nil && !w.Absent {
		if ageOf(owner, w, snap, opt) == young {
			return single(owner, snap, w, nil, Unknown, young.reason()) // a live read would tell no more
		}
		v := single(owner, snap, w, nil, Unknown, reasonAbsent)
		v.findings[0].Tentative = true
		return v
	}
	return compareSeen(owner, w, have, snap, opt)
}

// beingDeleted says which object above or at the owner is on its way out; empty
// if none is. What is taken down just now is neither drift nor lost, and stays
// claimed so that it is no orphan either.
func beingDeleted(o *providers.Owner) string {
	deleted := func(m metav1.Object) bool { return !m.GetDeletionTimestamp().IsZero() }
	switch {
	case o.Infra != nil && deleted(o.Infra):
		return o.Ref.Kind + " " + o.Ref.Name + " is being deleted"
	case o.Machine != nil && deleted(o.Machine):
		return "Machine " + o.Machine.Name + " is being deleted"
	case o.Cluster != nil && deleted(o.Cluster):
		return "Cluster " + o.Cluster.Name + " is being deleted"
	default:
		return ""
	}
}

// beingMade says that the owner's infrastructure has not been there once, as far as
// Cluster API has recorded (contract, "initialization"; the provider id of a Machine
// stays when a status is lost, in a move to another management cluster): what is there of it is
// half made, by somebody who does not need to be told so, and what is wanted of it
// may follow from what is made next. An object without a creation time, from a
// file, is at rest.
func beingMade(o *providers.Owner) string {
	if o.Infra == nil {
		return ""
	}
	made := o.Infra.GetCreationTimestamp()
	switch {
	case made.IsZero():
		return ""
	case o.Machine != nil && o.Machine.Status.Initialization.InfrastructureProvisioned == nil && o.Machine.Spec.ProviderID == "":
		return "Machine " + o.Machine.Name + " is still being made"
	case o.Machine == nil && o.Cluster != nil && o.Cluster.Status.Initialization.InfrastructureProvisioned == nil:
		return "the infrastructure of Cluster " + o.Cluster.Name + " is still being made"
	default:
		return ""
	}
}

// notComparable says why nothing can be said about a wanted resource, or "".
func notComparable(w *providers.Resource, snap *providers.Snapshot) string {
	if w.Unchecked != "" {
		return oneLine(w.Unchecked)
	}
	if w.Unsettled {
		return "its owner is still making it"
	}
	if w.ID.Name == "" {
		return "its owner has recorded no identity for it"
	}
	err, known := snap.Covered(w.ID.Kind, "")
	if !known {
		return fmt.Sprintf("%s is not modelled by provider %s", w.ID.Kind, snap.Scope.Provider)
	}
	if err != nil {
		return fmt.Sprintf("%s could not be read: %s", w.ID.Kind, oneLine(err.Error()))
	}
	return ""
}

// compareSeen compares a wanted resource with a seen one; have is nil only
// where the resource is wanted absent.
func compareSeen(owner *providers.Owner, w, have *providers.Resource, snap *providers.Snapshot, opt Options) verdict {
	switch {
	case have != nil && have.Unknown != "":
		return single(owner, snap, w, have, Unknown, oneLine(have.Unknown))
	case w.Absent && (have == nil || have.Gone != ""):
		return inSync(owner, w, nil, snap)
	case w.Absent:
		return unwanted(owner, w, have, snap)
	case have.Gone != "":
		return missing(owner, w, have, snap, oneLine(have.Gone))
	default:
		return compareFields(owner, w, have, snap, opt)
	}
}

// unwanted is a resource that was declared absent and exists.
func unwanted(owner *providers.Owner, w, have *providers.Resource, snap *providers.Snapshot) verdict {
	if have.ForeignTo != "" {
		return single(owner, snap, w, have, Foreign, "belongs to "+oneLine(have.ForeignTo))
	}
	v := single(owner, snap, w, have, Unexpected, "wanted absent, and exists")
	f := &v.findings[0]
	f.Diffs = []Diff{{Path: statePath, Have: stateOf(have), Type: Added, Mutability: w.Fields.Get(statePath).Mutability}}
	f.Fingerprint = Fingerprint(f)
	return decided(v, w)
}

// missing is one finding with one diff, whatever else is wanted: the
// attributes of what is gone mean nothing. There is nothing to write at it
// either: making things is the infrastructure provider's part, and machines are
// made anew by Cluster API.
func missing(owner *providers.Owner, w, have *providers.Resource, snap *providers.Snapshot, reason string) verdict {
	v := single(owner, snap, w, have, Missing, reason)
	f := &v.findings[0]
	d := Diff{Path: statePath, Want: providers.String("present"), Type: Removed, Mutability: providers.ReadOnly}
	if owner.Machine != nil {
		d.Mutability = providers.Immutable // a machine is replaced, not made again in place
	}
	if state, ok := w.Fields.Lookup(statePath); ok {
		d.Want = state.Value
	}
	if have != nil {
		d.Have = providers.String(have.Gone)
	}
	f.Diffs = []Diff{d}
	f.Fingerprint = Fingerprint(f)
	return decided(v, w)
}

// walk goes through seen fields beside the wanted ones: both are in the order of
// their paths.
type walk providers.Fields

// absent stands for a field that is not there.
var absent providers.Field

// to gives the field at a path, which comes after those that were asked for
// before.
func (w *walk) to(path string) (*providers.Field, bool) {
	for len(*w) > 0 && (*w)[0].Path < path {
		*w = (*w)[1:]
	}
	if len(*w) > 0 && (*w)[0].Path == path {
		return &(*w)[0].Field, true
	}
	return &absent, false
}

// compareFields compares what exists, field by field. A field that is absent
// from a resource within its creation grace is not checked: clouds show new
// resources before their tags and attachments.
func compareFields(owner *providers.Owner, w, have *providers.Resource, snap *providers.Snapshot, opt Options) verdict {
	var (
		v     = verdict{ref: refOf(snap.Scope.Provider, w, have)}
		out   fieldDiffs
		gaps  gaps
		parts = hasUnreadParts(snap, w.ID.Kind)
	)
	beside := walk(have.Fields)
	for i := range w.Fields {
		path, want := w.Fields[i].Path, &w.Fields[i].Field
		if parts {
			if err, _ := snap.Covered(w.ID.Kind, path); err != nil {
				gaps.add(path, "could not be read: "+oneLine(err.Error()))
				continue
			}
		}
		seen, ok := beside.to(path)
		if !ok && !have.Closes(path) {
			gaps.add(path, "not reported for this resource")
			continue
		}
		if !ok && !want.Value.IsAbsent() && ageOf(owner, w, snap, opt) == young {
			gaps.add(path, young.reason())
			continue
		}
		v.checked++
		out.compareField(path, want, seen)
	}
	v.notChecked = len(gaps)
	if len(w.Fields) == 0 {
		v.checked = 1
	}
	if len(out.drift) == 0 && len(out.claimed) == 0 && len(gaps) == 0 {
		in := inSync(owner, w, have, snap)
		v.inSync, v.findings = true, in.findings
	}
	v.addFinding(owner, w, have, snap, Drifted, "", out.drift)
	v.addFinding(owner, w, have, snap, Drifted, "set elements that claim to be someone else's, which proves nothing", out.claimed)
	v.addFinding(owner, w, have, snap, Foreign, "set elements that belong to someone else", out.foreign)
	if len(gaps) > 0 {
		v.findings = append(v.findings, single(owner, snap, w, have, NotChecked, gaps.reason(len(w.Fields))).findings...)
	}
	return v
}

// hasUnreadParts reports whether any part of a kind was not read. It spares
// resources in sync a look-up, and its string, for each field.
func hasUnreadParts(snap *providers.Snapshot, kind string) bool {
	for part, err := range snap.Coverage {
		if err != nil && len(part) > len(kind) && part[len(kind)] == '/' && strings.HasPrefix(part, kind) {
			return true
		}
	}
	return false
}

// inSync is no finding, unless there are warnings to show: those stand in one
// of status InSync.
func inSync(owner *providers.Owner, w, have *providers.Resource, snap *providers.Snapshot) verdict {
	v := verdict{ref: refOf(snap.Scope.Provider, w, have), inSync: true, checked: weight(w)}
	if len(w.Warnings) == 0 && (have == nil || len(have.Warnings) == 0) {
		return v
	}
	f := newFinding(owner, snap, w, have)
	f.Status, f.Reason = InSync, "in sync, with warnings"
	f.Fingerprint = Fingerprint(&f)
	v.findings = []Finding{f}
	return v
}

// single is one finding without diffs that leaves every field unchecked.
func single(owner *providers.Owner, snap *providers.Snapshot, w, have *providers.Resource, status Status, reason string) verdict {
	v := verdict{ref: refOf(snap.Scope.Provider, w, have), notChecked: weight(w)}
	f := newFinding(owner, snap, w, have)
	f.Status, f.Reason = status, reason
	f.Fingerprint = Fingerprint(&f)
	v.findings = []Finding{f}
	return v
}

// decided counts the resource's fields as checked: its existence decides all.
func decided(v verdict, w *providers.Resource) verdict {
	v.checked, v.notChecked = weight(w), 0
	return v
}

func (v *verdict) addFinding(owner *providers.Owner, w, have *providers.Resource, snap *providers.Snapshot, status Status, reason string, diffs []Diff) {
	if len(diffs) == 0 {
		return
	}
	sortDiffs(diffs)
	f := newFinding(owner, snap, w, have)
	f.Status, f.Reason, f.Diffs = status, reason, diffs
	f.Fingerprint = Fingerprint(&f)
	v.findings = append(v.findings, f)
}
