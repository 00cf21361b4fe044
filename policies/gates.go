package policies

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Names of the gates, as they stand in Block.By.
const (
	GateMode              = "Mode"
	GateNotDrift          = "NotDrift"
	GateNotKnown          = "NotKnown"
	GatePaused            = "Paused"
	GateDeleting          = "Deleting"
	GateMoving            = "Moving"
	GateExternallyManaged = "ExternallyManaged"
	GateRollout           = "Rollout"
	GateOldRevision       = "OldRevision"
	GateSkipRemediation   = "SkipRemediation"
	GateDisruptive        = "Disruptive"
	GateGrace             = "Grace"
	GateAmbiguous         = "Ambiguous"
	GateStaleSnapshot     = "StaleSnapshot"
	GateMassDrift         = "MassDrift"
	GateZoneFreeze        = "ZoneFreeze"
	GateMinHealthy        = "MinHealthy"
	GateControlPlane      = "ControlPlane"
	GateHalted            = "Halted"
	GateBudget            = "Budget"
	GateWindow            = "Window"
	GateApproval          = "Approval"
	GateHeld              = "Held"
	GateAttempts          = "Attempts"
)

// gate says whether it holds a candidate back, and why.
type gate struct {
	name string
	// doc is the gate's line in the reference.
	doc   string
	check func(*run, *candidate) (Block, bool)
}

// gates in the order in which they are asked and listed: first what makes the
// question idle, then who else is at work, then whether the finding is to be
// believed, then how much at once, then when, then whether again.
var gates = []gate{
	{GateMode, "The mode is not `enforce`: nothing is executed. In `dryRun` everything else is decided as if it were.", modeGate},
	{GateNotDrift, "The resource was not compared, or its state could not be told. What was not seen clearly is no reason to act.", notDriftGate},
	{GateNotKnown, "Nothing is known about the owner or its cluster.", notKnownGate},
	{GatePaused, "The owner, its Machine or its Cluster is paused.",
		ownerGate(func(o *OwnerFacts) Fact { return o.Paused }, "it is not known whether it is paused")},
	{GateDeleting, "The owner, its Machine or its Cluster is being deleted.",
		ownerGate(func(o *OwnerFacts) Fact { return o.Deleting }, "it is not known whether it is being deleted")},
	// C63: while clusterctl moves objects, both sides could act.
	{GateMoving, "`clusterctl move` is moving the objects.",
		ownerGate(func(o *OwnerFacts) Fact { return o.Moving }, "it is not known whether it is being moved")},
	// C62: whoever manages the infrastructure also repairs it.
	{GateExternallyManaged, "The owner carries `cluster.x-k8s.io/managed-by`: somebody else manages it.",
		ownerGate(func(o *OwnerFacts) Fact { return o.ExternallyManaged }, "it is not known who manages it")},
	// C55: a rollout replaces machines itself.
	{GateRollout, "The machine's pool is rolling out.",
		ownerGate(func(o *OwnerFacts) Fact { return o.Rollout }, "it is not known whether its pool is rolling out")},
	{GateOldRevision, "The machine is of an older revision than its pool wants: the rollout will replace it.",
		ownerGate(func(o *OwnerFacts) Fact { return o.OldRevision }, "it is not known whether it is of the current revision")},
	{GateSkipRemediation, "The Machine carries `cluster.x-k8s.io/skip-remediation`.",
		ownerGate(func(o *OwnerFacts) Fact { return o.SkipRemediation }, "it is not known whether it is kept from remediation")},
	{GateDisruptive, "The patch stops the machine, and the rule does not say `disruptive: allowed`.", disruptiveGate},
	{GateGrace, "The drift has not lasted for the rule's `grace` yet.", graceGate},
	{GateAmbiguous, "Two candidates claim the same resource or the same owner.",
		ownerGate(func(o *OwnerFacts) Fact { return o.Ambiguous }, "it is not known whether it is the only candidate")},
	{GateStaleSnapshot, "The cloud was read longer ago than `safety.maxSnapshotAge`, or at a time that is not known.", snapshotGate},
	{GateMassDrift, "More than `safety.maxDriftRatio` of the cluster's owners, or of a zone's machines, drift at once, or the breaker is open from before. One alone is never too many.", massDriftGate},
	{GateZoneFreeze, "More than `safety.maxUnhealthyZone` of the zone's machines are unready. One alone is never too many.", zoneGate},
	{GateMinHealthy, "Fewer than `safety.minHealthy` of the pool's other machines are ready. Asked for what disrupts the machine.", minHealthyGate},
	{GateControlPlane, "`safety.controlPlane` is `observe`; or another machine of the control plane is not ready or in flight, or it has fewer than three.", controlPlaneGate},
	// C53: what went wrong with one machine would go wrong with the next.
	{GateHalted, "The last replacement in the same pool failed.", haltedGate},
	{GateBudget, "A budget is used up, or another action on the same owner is in flight.", budgetGate},
	{GateWindow, "A `deny` window is open, or no `allow` window is.", windowsGate},
	{GateApproval, "The rule wants an approval, and nobody has approved this drift.", approvalGate},
	{GateHeld, "A person has denied it, the last attempt ended a short while ago, or the cloud did not let it begin.", heldGate},
	{GateAttempts, "It was tried as often as the rule's `attempts` allow (3 in 24h if it says nothing), or the last repair did not help.", attemptsGate},
}

