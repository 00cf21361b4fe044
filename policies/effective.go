package policies

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
)

// Origin says which policy a value comes from, and where it stands.
type Origin struct {
	Policy string `json:"policy"`
	Level  string `json:"level"`
	Position
}

// Effective is what the policies of a set come to for one cluster. It is
// immutable and safe for concurrent use.
type Effective struct {
	Cluster detector.ClusterRef
	// Mode is how far the policies go, before annotations.
	Mode Mode
	// Schedule says when to read; its fields are never nil or empty.
	Schedule v1alpha1.Schedule

	rules    []*rule // the weakest first: the last that matches decides
	ignores  []*ignore
	budgets  []*budget
	windows  []*window
	safety   safety
	schedule *wallSchedule
	origins  map[string]Origin
	applied  []Origin
}

// safety is v1alpha1.Safety with every value set.
type safety struct {
	maxDriftRatio    int // per cent
	maxUnhealthyZone int // per cent
	maxSnapshotAge   time.Duration
	minHealthy       []minimum // all must hold
	controlPlane     v1alpha1.ControlPlane
}

// minimum is one policy's minHealthy. A number and a percentage cannot be
// compared without a pool, so the values of all policies are kept.
type minimum struct {
	intstr.IntOrString
	level level
	Origin
}

// NextRead gives the first time after t at which the schedule reads, without
// jitter.
func (e *Effective) NextRead(t time.Time) time.Time { return e.schedule.after(t) }

// MaxDriftRatio is the share of owners that may drift at once, from 0 to 1.
func (e *Effective) MaxDriftRatio() float64 { return float64(e.safety.maxDriftRatio) / 100 }

// MaxSnapshotAge is how old the read may be that an action rests on.
func (e *Effective) MaxSnapshotAge() time.Duration { return e.safety.maxSnapshotAge }

// CountsEverywhere reports whether a budget counts all clusters together, so
// that a decision on one needs to know what is in flight in the others.
func (e *Effective) CountsEverywhere() bool {
	return slices.ContainsFunc(e.budgets, func(b *budget) bool { return b.Scope == v1alpha1.ScopeAll })
}

// For gives what holds for a cluster with these labels.
func (s *Set) For(cluster detector.ClusterRef, clusterLabels map[string]string) *Effective {
	if s == nil {
		s = Builtin()
	}
	e := &Effective{Cluster: cluster, origins: map[string]Origin{}}
	ordered := s.matching(cluster, clusterLabels)
	for _, p := range ordered {
		e.applied = append(e.applied, p.origin(p.Position))
		e.ignores = append(e.ignores, p.ignores...)
		e.windows = append(e.windows, p.windows...)
	}
	e.mergeMode(ordered)
	if s.held != nil && modeRank(e.Mode) > modeRank(ModeObserve) {
		e.Mode = ModeObserve
		e.origins["mode"] = Origin{Policy: s.held.File, Level: "not in effect", Position: *s.held}
	}
	e.mergeSchedule(ordered)
	e.mergeRules(ordered)
	e.mergeBudgets(ordered)
	e.mergeSafety(ordered)
	return e
}

func (p *policy) origin(at Position) Origin {
	return Origin{Policy: p.name, Level: p.level.String(), Position: at}
}

// matching gives the policies for the cluster, the weakest first: by level,
// then a name with a star before one without, then by the policy's name, so
// that the order does not depend on the order of files.
func (s *Set) matching(cluster detector.ClusterRef, clusterLabels map[string]string) []*policy {
	type candidate struct {
		*policy
		exact bool
	}
	var found []candidate
	for _, p := range s.policies {
		if ok, exact := p.matches(cluster.Namespace, cluster.Name, labels.Set(clusterLabels)); ok {
			found = append(found, candidate{p, exact})
		}
	}
	rank := func(exact bool) int {
		if exact {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(rank(a.exact), rank(b.exact)), cmp.Compare(a.name, b.name))
	})
	out := make([]*policy, len(found))
	for i, c := range found {
		out[i] = c.policy
	}
	return out
}

// mergeMode takes the mode of the most specific level that has one; within a
// level the safest.
func (e *Effective) mergeMode(ordered []*policy) {
	e.Mode = ModeObserve
	at := level(-1)
	for _, p := range ordered {
		mode := Mode(p.spec.Mode)
		if mode == "" || p.level == at && modeRank(mode) >= modeRank(e.Mode) {
			continue
		}
		e.Mode, at = mode, p.level
		e.origins["mode"] = p.origin(p.at("mode"))
	}
}

// modeRank orders modes from the safest. Text that is no mode is as safe as
// observe.
func modeRank(m Mode) int {
	switch m {
	case ModeOff:
		return 0
	case ModeDryRun:
		return 2
	case ModeEnforce:
		return 3
	default:
		return 1
	}
}

