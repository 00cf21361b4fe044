package status

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// job is one object whose conditions differ from what they should be.
type job struct {
	object     client.Object
	conditions []condition // none: ours are removed
	// speaks is true for the one object of an owner that events are about, and
	// about is the other.
	speaks bool
	about  client.Object
	// redrifted says that the object drifts in another way than before.
	redrifted bool
	// by names who is said to have changed what drifts, for the event: the
	// condition must not change with it.
	by string
}

// planner compares one outcome with what its objects carry.
type planner struct {
	*sweep.Outcome
	memory *memory

	decisions map[providers.OwnerRef][]*policies.Decision
	orphans   map[detector.ClusterRef][]*policies.Decision
	// judged says where an owner was compared; the snapshot is nil where its
	// scope could not be read.
	judged map[providers.OwnerRef]*providers.Snapshot
	// scopes of each cluster in this outcome.
	scopes map[detector.ClusterRef][]string
	jobs   []job
}

// plan gives what is to be written. It changes the memory and does no I/O.
func plan(o *sweep.Outcome, m *memory) []job {
	if o.Inventory == nil || o.Result == nil {
		return nil
	}
	p := &planner{Outcome: o, memory: m,
		decisions: map[providers.OwnerRef][]*policies.Decision{},
		orphans:   map[detector.ClusterRef][]*policies.Decision{},
		judged:    map[providers.OwnerRef]*providers.Snapshot{},
		scopes:    map[detector.ClusterRef][]string{}}
	p.index()
	for _, c := range o.Inventory.Clusters {
		p.cluster(c)
	}
	m.forget(o.Inventory, o.Gone)
	return p.jobs
}

func (p *planner) index() {
	for i := range p.Result.Decisions {
		d := &p.Result.Decisions[i]
		if owner := d.Finding.Owner; d.Finding.Orphan() {
			p.orphans[d.Finding.Cluster] = append(p.orphans[d.Finding.Cluster], d)
		} else {
			p.decisions[owner] = append(p.decisions[owner], d)
		}
	}
	snapshots := map[providers.Scope]*providers.Snapshot{}
	for i := range p.Result.Readings {
		snapshots[p.Result.Readings[i].Scope] = p.Result.Readings[i].Snapshot
	}
	for i := range p.Result.Clusters {
		c := &p.Result.Clusters[i]
		p.scopes[c.Ref] = append(p.scopes[c.Ref], c.Scope.String())
		var seen *providers.Snapshot
		if !c.TakenAt.IsZero() {
			seen = snapshots[c.Scope]
			if seen == nil { // read, and not handed on
				seen = &providers.Snapshot{TakenAt: c.TakenAt}
			}
		}
		for _, o := range c.Owners {
			if !p.Targeted() || p.Owners[o.Ref] {
				p.judged[o.Ref] = seen
			}
		}
	}
}

func (p *planner) cluster(c *inventory.Cluster) {
	ref := detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}
	effective := p.Policies.For(ref, c.Object.Labels)
	mode := effective.Mode.Lowered(c.Object.Annotations)
	sum := summary{}
	for _, o := range c.Owners {
		p.owner(ref, o, mode, p.patience(effective), &sum)
	}
	for i := range c.Uncompared {
		p.uncompared(&c.Uncompared[i], mode, &sum)
	}
	if mode == policies.ModeOff {
		p.remove(c.Object)
		return
	}
	p.summarise(c, ref, &sum)
}

// patience is how long a verdict outlasts reads that fail. The daemon says by
// itself when it is over.
func (p *planner) patience(e *policies.Effective) time.Duration {
	if p.Cause == sweep.CauseStale {
		return -1
	}
	return e.Schedule.StaleAfter.Duration
}

// owner plans for an infrastructure object and its Machine.
func (p *planner) owner(ref detector.ClusterRef, o *inventory.Owner, mode policies.Mode, staleAfter time.Duration, sum *summary) {
	objects := []client.Object{o.Infra}
	annotations := []map[string]string{o.Infra.GetAnnotations()}
	if o.Machine != nil {
		objects = append(objects, o.Machine)
		annotations = append(annotations, o.Machine.Annotations)
	}
	if mode.Lowered(annotations...) == policies.ModeOff {
		for _, object := range objects {
			p.remove(object)
		}
		return
	}
	have := carried(o.Infra)[typeDriftDetected]
	seen, judged := p.judged[o.Ref]
	if !judged {
		was := condition{status: p.memory.status(o.Ref.UID, have)}
		if have != nil && have.status == was.status {
			was = *have
		}
		sum.add(o.Ref, was)
		return
	}
	v := judge(p.decisions[o.Ref], func(f *detector.Finding) bool { return unread(seen, f) })
	redrifted, held := p.memory.judged(ref, o.Ref.UID, &v, have, p.At, staleAfter)
	if held {
		sum.add(o.Ref, *have)
		return
	}
	sum.add(o.Ref, v.drifted())
	by := p.changedBy(p.decisions[o.Ref])
	p.want(job{object: o.Infra, conditions: []condition{v.drifted()}, speaks: o.Machine == nil, redrifted: redrifted, by: by})
	if o.Machine != nil {
		p.want(job{object: o.Machine, speaks: true, about: o.Infra, redrifted: redrifted, by: by, conditions: []condition{
			v.drifted(), v.infrastructureDrifted(o.Machine, carried(o.Machine)[typeInfrastructureDrifted])}})
	}
}

