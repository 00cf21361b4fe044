package policies

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Decide says what to do about each finding. It is pure: equal inputs give
// equal decisions, in an order that does not depend on the order of findings.
//
// A finding is split first: each differing value goes to the ignore entry that
// silences it or the rule that decides it, and values of one rule make one
// decision. Then the gates are asked, in the order of [Gates]. Those that
// count (MinHealthy, ControlPlane, Budget) are asked in order of urgency, so
// that a free slot goes to the worst finding.
func Decide(in Input) []Decision {
	r := newRun(in)
	var all []*candidate
	for i := range in.Findings {
		all = append(all, r.split(&in.Findings[i])...)
	}
	r.countDrift(all)
	slices.SortFunc(all, byUrgency)
	for _, c := range all {
		r.gate(c)
	}
	slices.SortFunc(all, byPlace)
	out := make([]Decision, len(all))
	for i, c := range all {
		out[i] = c.Decision
	}
	return out
}

// Executable reports whether an executor may act on the decision: it changes
// something, its mode is enforce and nothing blocks it.
func (d *Decision) Executable() bool {
	return acts(d.Action) && d.Mode == ModeEnforce && len(d.Blocked) == 0 && d.Ignored == nil
}

func acts(a Action) bool { return a == Patch || a == Replace }

// candidate is one decision in the making, with what the gates look at.
type candidate struct {
	Decision
	rule      *rule // nil if none matched
	effective *Effective
	cluster   *ClusterFacts // nil if not known
	owner     *OwnerFacts   // nil if not known
	history   History
	// ruleAction is what the rule says, before it is made safer.
	ruleAction Action
	// disruptive actions stop or remove a machine.
	disruptive bool
	// place orders decisions for output.
	place string
}

// run is the state of one Decide.
type run struct {
	Input
	effective map[detector.ClusterRef]*Effective
	windows   map[windowKey]windowAnswer
	drift     map[driftKey]map[providers.OwnerRef]bool
	taken     []reservation
}

type windowKey struct {
	effective *Effective
	action    Action
}

type windowAnswer struct {
	Block
	blocked bool
}

// driftKey is a cluster, or one zone of it.
type driftKey struct {
	detector.ClusterRef
	zone string
}

// reservation is a slot that a decision of this run takes.
type reservation struct {
	InFlight
	mode       Mode
	disruptive bool
	ready      bool
}

func newRun(in Input) *run {
	if in.Policies == nil {
		in.Policies = Builtin()
	}
	return &run{Input: in,
		effective: map[detector.ClusterRef]*Effective{},
		windows:   map[windowKey]windowAnswer{},
		drift:     map[driftKey]map[providers.OwnerRef]bool{}}
}

func (r *run) effectiveFor(c detector.ClusterRef) *Effective {
	if e := r.effective[c]; e != nil {
		return e
	}
	e := r.Policies.For(c, r.Clusters[c].Labels)
	r.effective[c] = e
	return e
}

// countDrift counts the owners that drift and are not ignored.
func (r *run) countDrift(all []*candidate) {
	for _, c := range all {
		f := &c.Finding
		if c.Action == Ignore || f.Status != detector.Drifted && f.Status != detector.Missing {
			continue
		}
		keys := []driftKey{{ClusterRef: f.Cluster}}
		if f.Zone != "" {
			keys = append(keys, driftKey{f.Cluster, f.Zone})
		}
		for _, k := range keys {
			if r.drift[k] == nil {
				r.drift[k] = map[providers.OwnerRef]bool{}
			}
			r.drift[k][f.Owner] = true
		}
	}
}

// gate asks every gate about one candidate, and takes a slot for it if no gate
// is closed. Being in a mode that does not execute still takes one, so that a
// dry run shows what enforcing would do.
func (r *run) gate(c *candidate) {
	if c.Ignored != nil || c.Mode == ModeOff {
		return
	}
	if !acts(c.Action) {
		if acts(c.ruleAction) && notDrift(c.Finding.Status) {
			c.Blocked = append(c.Blocked, Block{By: GateNotDrift, Detail: "the resource is " + string(c.Finding.Status)})
		}
		return
	}
	for _, g := range gates {
		if b, blocked := g.check(r, c); blocked {
			b.By = g.name
			c.Blocked = append(c.Blocked, b)
		}
	}
	if len(c.Blocked) == 0 || len(c.Blocked) == 1 && c.Blocked[0].By == GateMode {
		r.reserve(c)
	}
}

// severityRank orders severities from the worst.
func severityRank(s Severity) int {
	if i := slices.Index([]Severity{Critical, High, Medium, Low, Info}, s); i >= 0 {
		return i
	}
	return 5
}

// byUrgency puts replacing before patching, so that nothing is patched that is
// to be replaced, then the worst, then the longest known.
func byUrgency(a, b *candidate) int {
	rank := func(x Action) int {
		return slices.Index([]Action{Replace, Patch, Observe, Ignore}, x)
	}
	return cmp.Or(
		cmp.Compare(rank(a.Action), rank(b.Action)),
		cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)),
		olderFirst(a.FirstSeen, b.FirstSeen),
		byPlace(a, b))
}

func olderFirst(a, b time.Time) int {
	switch {
	case a.Equal(b):
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	default:
		return a.Compare(b)
	}
}

// byPlace orders decisions for output.
func byPlace(a, b *candidate) int {
	return strings.Compare(a.place, b.place)
}

// placeKey names everything that tells two decisions apart, so that their
// order is a whole one.
func placeKey(c *candidate) string {
	f := &c.Finding
	path, element := "", ""
	if len(f.Diffs) > 0 {
		path, element = f.Diffs[0].Path, f.Diffs[0].Want.Text()+"\x00"+f.Diffs[0].Have.Text()
	}
	return strings.Join([]string{f.Cluster.Namespace, f.Cluster.Name, f.Owner.Kind, f.Owner.Namespace, f.Owner.Name, string(f.Owner.UID),
		f.Resource.Provider, f.Resource.Kind, f.Resource.ID, string(f.Status), path, element, c.Rule.ID, f.Fingerprint, f.Reason}, "\x00")
}