func (e *Effective) mergeSchedule(ordered []*policy) {
	for _, p := range ordered {
		s := p.spec.Schedule
		if s == nil {
			continue
		}
		if s.Cron != "" { // the zone belongs to the cron expression beside it
			e.Schedule.Cron, e.Schedule.TimeZone, e.schedule = s.Cron, cmp.Or(s.TimeZone, "UTC"), p.schedule
			e.origins["schedule.cron"] = p.origin(p.at("schedule.cron"))
			e.origins["schedule.timeZone"] = p.origin(p.at("schedule.timeZone"))
		}
		if s.Jitter != nil {
			e.Schedule.Jitter = s.Jitter
			e.origins["schedule.jitter"] = p.origin(p.at("schedule.jitter"))
		}
		if s.StaleAfter != nil {
			e.Schedule.StaleAfter = s.StaleAfter
			e.origins["schedule.staleAfter"] = p.origin(p.at("schedule.staleAfter"))
		}
	}
}

// mergeBudgets takes every budget of the user's policies, and of the built-in
// ones those for a scope and action that no policy bounds.
func (e *Effective) mergeBudgets(ordered []*policy) {
	bounded := map[v1alpha1.BudgetScope]actionSet{}
	for _, p := range ordered {
		if p.level == levelBuiltin {
			continue
		}
		for _, b := range p.budgets {
			e.budgets = append(e.budgets, b)
			for _, a := range []Action{Patch, Replace} {
				if b.actions.has(a) {
					if bounded[b.Scope] == nil {
						bounded[b.Scope] = actionSet{}
					}
					bounded[b.Scope][a] = true
				}
			}
		}
	}
	var builtin []*budget
	for _, p := range ordered {
		if p.level != levelBuiltin {
			continue
		}
		for _, b := range p.budgets {
			left := actionSet{}
			for _, a := range []Action{Patch, Replace} {
				if b.actions.has(a) && !bounded[b.Scope][a] {
					left[a] = true
				}
			}
			if len(left) > 0 {
				builtin = append(builtin, &budget{Budget: b.Budget, actions: left, policy: b.policy, Position: b.Position})
			}
		}
	}
	e.budgets = append(builtin, e.budgets...)
}

// mergeSafety takes the stricter of the user's policies, and the built-in
// value where none of them has one.
func (e *Effective) mergeSafety(ordered []*policy) {
	// The strictest values hold until a policy says otherwise; the built-in
	// policies always do.
	e.safety = safety{controlPlane: v1alpha1.ControlPlaneObserve}
	set := map[string]level{}
	for _, p := range ordered {
		if p.spec.Safety == nil {
			continue
		}
		// take says whether the value counts: it is the first, it replaces a
		// built-in one, or it is stricter.
		take := func(name string, stricter bool) bool {
			old, have := set[name]
			if have && !stricter && (old != levelBuiltin || p.level == levelBuiltin) {
				return false
			}
			set[name] = p.level
			e.origins["safety."+name] = p.origin(p.at("safety." + name))
			return true
		}
		e.tightenSafety(p, take)
	}
}

// tightenSafety takes over those of the policy's values that count.
func (e *Effective) tightenSafety(p *policy, take func(name string, stricter bool) bool) {
	s := p.spec.Safety
	if s.MaxDriftRatio != nil {
		if x, _ := parsePercent(string(*s.MaxDriftRatio)); take("maxDriftRatio", x < e.safety.maxDriftRatio) {
			e.safety.maxDriftRatio = x
		}
	}
	if s.MaxUnhealthyZone != nil {
		if x, _ := parsePercent(string(*s.MaxUnhealthyZone)); take("maxUnhealthyZone", x < e.safety.maxUnhealthyZone) {
			e.safety.maxUnhealthyZone = x
		}
	}
	if s.MaxSnapshotAge != nil && take("maxSnapshotAge", s.MaxSnapshotAge.Duration < e.safety.maxSnapshotAge) {
		e.safety.maxSnapshotAge = s.MaxSnapshotAge.Duration
	}
	if s.ControlPlane != "" && take("controlPlane", s.ControlPlane == v1alpha1.ControlPlaneObserve) {
		e.safety.controlPlane = s.ControlPlane
	}
	if s.MinHealthy != nil {
		e.safety.minHealthy = slices.DeleteFunc(e.safety.minHealthy, func(m minimum) bool {
			return m.level == levelBuiltin && p.level != levelBuiltin
		})
		e.safety.minHealthy = append(e.safety.minHealthy,
			minimum{IntOrString: *s.MinHealthy, level: p.level, Origin: p.origin(p.at("safety.minHealthy"))})
	}
}

func isClusterKind(kind string) bool { return slices.Contains(clusterKinds, kind) }
