package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// verdict is what becomes of one differing value, or of a finding without any.
// Equal verdicts share one decision.
type verdict struct {
	rule   *rule
	ignore *ignore
	// annotation says that the object itself ignores the value, and where.
	annotation string
	action     Action
	reason     string
}

// split makes the decisions about one finding, not gated yet.
func (r *run) split(f *detector.Finding) []*candidate {
	e := r.effectiveFor(f.Cluster)
	base := candidate{effective: e}
	if facts, ok := r.Clusters[f.Cluster]; ok {
		base.cluster = &facts
	}
	if facts, ok := r.Owners[f.Owner]; ok && f.Owner != (providers.OwnerRef{}) {
		base.owner = &facts
	}
	mode, modeFrom := base.mode(e.Mode)
	vars := varsOf(r, f, &base)
	var order []verdict // as first met
	diffs := map[verdict][]detector.Diff{}
	judge := func(d *detector.Diff) verdict {
		v := base.judge(e, f, d, vars, r)
		if _, seen := diffs[v]; !seen {
			order = append(order, v)
			diffs[v] = nil
		}
		return v
	}
	if len(f.Diffs) == 0 {
		judge(nil)
	}
	for i := range f.Diffs {
		v := judge(&f.Diffs[i])
		diffs[v] = append(diffs[v], f.Diffs[i])
	}
	out := make([]*candidate, 0, len(order))
	for _, v := range order {
		c := base
		c.Finding = *f
		c.Finding.Diffs = diffs[v]
		if len(order) > 1 {
			c.Finding.Fingerprint = detector.Fingerprint(&c.Finding)
		}
		c.fill(v, mode, modeFrom)
		c.history = r.History[HistoryKey(c.Finding.Owner, c.Finding.Fingerprint)]
		c.FirstSeen = c.history.FirstSeen
		c.place = placeKey(&c)
		out = append(out, &c)
	}
	return out
}

// fill turns a verdict into a decision.
func (c *candidate) fill(v verdict, mode Mode, modeFrom string) {
	c.Mode, c.Action, c.Reason, c.Severity = mode, v.action, v.reason, Medium
	c.rule, c.ruleAction = v.rule, v.action
	if v.rule != nil {
		c.Rule = RuleRef{ID: v.rule.ID, Policy: v.rule.policy, Position: v.rule.Position}
		c.ruleAction = Action(v.rule.Action)
		if v.rule.Severity != "" {
			c.Severity = Severity(v.rule.Severity)
		}
	}
	c.Attempts, c.Strategy = defaultAttempts, v1alpha1.ReplaceAuto
	if v.rule != nil && v.rule.Attempts != nil {
		c.Attempts = *v.rule.Attempts
	}
	if v.rule != nil && v.rule.Replace != nil {
		c.Strategy = cmp.Or(v.rule.Replace.Strategy, v1alpha1.ReplaceAuto)
	}
	switch {
	case v.ignore != nil:
		c.Ignored = &Ignored{By: v.ignore.Owner, Reason: v.ignore.Reason, ExpiresAt: v.ignore.expires, Position: v.ignore.Position}
		if c.Ignored.By == "" {
			c.Ignored.By = v.ignore.String()
		}
	case v.annotation != "":
		c.Ignored = &Ignored{By: v.annotation, Reason: v.reason}
	}
	if mode == ModeOff {
		c.Action, c.Reason = Ignore, "mode is off"+modeFrom
	}
	c.disruptive = c.Action == Replace || c.Action == Patch && slices.ContainsFunc(c.Finding.Diffs, func(d detector.Diff) bool {
		return d.Mutability == providers.InPlaceDisruptive
	})
	c.Disruptive = c.disruptive
}

