package policies

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// Explained is one effective value with where it comes from.
type Explained struct {
	// Name is a path such as rules.aws-instance-type.action.
	Name  string `json:"name"`
	Value string `json:"value"`
	From  Origin `json:"from"`
}

// Applied lists the policies that hold for the cluster, the weakest first.
func (e *Effective) Applied() []Origin { return e.applied }

// Explain gives every effective value in a fixed order: mode, schedule,
// safety, budgets, windows, ignore entries, and rules as they are asked, the
// weakest first.
func (e *Effective) Explain() []Explained {
	x := &explainer{e: e}
	x.add("mode", string(e.Mode))
	x.add("schedule.cron", e.Schedule.Cron)
	x.add("schedule.timeZone", e.Schedule.TimeZone)
	x.add("schedule.jitter", duration(e.Schedule.Jitter))
	x.add("schedule.staleAfter", duration(e.Schedule.StaleAfter))
	s := &e.safety
	x.add("safety.maxDriftRatio", fmt.Sprintf("%d%%", s.maxDriftRatio))
	x.add("safety.maxUnhealthyZone", fmt.Sprintf("%d%%", s.maxUnhealthyZone))
	x.add("safety.maxSnapshotAge", duration(&metav1.Duration{Duration: s.maxSnapshotAge}))
	for _, m := range s.minHealthy {
		x.out = append(x.out, Explained{"safety.minHealthy", m.String(), m.Origin})
	}
	x.add("safety.controlPlane", string(s.controlPlane))
	for i, b := range e.budgets {
		x.out = append(x.out, Explained{fmt.Sprintf("budgets[%d]", i),
			fmt.Sprintf("at most %s in flight in %s (%s)", b.Max.String(), scopeWords[b.Scope], b.actions), e.originOf(b.policy, b.Position)})
	}
	for i, w := range e.windows {
		x.out = append(x.out, Explained{fmt.Sprintf("windows[%d]", i),
			fmt.Sprintf("%s %s from %q in %s for %s", w.kind, w.actions, w.cron, w.schedule.zone, duration(&metav1.Duration{Duration: w.duration})), e.originOf(w.policy, w.Position)})
	}
	for i, ig := range e.ignores {
		value := cmp.Or(strings.Join(ig.Paths, ", "), "every field")
		value += describeTarget(ig.Target) + ": " + ig.Reason
		if ig.ExpiresAt != "" {
			value += fmt.Sprintf(" (until %s)", ig.ExpiresAt)
		}
		x.out = append(x.out, Explained{fmt.Sprintf("ignore[%d]", i), value, e.originOf(ig.policy, ig.Position)})
	}
	for _, r := range e.rules {
		x.rule(r)
	}
	return x.out
}

var scopeWords = map[v1alpha1.BudgetScope]string{v1alpha1.ScopePool: "each pool", v1alpha1.ScopeZone: "each zone",
	v1alpha1.ScopeCluster: "the cluster", v1alpha1.ScopeAll: "all clusters together"}

type explainer struct {
	e   *Effective
	out []Explained
}

func (x *explainer) add(name, value string) {
	from, known := x.e.origins[name]
	if !known && value == "" {
		return
	}
	x.out = append(x.out, Explained{name, value, from})
}

func (x *explainer) rule(r *rule) {
	name := func(field string) string { return "rules." + r.ID + "." + field }
	set := func(field, value string) {
		if s, ok := r.from[field]; ok {
			x.out = append(x.out, Explained{name(field), value, x.e.originOf(s.policy, s.Position)})
		}
	}
	set("target", strings.TrimPrefix(describeTarget(r.Target), " of "))
	set("paths", strings.Join(r.Paths, ", "))
	set("when", r.When)
	set("severity", string(r.Severity))
	set("action", string(r.Action))
	if r.Grace != nil {
		var parts []string
		if r.Grace.For != nil {
			parts = append(parts, "for "+duration(r.Grace.For))
		}
		if r.Grace.Observations != nil {
			parts = append(parts, fmt.Sprintf("%d observations", *r.Grace.Observations))
		}
		set("grace", strings.Join(parts, ", "))
	}
	set("approval", string(r.Approval))
	if r.Attempts != nil {
		value := fmt.Sprintf("%d", r.Attempts.Max)
		if r.Attempts.Per != nil {
			value += " per " + duration(r.Attempts.Per)
		}
		set("attempts", value)
	}
	set("disruptive", string(r.Disruptive))
	if r.Replace != nil {
		set("replace", string(r.Replace.Strategy))
	}
}

// originOf finds the level of a policy that applies.
func (e *Effective) originOf(policy string, at Position) Origin {
	for _, o := range e.applied {
		if o.Policy == policy {
			o.Position = at
			return o
		}
	}
	return Origin{Policy: policy, Position: at}
}

func describeTarget(t *v1alpha1.Target) string {
	if t == nil {
		return ""
	}
	var parts []string
	for _, s := range t.Statuses {
		parts = append(parts, string(s))
	}
	words := []string{strings.Join(parts, " or "), t.Provider, cmp.Or(t.Kind, "any kind")}
	if t.ID != "" {
		words = append(words, "id "+t.ID)
	}
	if t.Name != "" {
		words = append(words, "name "+t.Name)
	}
	return " of " + strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// duration writes a duration without the zeros that Go adds: 24h, 1h30m.
func duration(d *metav1.Duration) string {
	if d == nil {
		return ""
	}
	s := d.Duration.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// String names the actions of a set.
func (s actionSet) String() string {
	switch {
	case s.has(Patch) && s.has(Replace):
		return "patch and replace"
	case s.has(Patch):
		return "patch"
	default:
		return "replace"
	}
}
