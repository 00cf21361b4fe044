package policies

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// level is a policy's precedence.
type level int

// Levels, from the weakest.
const (
	levelBuiltin level = iota
	levelDefault
	levelSelected
	levelNamed
)

func (l level) String() string {
	return [...]string{"built-in", "default", "label-matched", "cluster-named"}[l]
}

// policy is one document, checked and compiled.
type policy struct {
	name  string
	level level
	spec  v1alpha1.DriftPolicySpec
	// doc knows where everything stands.
	doc *decoder
	Position

	selector labels.Selector // nil selects everything
	schedule *wallSchedule
	rules    []*rule
	ignores  []*ignore
	budgets  []*budget
	windows  []*window
}

// rule is one policy's words on a rule: perhaps only a part of it.
type rule struct {
	v1alpha1.Rule
	paths  []pathPattern
	when   *expression
	policy string
	Position
	// from has what sets each field that is set.
	from map[string]statement
}

// statement is a place in a policy.
type statement struct {
	policy string
	Position
}

type ignore struct {
	v1alpha1.Ignore
	paths   []pathPattern
	when    *expression
	expires time.Time
	policy  string
	Position
}

type budget struct {
	v1alpha1.Budget
	actions actionSet
	policy  string
	Position
}

// compilePolicy reads and checks one document.
func compilePolicy(src Source, root *yaml.Node, cat *catalog) (*policy, Problems) {
	d := newDecoder(src)
	var doc v1alpha1.DriftPolicy
	if ok := d.header(root); !ok {
		return nil, d.problems
	}
	d.decode(root, reflect.ValueOf(&doc).Elem(), "", 0)
	p := &policy{name: doc.Name, spec: doc.Spec, doc: d, Position: d.position(root), level: levelDefault}
	if m := doc.Spec.Match; m != nil {
		p.match(m)
	}
	p.compileSchedule()
	p.compileRules(cat)
	p.compileIgnores(cat)
	for i, b := range p.spec.Budgets {
		p.budgets = append(p.budgets, &budget{Budget: b, actions: newActionSet(b.Actions), policy: p.name,
			Position: d.pos(fmt.Sprintf("spec.budgets[%d]", i))})
	}
	p.compileWindows()
	p.checkSafety()
	p.checkShadowed()
	return p, d.problems
}

// header checks what kind of document it is, before anything else is said
// about it.
func (d *decoder) header(root *yaml.Node) bool {
	given := root
	if root = d.resolve(root); root == nil || root.Kind != yaml.MappingNode {
		d.problem(given, "WrongType", "the document is no mapping", "begin it with apiVersion: "+v1alpha1.Group+"/"+v1alpha1.Version)
		return false
	}
	probe := newDecoder(Source{Name: d.file})
	version, kind := v1alpha1.Group+"/"+v1alpha1.Version, v1alpha1.KindDriftPolicy
	ok := true
	for _, p := range probe.pairs(root, 0) {
		switch {
		case p.key.Value == "kind" && p.value.Value != kind:
			d.problem(p.value, "UnknownDocument", fmt.Sprintf("the document's kind is %q", p.value.Value), "only "+kind+" is read here")
			ok = false
		case p.key.Value == "apiVersion" && p.value.Value != version:
			d.problem(p.value, "UnknownDocument", fmt.Sprintf("the document's apiVersion is %q", p.value.Value), "write "+version)
			ok = false
		}
	}
	return ok
}

func (p *policy) at(path string) Position { return p.doc.pos("spec." + path) }