// judge finds the ignore entry or the rule for one value; d is nil for a
// finding without differing values.
func (c *candidate) judge(e *Effective, f *detector.Finding, d *detector.Diff, vars *vars, r *run) verdict {
	vars.setDiff(d)
	win, broken := winner(e, f, d, vars)
	v := verdict{rule: win, action: Observe, reason: "no rule matches"}
	if by := c.ignoredByAnnotation(f, d); by != "" {
		v.action, v.annotation, v.reason = Ignore, by, "ignored by an annotation"
		return v
	}
	var ended *ignore
	for _, ig := range e.ignores {
		if !ig.silences(f) || !pathsMatch(ig.paths, d) {
			continue
		}
		if !ig.expires.IsZero() && !r.Now.Before(ig.expires) {
			ended = ig
			continue
		}
		if holds, err := vars.holds(ig.when); err != nil {
			broken = cmp.Or(broken, fmt.Sprintf("the ignore entry at %s cannot be evaluated: %s", ig.Position, firstLine(err.Error())))
		} else if holds {
			v.action, v.ignore, v.reason = Ignore, ig, ig.Reason
			return v
		}
	}
	if win != nil {
		v.action, v.reason = win.says(f)
	}
	if why := c.impossible(v.action, f, d); why != "" {
		v.action, v.reason = Observe, v.reason+", but "+why
	}
	if broken != "" && acts(v.action) {
		v.action, v.reason = Observe, v.reason+", but "+broken
	}
	if ended != nil {
		v.reason += fmt.Sprintf("; the ignore entry at %s ended on %s", ended.Position, ended.ExpiresAt)
	}
	return v
}

// winner gives the last rule that matches. A rule whose expression cannot be
// evaluated might have been the one: broken says so, and then nothing acts.
func winner(e *Effective, f *detector.Finding, d *detector.Diff, vars *vars) (win *rule, broken string) {
	for i := len(e.rules) - 1; i >= 0; i-- {
		r := e.rules[i]
		if !targetMatches(r.Target, f) || !pathsMatch(r.paths, d) {
			continue
		}
		holds, err := vars.holds(r.when)
		if err != nil {
			broken = cmp.Or(broken, fmt.Sprintf("rule %s at %s cannot be evaluated: %s", r.ID, r.Position, firstLine(err.Error())))
			continue
		}
		if holds {
			return r, broken
		}
	}
	return nil, broken
}

func targetMatches(t *v1alpha1.Target, f *detector.Finding) bool {
	if t == nil {
		return true
	}
	return (t.Provider == "" || t.Provider == f.Resource.Provider) &&
		(t.Kind == "" || t.Kind == f.Resource.Kind) &&
		optionalGlob(t.ID, f.Resource.ID) && optionalGlob(t.Name, f.Resource.Name) &&
		(len(t.Statuses) == 0 || slices.Contains(t.Statuses, v1alpha1.Status(f.Status)))
}

// says gives a rule's action for a finding that it matches. Like an ignore
// entry it hides what nobody could look at only where it names that status.
func (r *rule) says(f *detector.Finding) (Action, string) {
	a := Action(r.Action)
	reason := fmt.Sprintf("rule %s says %s", r.ID, a)
	if a == Ignore && notDrift(f.Status) && !namesStatus(r.Target, f.Status) {
		return Observe, fmt.Sprintf("%s, but hides %s only where its target's statuses name it", reason, f.Status)
	}
	return a, reason
}

// silences reports whether the entry is about the finding. An entry that names
// no statuses is about drift alone: that nobody could look is never hidden by
// the way, since a report would then pass for one in which all is in sync.
func (ig *ignore) silences(f *detector.Finding) bool {
	if !targetMatches(ig.Target, f) {
		return false
	}
	return f.Status == detector.Drifted || f.Status == detector.Missing || f.Status == detector.Unexpected || namesStatus(ig.Target, f.Status)
}

// namesStatus reports whether a target lists the status, rather than matching
// it for want of a list.
func namesStatus(t *v1alpha1.Target, s detector.Status) bool {
	return t != nil && slices.Contains(t.Statuses, v1alpha1.Status(s))
}

func pathsMatch(paths []pathPattern, d *detector.Diff) bool {
	return len(paths) == 0 || d != nil && matchesAny(paths, d.Path)
}

func notDrift(s detector.Status) bool {
	return s != detector.Drifted && s != detector.Missing && s != detector.Unexpected && s != detector.Foreign
}