// Gates lists the gates' names in the order in which they are asked.
func Gates() []string {
	out := make([]string, len(gates))
	for i, g := range gates {
		out[i] = g.name
	}
	return out
}

// ownerGates are those that are about an owner, whatever drifts of it.
var ownerGates = []string{GateMode, GateNotKnown, GatePaused, GateDeleting, GateMoving, GateExternallyManaged, GateSkipRemediation}

// Holding gives the first gate that keeps an owner from being touched at all,
// whether or not anything of it drifts. Findings and history are not looked at.
// It is pure.
func Holding(in Input, cluster detector.ClusterRef, owner providers.OwnerRef) (Block, bool) {
	r := newRun(in)
	c := &candidate{effective: r.effectiveFor(cluster)}
	c.Finding.Cluster, c.Finding.Owner = cluster, owner
	if facts, ok := in.Clusters[cluster]; ok {
		c.cluster = &facts
	}
	if facts, ok := in.Owners[owner]; ok {
		c.owner = &facts
	}
	c.Mode, _ = c.mode(c.effective.Mode)
	for _, g := range gates {
		if !slices.Contains(ownerGates, g.name) {
			continue
		}
		if b, closed := g.check(r, c); closed {
			b.By = g.name
			return b, true
		}
	}
	return Block{}, false
}

func blocked(format string, args ...any) (Block, bool) {
	return Block{Detail: fmt.Sprintf(format, args...)}, true
}

var open = Block{}

func modeGate(_ *run, c *candidate) (Block, bool) {
	switch c.Mode {
	case ModeEnforce:
		return open, false
	case ModeDryRun:
		return blocked("mode is dryRun: decided in full, not executed")
	default:
		_, from := c.mode(c.effective.Mode)
		if from == "" {
			from = fmt.Sprintf(", by the policy at %s", c.effective.origins["mode"].Position)
		}
		return blocked("mode is %s%s", c.Mode, from)
	}
}

func notDriftGate(_ *run, c *candidate) (Block, bool) {
	if s := c.Finding.Status; s != detector.Drifted && s != detector.Missing {
		return blocked("the resource is %s", s)
	}
	return open, false
}

func notKnownGate(_ *run, c *candidate) (Block, bool) {
	switch {
	case c.cluster == nil:
		return blocked("nothing is known about cluster %s", c.Finding.Cluster)
	case c.owner == nil:
		return blocked("nothing is known about %s", c.Finding.Owner)
	}
	return open, false
}