// report adds a problem, unless the value at that place is wrong already: a
// duration that cannot be read is not also too short.
func (p *policy) report(at Position, code, hint, format string, args ...any) {
	if slices.ContainsFunc(p.doc.problems, func(x Problem) bool { return x.Position == at && x.Code != "MissingKey" && !x.Warning }) {
		return
	}
	p.doc.problems = append(p.doc.problems, Problem{Position: at, Code: code, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// warn adds a problem that does not keep the policy from being used.
func (p *policy) warn(at Position, code, hint, message string) {
	p.doc.problems = append(p.doc.problems, Problem{Position: at, Warning: true, Code: code, Message: message, Hint: hint})
}

func (p *policy) match(m *v1alpha1.Match) {
	switch {
	case len(m.Clusters) > 0:
		p.level = levelNamed
	case m.ClusterSelector != nil:
		p.level = levelSelected
	}
	if m.ClusterSelector == nil {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(m.ClusterSelector)
	if err != nil {
		p.report(p.at("match.clusterSelector"), "BadSelector", "use the operators In, NotIn, Exists and DoesNotExist",
			"the selector cannot be used: %s", firstLine(err.Error()))
		return
	}
	p.selector = selector
	if selector.Empty() {
		p.level = levelDefault
	}
}

// matches reports whether the policy is for the cluster, and whether by a
// name without a star.
func (p *policy) matches(namespace, name string, set labels.Set) (matches, exact bool) {
	m := p.spec.Match
	if m == nil {
		return true, false
	}
	for _, c := range m.Exclude {
		if optionalGlob(c.Namespace, namespace) && glob(c.Name, name) {
			return false, false
		}
	}
	if p.selector != nil && !p.selector.Matches(set) {
		return false, false
	}
	if len(m.Clusters) == 0 {
		return true, false
	}
	for _, c := range m.Clusters {
		if optionalGlob(c.Namespace, namespace) && glob(c.Name, name) {
			matches = true
			exact = exact || !strings.Contains(c.Namespace+c.Name, "*")
		}
	}
	return matches, exact
}

func (p *policy) compileSchedule() {
	s := p.spec.Schedule
	if s == nil {
		return
	}
	if s.Cron != "" {
		p.schedule = p.wallSchedule("schedule", s.Cron, s.TimeZone)
	} else if s.TimeZone != "" {
		_, _ = p.zone("schedule.timeZone", s.TimeZone)
	}
	if s.StaleAfter != nil && s.StaleAfter.Duration == 0 {
		p.report(p.at("schedule.staleAfter"), "BadDuration", "give a duration above 0s", "staleAfter cannot be 0s")
	}
}

func (p *policy) wallSchedule(path, expr, zoneName string) *wallSchedule {
	zone, ok := p.zone(path+".timeZone", zoneName)
	if !ok {
		zone = time.UTC
	}
	s, err := newWallSchedule(expr, zone)
	if err != nil {
		p.report(p.at(path+".cron"), "BadCron", "write minute, hour, day, month and weekday, such as \"0 8 * * mon-fri\"",
			"%q is no schedule: %s", expr, firstLine(err.Error()))
		return nil
	}
	return s
}

// zone finds a time zone. Local is refused: a policy means the same wherever
// it is read.
func (p *policy) zone(path, name string) (*time.Location, bool) {
	if name == "" {
		return time.UTC, true
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		hint := "use an IANA name such as Europe/Berlin"
		if n := nearest(name, zoneNames); n != "" {
			hint = fmt.Sprintf("did you mean %q?", n)
		}
		p.report(p.at(path), "UnknownTimeZone", hint, "no time zone is called %q", name)
		return nil, false
	}
	return zone, true
}

func (p *policy) compileWindows() {
	for i, w := range p.spec.Windows {
		path := fmt.Sprintf("windows[%d]", i)
		if w.Duration.Duration <= 0 || w.Duration.Duration > maxWindow {
			if p.doc.at["spec."+path+".duration"] != nil {
				p.report(p.at(path+".duration"), "BadDuration", "give a duration above 0s and up to 744h",
					"a window cannot last %s", w.Duration.Duration)
			}
		}
		if w.Cron == "" {
			continue // said to be missing already
		}
		if s := p.wallSchedule(path, w.Cron, w.TimeZone); s != nil {
			p.windows = append(p.windows, &window{kind: w.Kind, cron: w.Cron, schedule: s, duration: w.Duration.Duration,
				actions: newActionSet(w.Actions), policy: p.name, Position: p.at(path)})
		}
	}
}

func (p *policy) checkSafety() {
	s := p.spec.Safety
	if s == nil {
		return
	}
	for name, value := range map[string]*v1alpha1.Percent{"maxDriftRatio": s.MaxDriftRatio, "maxUnhealthyZone": s.MaxUnhealthyZone} {
		if value == nil || *value == "" {
			continue
		}
		if _, err := parsePercent(string(*value)); err != nil {
			hint := percentageHint
			if whole := percentOf(string(*value)); whole != "" {
				hint = fmt.Sprintf("write it as %q", whole)
			}
			p.report(p.at("safety."+name), "BadPercentage", hint, "safety.%s cannot be %q: %s", name, *value, err)
		}
	}
	if s.MaxSnapshotAge != nil && s.MaxSnapshotAge.Duration == 0 {
		p.report(p.at("safety.maxSnapshotAge"), "BadDuration", "give a duration above 0s", "maxSnapshotAge cannot be 0s: nothing could ever act")
	}
}