// impossible says why an action cannot be done, or is never done, for a value;
// empty if it can.
func (c *candidate) impossible(a Action, f *detector.Finding, d *detector.Diff) string {
	if !acts(a) {
		return ""
	}
	switch f.Status {
	case detector.Drifted, detector.Missing:
	case detector.Unexpected:
		return "what belongs to no object is never removed automatically"
	case detector.Foreign:
		return "it belongs to somebody else"
	default:
		return fmt.Sprintf("nothing follows from a resource that is %s", f.Status)
	}
	if a == Replace {
		return c.cannotReplace(f)
	}
	return cannotPatch(f, d)
}

func cannotPatch(f *detector.Finding, d *detector.Diff) string {
	switch {
	case f.Status == detector.Drifted && d != nil && d.Foreign != "":
		return "it may be that of " + d.Foreign
	case f.Status == detector.Missing && !isClusterKind(f.Resource.Kind):
		return "a machine that is gone cannot be patched, only replaced"
	case f.Status == detector.Missing:
		return "what is gone cannot be patched: making it is the infrastructure provider's part"
	case f.Status == detector.Drifted && d == nil:
		return "the finding names no field to patch"
	case f.Status == detector.Drifted && d.Mutability == providers.ReadOnly:
		return fmt.Sprintf("there is nothing to write at %s", d.Path)
	case f.Status == detector.Drifted && !canPatch(d.Mutability):
		return fmt.Sprintf("the cloud cannot change %s in place", d.Path)
	}
	return ""
}

func (c *candidate) cannotReplace(f *detector.Finding) string {
	if isClusterKind(f.Resource.Kind) {
		return fmt.Sprintf("%s belongs to a cluster, and only machines are replaced", f.Resource.Kind)
	}
	if c.owner == nil || !c.owner.Replaceable.Known() {
		return "it is not known whether anything would make a new machine"
	}
	if !c.owner.Replaceable.True() {
		return "nothing would make a new machine: the Machine has no owner that replaces it"
	}
	for _, annotations := range c.annotationSources() {
		if value, set := annotations.values[AnnotationSkipReplace]; set && value != "false" {
			return fmt.Sprintf("%s on the %s keeps it", AnnotationSkipReplace, annotations.of)
		}
	}
	return ""
}

type annotationSource struct {
	of     string
	values map[string]string
}

func (c *candidate) annotationSources() []annotationSource {
	var out []annotationSource
	if c.cluster != nil {
		out = append(out, annotationSource{"Cluster", c.cluster.Annotations})
	}
	if c.owner != nil {
		out = append(out, annotationSource{"object", c.owner.Annotations})
	}
	return out
}

// mode lowers a mode by annotations, and says by which.
func (c *candidate) mode(m Mode) (lowered Mode, from string) {
	for _, a := range c.annotationSources() {
		value, set := a.values[AnnotationMode]
		if !set {
			continue
		}
		if asked := m.lowered(value); asked != m {
			m, from = asked, fmt.Sprintf(", by %s on the %s", AnnotationMode, a.of)
		}
	}
	return m, from
}

// Lowered gives the mode as far as the annotations of objects leave it: of a
// Cluster, and of an owner and its Machine. It is pure.
func (m Mode) Lowered(annotations ...map[string]string) Mode {
	for _, a := range annotations {
		if value, set := a[AnnotationMode]; set {
			m = m.lowered(value)
		}
	}
	return m
}

// lowered takes one annotation's word. One that is no mode counts as observe.
func (m Mode) lowered(value string) Mode {
	asked := Mode(value)
	if modeRank(asked) == modeRank(ModeObserve) {
		asked = ModeObserve
	}
	if modeRank(asked) < modeRank(m) {
		return asked
	}
	return m
}

// ignoredByAnnotation says which object's annotation ignores the value. What
// nobody could look at is no value.
func (c *candidate) ignoredByAnnotation(f *detector.Finding, d *detector.Diff) string {
	if notDrift(f.Status) {
		return ""
	}
	for _, a := range c.annotationSources() {
		for _, path := range strings.Split(a.values[AnnotationIgnore], ",") {
			path = strings.TrimSpace(path)
			if path == "*" || d != nil && strings.HasPrefix(path, "/") && newPathPattern(path).matches(providers.Segments(d.Path)) {
				return AnnotationIgnore + " on the " + a.of
			}
		}
	}
	return ""
}
