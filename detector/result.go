package detector

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/providers"
)

// DefaultCreationGrace is how long a resource may be absent after it was
// recorded: EC2's API is eventually consistent and has shown new instances as
// not found, or untagged, for up to two minutes.
const DefaultCreationGrace = 5 * time.Minute

// Options of a comparison.
type Options struct {
	// Now is the time of the run. The snapshot's time stands in for zero.
	Now time.Time
	// CreationGrace is how old a resource must be before its absence is
	// believed; zero means [DefaultCreationGrace].
	CreationGrace time.Duration
	// Building has owners compared whose infrastructure is still being made: for
	// whoever makes it.
	Building bool
}

// Result is what comparing one owner came to.
type Result struct {
	Owner *providers.Owner
	// Findings are ordered as [Sort] does.
	Findings []Finding
	// InSync are the resources that equal what was wanted in every wanted
	// field, in the order of the wanted list.
	InSync []ResourceRef
	// Checked and NotChecked count wanted fields; a resource that is wanted
	// without fields counts as one.
	Checked, NotChecked int
	// Wanted are the ids that the owner names. No other owner may claim them,
	// and none of them is an orphan.
	Wanted []providers.ID
	// Unnamed are the kinds of which the owner wants a resource without
	// naming its id: one that nobody claims may be the one it is being given.
	// [AnyKind] stands for all of them.
	Unnamed []string
}

// AnyKind in [Result.Unnamed] says that the owner's wants are not known at all.
const AnyKind = "*"

// Cluster names the owner's cluster.
func (r *Result) Cluster() ClusterRef { return clusterOf(r.Owner) }

// Drifting reports whether anything of the owner differs from what is wanted,
// a tentative absence included.
func (r *Result) Drifting() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Status == Drifted || f.Status == Missing || f.Tentative
	})
}

func (r *Result) claim(w *providers.Resource) {
	if w.ID.Name != "" {
		r.Wanted = append(r.Wanted, w.ID)
		return
	}
	r.Unnamed = append(r.Unnamed, w.ID.Kind)
}

func (r *Result) add(v verdict) {
	r.Findings = append(r.Findings, v.findings...)
	if v.inSync {
		r.InSync = append(r.InSync, v.ref)
	}
	r.Checked += v.checked
	r.NotChecked += v.notChecked
}

// verdict is what comparing one resource came to.
type verdict struct {
	ref                 ResourceRef
	findings            []Finding
	inSync              bool
	checked, notChecked int
}

// weight is how many fields a wanted resource counts for.
func weight(w *providers.Resource) int { return max(1, len(w.Fields)) }

// Sort orders findings by cluster, owner, resource, status and fingerprint,
// which is the order of all output.
func Sort(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			strings.Compare(a.Cluster.Namespace, b.Cluster.Namespace),
			strings.Compare(a.Cluster.Name, b.Cluster.Name),
			strings.Compare(a.Owner.Kind, b.Owner.Kind),
			strings.Compare(a.Owner.Namespace, b.Owner.Namespace),
			strings.Compare(a.Owner.Name, b.Owner.Name),
			strings.Compare(string(a.Owner.UID), string(b.Owner.UID)),
			strings.Compare(a.Resource.Provider, b.Resource.Provider),
			strings.Compare(a.Resource.Kind, b.Resource.Kind),
			strings.Compare(a.Resource.ID, b.Resource.ID),
			strings.Compare(string(a.Status), string(b.Status)),
			strings.Compare(a.Fingerprint, b.Fingerprint),
			strings.Compare(a.Reason, b.Reason),
		)
	})
}

func clusterOf(o *providers.Owner) ClusterRef {
	return ClusterRef{Namespace: o.Cluster.Namespace, Name: o.Cluster.Name}
}

// newFinding fills everything but status, reason and diffs. Either resource
// may be nil, not both.
func newFinding(o *providers.Owner, snap *providers.Snapshot, want, have *providers.Resource) Finding {
	f := Finding{
		Cluster: clusterOf(o), Owner: o.Ref,
		Resource: refOf(snap.Scope.Provider, want, have),
		Pool:     o.Pool, Zone: o.Zone, ControlPlane: o.ControlPlane,
		Want: want, Have: have,
		SeenAt: snap.TakenAt,
	}
	for _, r := range []*providers.Resource{want, have} {
		if r == nil {
			continue
		}
		for _, w := range r.Warnings {
			if w = oneLine(w); !slices.Contains(f.Warnings, w) {
				f.Warnings = append(f.Warnings, w)
			}
		}
	}
	return f
}

func refOf(provider string, want, have *providers.Resource) ResourceRef {
	ref := ResourceRef{Provider: provider}
	if want != nil {
		ref.Kind, ref.ID, ref.Name = want.ID.Kind, want.ID.Name, want.Name
	}
	if have != nil {
		ref.Kind, ref.ID = have.ID.Kind, have.ID.Name
		if have.Name != "" {
			ref.Name = have.Name
		}
	}
	return ref
}

// oneLine keeps a reason one line, and without credentials: errors of cloud
// clients may have several of the former, and quote URLs with the latter.
func oneLine(s string) string { return providers.Redact(strings.Join(strings.Fields(s), " ")) }