// ownerGate is closed while the fact is true or not known. That the owner's
// facts are missing altogether is NotKnown's to say.
func ownerGate(fact func(*OwnerFacts) Fact, notKnown string) func(*run, *candidate) (Block, bool) {
	return func(_ *run, c *candidate) (Block, bool) {
		if c.owner == nil {
			return open, false
		}
		switch f := fact(c.owner); {
		case f.True():
			return Block{Detail: f.Why}, true
		case !f.Known():
			return Block{Detail: notKnown}, true
		}
		return open, false
	}
}

// disruptiveGate is about patches: whoever writes replace knows that a machine
// goes.
func disruptiveGate(_ *run, c *candidate) (Block, bool) {
	if c.Action == Patch && c.disruptive && (c.rule == nil || c.rule.Disruptive != v1alpha1.DisruptionAllowed) {
		return blocked("it stops the machine, and rule %s does not say disruptive: allowed", c.Rule.ID)
	}
	return open, false
}

func graceGate(r *run, c *candidate) (Block, bool) {
	if c.rule == nil || c.rule.Grace == nil {
		return open, false
	}
	g := c.rule.Grace
	seen := max(c.history.Observations, 1)
	if g.Observations != nil && seen < int(*g.Observations) {
		return blocked("seen in %d of %d reads", seen, *g.Observations)
	}
	if g.For == nil || g.For.Duration == 0 {
		return open, false
	}
	since := c.history.FirstSeen
	if since.IsZero() {
		if _, known := r.History[HistoryKey(c.Finding.Owner, c.Finding.Fingerprint)]; known || r.History == nil {
			return blocked("since when it drifts is not known; it must have lasted %s", g.For.Duration)
		}
		since = r.Now
	}
	if until := since.Add(g.For.Duration); until.After(r.Now) {
		return Block{Detail: fmt.Sprintf("drifts for %s, must have lasted %s", max(r.Now.Sub(since), 0).Round(time.Second), g.For.Duration), Until: until}, true
	}
	return open, false
}

// clockSkew is how far a snapshot's time may lie ahead.
const clockSkew = time.Minute

func snapshotGate(r *run, c *candidate) (Block, bool) {
	limit := c.effective.safety.maxSnapshotAge
	switch age := r.Now.Sub(c.Finding.SeenAt); {
	case c.Finding.SeenAt.IsZero():
		return blocked("it is not known when the cloud was read")
	case age < -clockSkew:
		return blocked("the cloud was read %s in the future", (-age).Round(time.Second))
	case age > limit:
		return blocked("the cloud was read %s ago, more than %s", age.Round(time.Second), limit)
	}
	return open, false
}

func massDriftGate(r *run, c *candidate) (Block, bool) {
	if c.cluster == nil {
		return open, false
	}
	f := &c.Finding
	limit := c.effective.safety.maxDriftRatio
	switch drifting := len(r.drift[driftKey{ClusterRef: f.Cluster}]); {
	case c.cluster.Breaker.True():
		return Block{Detail: c.cluster.Breaker.Why}, true
	case !c.cluster.Breaker.Known():
		return blocked("it is not known whether the breaker is open")
	case c.cluster.Owners <= 0:
		return blocked("it is not known how many owners the cluster has")
	case drifting > 1 && drifting*100 > limit*c.cluster.Owners:
		return blocked("%d of %d owners of the cluster drift at once, more than %d%%", drifting, c.cluster.Owners, limit)
	}
	if f.Zone == "" {
		return open, false
	}
	if b := c.cluster.Zones[f.Zone].Breaker; b.True() {
		return Block{Detail: b.Why}, true
	}
	machines := c.cluster.Zones[f.Zone].Machines // a zone not known is ZoneFreeze's to say
	if drifting := len(r.drift[driftKey{f.Cluster, f.Zone}]); drifting > 1 && machines > 0 && drifting*100 > limit*machines {
		return blocked("%d of %d machines of zone %s drift at once, more than %d%%", drifting, machines, f.Zone, limit)
	}
	return open, false
}