// changedBy names those who are said to have changed what drifts, in order.
func (p *planner) changedBy(decisions []*policies.Decision) string {
	var names []string
	for _, d := range decisions {
		by := p.ChangedBy[providers.ID{Kind: d.Finding.Resource.Kind, Name: d.Finding.Resource.ID}]
		if by != "" && isDrift(d.Finding.Status) {
			names = append(names, cleanName.Clean(by))
		}
	}
	slices.Sort(names)
	return joined(slices.Compact(names), maxNames, ", ")
}

// uncompared plans for a Machine that is known and not compared. Its
// infrastructure object may be of a kind that nobody knows.
func (p *planner) uncompared(u *inventory.Uncompared, mode policies.Mode, sum *summary) {
	m := u.Machine
	if m == nil {
		return
	}
	if mode.Lowered(m.Annotations) == policies.ModeOff {
		p.remove(m)
		return
	}
	ds := p.decisions[u.Ref]
	if len(ds) == 0 {
		return
	}
	v := judge(ds, func(*detector.Finding) bool { return false })
	sum.add(u.Ref, v.drifted())
	p.want(job{object: m, speaks: true, conditions: []condition{v.drifted(), v.infrastructureDrifted(m, nil)}})
}

// unread reports whether a failed read is the cause of a finding.
func unread(seen *providers.Snapshot, f *detector.Finding) bool {
	if seen == nil {
		return true
	}
	if f.Status != detector.NotChecked {
		return false
	}
	for part, err := range seen.Coverage {
		if err != nil && (part == f.Resource.Kind || strings.HasPrefix(part, f.Resource.Kind+"/")) {
			return true
		}
	}
	return false
}

// want plans conditions, unless the object carries them already or is on its
// way out.
func (p *planner) want(j job) {
	if !j.object.GetDeletionTimestamp().IsZero() {
		return
	}
	have := carried(j.object)
	for i := range j.conditions {
		j.conditions[i].generation = j.object.GetGeneration()
	}
	if len(differing(j.conditions, have)) > 0 {
		p.jobs = append(p.jobs, j)
	}
}

// remove plans that an object carries none of ours.
func (p *planner) remove(o client.Object) {
	p.memory.drop(o.GetUID())
	if len(carried(o)) > 0 && o.GetDeletionTimestamp().IsZero() {
		p.jobs = append(p.jobs, job{object: o})
	}
}

// summary gathers what a Cluster's objects came to.
type summary struct {
	drifting, unknown []string
	// causes are the reasons of those that are unknown, and example is what the
	// first of them by name says.
	causes         []string
	first, example string
}

func (s *summary) add(ref providers.OwnerRef, c condition) {
	name := ref.Kind + " " + cleanName.Clean(ref.Name)
	switch c.status {
	case metav1.ConditionTrue:
		s.drifting = append(s.drifting, name)
	case metav1.ConditionUnknown:
		s.unknown = append(s.unknown, name)
		if !slices.Contains(s.causes, c.reason) {
			s.causes = append(s.causes, c.reason)
		}
		if s.first == "" || name < s.first {
			s.first, s.example = name, c.message
		}
	}
}

// gap is the reason and the message of what could not be compared. A cause that
// all have in common, such as credentials that are refused, is the Cluster's too.
func (s *summary) gap() (reason, message string) {
	message = list(slices.Clone(s.unknown)) + " could not be compared"
	if len(s.causes) == 1 && slices.Contains(scopeReasons, s.causes[0]) {
		return s.causes[0], message + ": " + bounded(s.example, maxCause)
	}
	return ReasonUnknown, message
}

// summarise plans the Cluster's own condition: the sum of its objects' and of
// what belongs to none of them, which has no other object to stand on.
func (p *planner) summarise(c *inventory.Cluster, ref detector.ClusterRef, sum *summary) {
	if len(p.scopes[ref]) == 0 {
		return
	}
	slices.Sort(p.scopes[ref])
	key := strings.Join(p.scopes[ref], " ")
	if !p.Targeted() {
		p.memory.setOrphans(ref, key, judge(p.orphans[ref], func(*detector.Finding) bool { return false }))
	}
	orphans, known := p.memory.orphansOf(ref)
	if !known {
		return // only a sweep tells
	}
	v := verdict{status: metav1.ConditionFalse, reason: ReasonInSync}
	var parts []string
	if len(sum.drifting) > 0 {
		parts = append(parts, list(slices.Clone(sum.drifting))+" drift")
	}
	for _, key := range slices.Sorted(maps.Keys(orphans)) {
		if o := orphans[key]; o.status == metav1.ConditionTrue {
			parts = append(parts, o.message)
			v.drift += o.drift
		}
	}
	switch {
	case len(sum.drifting) > 0:
		v.status, v.reason = metav1.ConditionTrue, ReasonDrifted
	case len(parts) > 0:
		v.status, v.reason = metav1.ConditionTrue, ReasonUnexpected
	case len(sum.unknown) > 0:
		reason, message := sum.gap()
		v.status, v.reason = metav1.ConditionUnknown, reason
		parts = append(parts, message)
	}
	v.message = bounded(strings.Join(parts, "; "), maxMessage)
	redrifted := p.memory.drifts(ref, orphansUID(c.Object.UID), v.drift)
	// Of its owners' drift their own events tell.
	speaks := v.drift != "" || redrifted && v.status == metav1.ConditionFalse
	p.want(job{object: c.Object, conditions: []condition{v.drifted()}, speaks: speaks, redrifted: redrifted})
}
