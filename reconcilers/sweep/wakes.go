package sweep

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// wakes gives, by owner, when to read again: when the first gate opens that
// opens by itself, soon where a grace counts reads, and in a minute where only
// what is under way elsewhere in the cluster holds it back: nobody tells of its
// end. Only what would act is waited for.
func (j *judgement) wakes(decisions []policies.Decision) map[providers.OwnerRef]time.Time {
	out := map[providers.OwnerRef]time.Time{}
	wake := func(owner providers.OwnerRef, at time.Time) {
		if soonest := j.at.Add(apart); at.Before(soonest) {
			at = soonest
		}
		if known, ok := out[owner]; !ok || at.Before(known) {
			out[owner] = at
		}
	}
	standBys := 0
	for i := range decisions {
		decision := &decisions[i]
		if decision.Mode != policies.ModeEnforce || decision.Ignored != nil || !j.read[decision.Finding.Owner] {
			continue
		}
		for _, b := range decision.Blocked {
			switch {
			case !b.Until.IsZero():
				wake(decision.Finding.Owner, b.Until)
			case b.By == policies.GateGrace && j.daemon.memory.mayFollow(decision.Finding.Fingerprint):
				wake(decision.Finding.Owner, j.at.Add(followUp))
			}
		}
		if standBys < maxStandBys && standsBy(decision) {
			standBys++
			wake(decision.Finding.Owner, j.at.Add(standBy))
		}
	}
	return out
}

// passing are the gates that open when machines are ready again, or when other
// actions or a rollout end. Objects' states are no triggers, so that nothing
// else would have them looked at before the next sweep.
var passing = []string{
	policies.GateBudget, policies.GateMinHealthy, policies.GateControlPlane, policies.GateRollout, policies.GateHalted, policies.GateZoneFreeze,
}

// standsBy reports whether passing gates are all that holds a decision back.
func standsBy(d *policies.Decision) bool {
	return (d.Action == policies.Patch || d.Action == policies.Replace) && len(d.Blocked) > 0 &&
		!slices.ContainsFunc(d.Blocked, func(b policies.Block) bool { return !slices.Contains(passing, b.By) })
}
