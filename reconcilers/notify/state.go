package notify

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// news is one thing to tell. All its texts but kind and words are hostile.
type news struct {
	about About
	// key is what it is about: a finding's fingerprint, a Remediation's UID.
	key      string
	cluster  detector.ClusterRef
	severity policies.Severity
	mode     policies.Mode
	scope    providers.Scope
	owner    providers.OwnerRef
	resource detector.ResourceRef
	status   detector.Status
	// diffs are the first few; more is how many others there are.
	diffs  []difference
	more   int
	reason string
	// follows says what is done about it: observe, replace held back by Window.
	follows string
	by      string
	// phase and message are those of a Remediation.
	phase   v1alpha1.RemediationPhase
	action  string
	message string
	// open says that it was there before Holdfast started to look.
	open bool
}

// difference is one value that differs.
type difference struct {
	path, want, have string
	sensitive        bool
}

// diffsKept bounds what is kept and shown of one finding.
const diffsKept = 3

// state is what was told. Losing it, at a restart, costs one message for each
// cluster with open findings.
type state struct {
	told map[string]*news
	// looked are the places of which an outcome was seen.
	looked map[providers.Scope]bool
	phases map[string]v1alpha1.RemediationPhase
	// since is when Holdfast began to tell: what ended before was told then.
	since time.Time
}

// maxPhases bounds the Remediations that are remembered. They come and go
// without a word of their end.
const maxPhases = 10_000

func newState(since time.Time) *state {
	return &state{since: since, told: map[string]*news{}, looked: map[providers.Scope]bool{}, phases: map[string]v1alpha1.RemediationPhase{}}
}

// learn compares an outcome with what was told, and gives what is new.
func (s *state) learn(o *sweep.Outcome) []*news {
	var out []*news
	for _, ref := range o.Gone {
		s.forget(ref)
	}
	if o.Result == nil {
		return out
	}
	first := !o.Targeted() && !s.looked[o.Scope]
	current := map[string]bool{}
	var doubts []*detector.Finding
	here := map[place]bool{}
	for i := range o.Result.Decisions {
		d := &o.Result.Decisions[i]
		f := &d.Finding
		if o.Targeted() && !o.Owners[f.Owner] {
			continue
		}
		switch {
		case f.Status == detector.Unknown || f.Status == detector.NotChecked:
			doubts = append(doubts, f)
			continue
		case !isDrift(d):
			continue
		}
		current[f.Fingerprint] = true
		here[placeOf(f.Owner, f.Resource)] = true
		if told := s.told[f.Fingerprint]; told != nil {
			told.scope = o.Scope
			continue
		}
		n := newsOf(d, o)
		n.open = first
		s.told[n.key] = n
		out = append(out, n)
	}
	if !o.Targeted() {
		s.looked[o.Scope] = true
	}
	return append(out, s.resolved(o, current, doubts, here)...)
}

// isDrift reports whether a decision is about drift that somebody wants to
// know of.
func isDrift(d *policies.Decision) bool {
	if d.Ignored != nil || d.Action == policies.Ignore || d.Mode == policies.ModeOff {
		return false
	}
	switch d.Finding.Status {
	case detector.Drifted, detector.Missing, detector.Unexpected:
		return true
	}
	return false
}

// place is a resource as one owner's.
type place struct {
	owner providers.OwnerRef
	kind  string
	id    string
}

func placeOf(owner providers.OwnerRef, r detector.ResourceRef) place {
	return place{owner, r.Kind, r.ID}
}

// resolved gives what was told and is no more: the outcome must have been about
// it, and must have seen clearly. What was not compared this time is still
// open. A resource that drifts in another way now is told of as that alone.
func (s *state) resolved(o *sweep.Outcome, current map[string]bool, doubts []*detector.Finding, here map[place]bool) []*news {
	var out []*news
	for key, n := range s.told {
		about := n.scope == o.Scope && !o.Targeted() || o.Owners[n.owner]
		if !about || current[key] || doubted(n, doubts) {
			continue
		}
		delete(s.told, key)
		if here[placeOf(n.owner, n.resource)] {
			continue
		}
		gone := *n
		gone.about = AboutResolved
		out = append(out, &gone)
	}
	slices.SortFunc(out, byWeight)
	return out
}

// doubted reports whether something about the resource, or about all of its
// owner, could not be told this time.
func doubted(n *news, doubts []*detector.Finding) bool {
	return slices.ContainsFunc(doubts, func(f *detector.Finding) bool {
		if f.Owner != n.owner {
			return false
		}
		same := f.Resource.Kind == n.resource.Kind && (f.Resource.ID == n.resource.ID || f.Resource.ID == "")
		return same || f.Resource.Kind == f.Owner.Kind || f.Resource.Kind == ""
	})
}