func zoneGate(_ *run, c *candidate) (Block, bool) {
	if c.cluster == nil || c.Finding.Zone == "" {
		return open, false
	}
	limit := c.effective.safety.maxUnhealthyZone
	switch z, known := c.cluster.Zones[c.Finding.Zone]; {
	case !known || z.Machines <= 0:
		return blocked("it is not known how many machines zone %s has", c.Finding.Zone)
	case z.Unhealthy > 1 && z.Unhealthy*100 > limit*z.Machines:
		return blocked("%d of %d machines of zone %s are unready, more than %d%%", z.Unhealthy, z.Machines, c.Finding.Zone, limit)
	}
	return open, false
}

func controlPlaneGate(r *run, c *candidate) (Block, bool) {
	if !c.Finding.ControlPlane || c.cluster == nil {
		return open, false
	}
	switch {
	case c.effective.safety.controlPlane != v1alpha1.ControlPlaneEnforce:
		return blocked("safety.controlPlane is observe, by the policy at %s", c.effective.origins["safety.controlPlane"].Position)
	case !c.disruptive:
		return open, false
	case !c.cluster.ControlPlane.Known():
		return blocked("it is not known whether the control plane is healthy")
	case !c.cluster.ControlPlane.True() && (c.owner == nil || !c.owner.Spare.True()):
		return blocked("the control plane is not healthy enough to lose a machine")
	case r.InFlight == nil:
		return blocked("it is not known what is in flight")
	}
	for _, other := range r.inFlightFor(c) {
		if other.ControlPlane && other.Cluster == c.Finding.Cluster && other.disruptive && other.Owner != c.Finding.Owner {
			return blocked("%s of the control plane is in flight, begun by %s", other.Owner.Name, other.By)
		}
	}
	return open, false
}

func windowsGate(r *run, c *candidate) (Block, bool) {
	key := windowKey{c.effective, c.Action}
	answer, done := r.windows[key]
	if !done {
		answer.Block, answer.blocked = windowGate(c.effective.windows, c.Action, r.Now)
		r.windows[key] = answer
	}
	return answer.Block, answer.blocked
}

func approvalGate(_ *run, c *candidate) (Block, bool) {
	if c.rule != nil && c.rule.Approval == v1alpha1.ApprovalRequired && c.history.ApprovedBy == "" {
		return blocked("nobody has approved it")
	}
	return open, false
}

// heldGate stands before what counts, so that what is held takes no slot.
func heldGate(r *run, c *candidate) (Block, bool) {
	h := &c.history
	if h.Held == "" || !h.HeldUntil.IsZero() && !h.HeldUntil.After(r.Now) {
		return open, false
	}
	return Block{Detail: h.Held, Until: h.HeldUntil}, true
}

// defaultAttempts hold for a rule that says nothing about them.
var defaultAttempts = v1alpha1.Attempts{Max: 3, Per: &metav1.Duration{Duration: 24 * time.Hour}}

func attemptsGate(r *run, c *candidate) (Block, bool) {
	limit := c.Attempts
	switch {
	case r.History == nil:
		return blocked("it is not known how often it was tried")
	case c.history.Latched != "":
		return blocked("not tried again: %s", c.history.Latched)
	}
	var counted []time.Time
	for _, t := range c.history.Attempts {
		if limit.Per == nil || r.Now.Sub(t) < limit.Per.Duration {
			counted = append(counted, t)
		}
	}
	if len(counted) < int(limit.Max) {
		return open, false
	}
	if limit.Per == nil {
		return blocked("tried %d times, at most %d", len(counted), limit.Max)
	}
	b, _ := blocked("tried %d times in %s, at most %d", len(counted), limit.Per.Duration, limit.Max)
	b.Until = reopens(counted, int(limit.Max), limit.Per.Duration)
	return b, true
}
