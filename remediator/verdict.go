package remediator

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Verdict is what one read says about one record. The zero Verdict says
// nothing, and nothing follows from it: unknown is never absence.
type Verdict struct {
	// At is when it was decided, SeenAt when the cloud was read; SeenAt is
	// zero where the read says nothing of it.
	At, SeenAt time.Time
	// Clear: the resource was compared in everything that the record is about.
	Clear bool
	// OwnerGone: the owner with this UID does not exist any more.
	OwnerGone bool
	// Decision is that of the record's fingerprint, nil if the read has none.
	Decision *policies.Decision
	// ChangedBy names who changed the resource last, if known; hostile text.
	ChangedBy string
	// Remains says that some of what the record is about still drifts, under
	// whatever fingerprint.
	Remains bool
	// Anew says that what drifts has another value than the attempt found: a
	// read that is merely late would show the old one.
	Anew bool
}

// Read is one read's decisions, as far as they are about one cluster.
type Read struct {
	At, SeenAt time.Time
	// Owners were compared.
	Owners map[providers.OwnerRef]bool
	// Exists tells the owners that exist.
	Exists map[providers.OwnerRef]bool
	// Decisions of the cluster.
	Decisions []policies.Decision
	// Held are owners that are not to be touched at all, whatever drifts.
	Held map[providers.OwnerRef]policies.Block
	// Wanted and Seen are the resources of the owner that a fresh read was
	// about, also where they do not differ; other reads have none.
	Wanted []providers.Resource
	Seen   map[providers.ID]*providers.Resource
	// ChangedBy names who changed a resource last, where events told.
	ChangedBy map[providers.ID]string
}

// VerdictOn reads what a read says about a record. It is pure.
func VerdictOn(r *v1alpha1.Remediation, read Read) Verdict {
	owner := OwnerOf(r)
	v := Verdict{At: read.At, SeenAt: read.SeenAt}
	if !exists(read.Exists, owner) {
		v.OwnerGone, v.Clear = true, true
		return v
	}
	v.Clear = exists(read.Owners, owner) && !read.SeenAt.IsZero()
	for i := range read.Decisions {
		d := &read.Decisions[i]
		f := &d.Finding
		if f.Owner.UID != owner.UID {
			continue
		}
		if f.Fingerprint == r.Spec.Fingerprint {
			v.Decision = d
			if !f.SeenAt.IsZero() {
				v.SeenAt = f.SeenAt
			}
		}
		switch f.Status {
		case detector.Unknown, detector.NotChecked:
			if hides(r, f) {
				v.Clear = false
			}
		case detector.Drifted, detector.Missing:
			v.Remains = v.Remains || aboutTheSame(r, f)
		}
	}
	if v.Decision != nil {
		v.Clear, v.Remains = true, true
		ref := v.Decision.Finding.Resource
		v.ChangedBy = read.ChangedBy[providers.ID{Kind: ref.Kind, Name: ref.ID}]
	}
	return v
}

// ChangedAnew reports whether a read shows, for something that an attempt set,
// neither the value that was wanted nor the one that the attempt found. Elements
// of sets are there or not, and tell nothing of this.
func ChangedAnew(r *v1alpha1.Remediation, read Read, found []providers.FieldChange) bool {
	for i := range read.Decisions {
		f := &read.Decisions[i].Finding
		if f.Owner.UID != r.Spec.Owner.UID || f.Status != detector.Drifted || !ofResource(r, f) {
			continue
		}
		for j := range f.Diffs {
			d := &f.Diffs[j]
			if !d.Element && slices.ContainsFunc(found, func(c providers.FieldChange) bool {
				return c.Path == d.Path && !c.Element && !c.Have.Equal(d.Have) && c.Want.Equal(d.Want)
			}) {
				return true
			}
		}
	}
	return false
}

// ReadOf reports whether a read compared an owner, and could tell all of it.
func ReadOf(read Read, owner providers.OwnerRef) bool {
	return exists(read.Owners, owner) && !slices.ContainsFunc(read.Decisions, func(d policies.Decision) bool {
		f := &d.Finding
		return f.Owner.UID == owner.UID && (f.Status == detector.Unknown || f.Status == detector.NotChecked) && (f.Want == nil || f.Have == nil)
	})
}

func exists(set map[providers.OwnerRef]bool, owner providers.OwnerRef) bool {
	for ref, in := range set {
		if in && ref.UID == owner.UID && ref.Name == owner.Name {
			return true
		}
	}
	return false
}

// HeldBy is the gate by which a record's owner is not to be touched, nil if there
// is none.
func (r Read) HeldBy(record *v1alpha1.Remediation) *policies.Block {
	for ref, b := range r.Held {
		if ref.UID == record.Spec.Owner.UID && ref.Name == record.Spec.Owner.Name {
			return &b
		}
	}
	return nil
}

// OwnerOf is the owner of a record.
func OwnerOf(r *v1alpha1.Remediation) providers.OwnerRef {
	o := r.Spec.Owner
	return providers.OwnerRef{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: r.Namespace, Name: o.Name, UID: o.UID}
}

// hides reports whether a finding that says "not seen" may hide what the
// record is about. One that was seen in part hides only what was not.
func hides(r *v1alpha1.Remediation, f *detector.Finding) bool {
	switch {
	case f.Want == nil:
		return true // nothing of the owner could be compared
	case !ofResource(r, f):
		return false
	case f.Have == nil || f.Status == detector.Unknown:
		return true
	}
	return slices.ContainsFunc(r.Spec.Plan, func(c v1alpha1.PlannedChange) bool {
		path := c.Path
		for raw := range f.Want.Fields.All() { // the plan's may have been made fit to be shown
			if Line(raw, maxValue) == c.Path {
				path = raw
			}
		}
		_, seen := f.Have.Fields.Lookup(path)
		return !seen && !f.Have.Closes(path) && path != statePath
	})
}

// statePath is where a missing or stopped resource drifts, and powerPath where
// a stopped virtual machine does.
const (
	statePath = "/state"
	powerPath = "/powerState"
)

// stops reports whether a path drifts while a change holds a machine stopped.
func stops(path string) bool { return path == statePath || path == powerPath }

func aboutTheSame(r *v1alpha1.Remediation, f *detector.Finding) bool {
	if !ofResource(r, f) {
		return false
	}
	for i := range f.Diffs {
		if slices.ContainsFunc(r.Spec.Plan, func(c v1alpha1.PlannedChange) bool { return sameValue(&c, &f.Diffs[i]) }) {
			return true
		}
		// Whoever stops a machine starts it again.
		if r.Spec.Disruptive && stops(f.Diffs[i].Path) {
			return true
		}
	}
	return false
}

func ofResource(r *v1alpha1.Remediation, f *detector.Finding) bool {
	return f.Resource.Kind == r.Spec.Resource.Kind && Line(f.Resource.ID, maxValue) == r.Spec.Resource.ID
}