// forget drops what was told of a cluster that does not exist any more.
func (s *state) forget(ref detector.ClusterRef) {
	for key, n := range s.told {
		if n.cluster == ref {
			delete(s.told, key)
		}
	}
}

// byWeight orders news: the worst first, then by what they are about.
func byWeight(a, b *news) int {
	if c := slices.Index(severities, a.severity) - slices.Index(severities, b.severity); c != 0 {
		return c
	}
	for _, pair := range [][2]string{
		{a.owner.Kind, b.owner.Kind}, {a.owner.Name, b.owner.Name}, {a.resource.Kind, b.resource.Kind}, {a.resource.ID, b.resource.ID}, {a.key, b.key},
	} {
		if c := strings.Compare(pair[0], pair[1]); c != 0 {
			return c
		}
	}
	return 0
}

// newsOf takes from a decision what is told of it, and no more: outcomes are
// large, and news may wait.
func newsOf(d *policies.Decision, o *sweep.Outcome) *news {
	f := &d.Finding
	n := &news{
		about: AboutDrift, key: f.Fingerprint, cluster: f.Cluster, severity: d.Severity, mode: d.Mode, scope: o.Scope,
		owner: f.Owner, resource: f.Resource, status: f.Status, reason: cut(f.Reason), follows: follows(d),
		by: cut(o.ChangedBy[providers.ID{Kind: f.Resource.Kind, Name: f.Resource.ID}]),
	}
	for i := range f.Diffs {
		if i == diffsKept {
			n.more = len(f.Diffs) - i
			break
		}
		diff := &f.Diffs[i]
		one := difference{path: cut(diff.Path), sensitive: diff.Sensitive}
		if !diff.Sensitive {
			one.want, one.have = valueOf(diff.Want), valueOf(diff.Have)
		}
		n.diffs = append(n.diffs, one)
	}
	return n
}

func valueOf(v providers.Value) string {
	if v.IsAbsent() {
		return ""
	}
	return cut(v.Text())
}

// cut bounds what is kept of a hostile text; it is cleaned when it is shown.
func cut(s string) string {
	if len(s) > 1024 {
		s = s[:1024]
	}
	return strings.Clone(s)
}

// follows says what the decision comes to, in the policy's words.
func follows(d *policies.Decision) string {
	if d.Action != policies.Patch && d.Action != policies.Replace {
		return "reported only"
	}
	if len(d.Blocked) == 0 {
		return string(d.Action)
	}
	names := make([]string, len(d.Blocked))
	for i, b := range d.Blocked {
		names[i] = b.By
	}
	return string(d.Action) + " held back by " + strings.Join(names, ", ")
}

// phase gives the news of a Remediation, if its phase is one to tell of and was
// not told yet.
func (s *state) phase(r *v1alpha1.Remediation) *news {
	key := string(r.UID)
	if key == "" {
		key = r.Namespace + "/" + r.Name
	}
	before := s.phases[key]
	if len(s.phases) >= maxPhases && before == "" {
		clear(s.phases)
	}
	s.phases[key] = r.Status.Phase
	if !r.DeletionTimestamp.IsZero() {
		delete(s.phases, key)
		return nil
	}
	if ended := r.Status.EndedAt; before == r.Status.Phase || before == "" && !ended.IsZero() && ended.Time.Before(s.since) {
		return nil
	}
	switch r.Status.Phase {
	case v1alpha1.PhaseLatched, v1alpha1.PhaseFailed, v1alpha1.PhaseAwaitingApproval, v1alpha1.PhaseSucceeded:
	default:
		return nil
	}
	return &news{
		about: AboutRemediation, key: key, cluster: detector.ClusterRef{Namespace: r.Namespace, Name: r.Spec.ClusterName},
		severity: policies.Severity(r.Spec.Severity), mode: policies.ModeEnforce,
		owner:    providers.OwnerRef{Kind: r.Spec.Owner.Kind, Namespace: r.Namespace, Name: r.Spec.Owner.Name, UID: r.Spec.Owner.UID},
		resource: detector.ResourceRef{Provider: r.Spec.Scope.Provider, Kind: r.Spec.Resource.Kind, ID: r.Spec.Resource.ID, Name: r.Spec.Resource.Name},
		phase:    r.Status.Phase, action: string(r.Spec.Action), message: cut(r.Status.Message), reason: cut(r.Status.Reason),
		by: cut(r.Spec.ChangedBy), follows: r.Name,
	}
}
