package policies

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
)

var ruleID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

func (p *policy) compileRules(cat *catalog) {
	seen := map[string]Position{}
	for i, r := range p.spec.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		c := &rule{Rule: r, policy: p.name, Position: p.at(path), from: map[string]statement{}}
		for _, field := range []string{"target", "paths", "when", "severity", "action", "grace", "approval", "attempts", "disruptive", "replace"} {
			if p.doc.at["spec."+path+"."+field] != nil {
				c.from[field] = statement{p.name, p.at(path + "." + field)}
			}
		}
		c.paths = p.compilePaths(path, r.Paths)
		c.when = p.compileWhen(path, r.When)
		if !p.checkID(path, r.ID, seen) {
			c.ID = "" // nothing further is said about it
		}
		if r.Attempts != nil && r.Attempts.Per != nil && r.Attempts.Per.Duration == 0 {
			p.report(p.at(path+".attempts.per"), "BadDuration", "give a duration above 0s, or leave it out", "attempts.per cannot be 0s")
		}
		p.checkTarget(cat, path, r.Target, c.paths)
		p.doc.problems = append(p.doc.problems, p.checkFields(cat, path, r.Target, c.when)...)
		p.rules = append(p.rules, c)
	}
}

func (p *policy) checkID(path, id string, seen map[string]Position) bool {
	if p.doc.at["spec."+path+".id"] == nil {
		return false // said to be missing already
	}
	at := p.at(path + ".id")
	if !ruleID.MatchString(id) {
		p.report(at, "BadValue", "use lower-case letters, digits, - and . (at most 63)", "a rule cannot have the id %q", id)
		return false
	}
	if first, twice := seen[id]; twice {
		p.report(at, "DuplicateRule", "give each rule of a policy an id of its own", "rule %q stands in line %d already", id, first.Line)
		return false
	}
	seen[id] = at
	return true
}

func (p *policy) compilePaths(path string, sources []string) []pathPattern {
	out := make([]pathPattern, 0, len(sources))
	for i, s := range sources {
		at := p.at(fmt.Sprintf("%s.paths[%d]", path, i))
		switch {
		case s == "":
			if p.doc.at[fmt.Sprintf("spec.%s.paths[%d]", path, i)] != nil {
				p.report(at, "BadPath", "leave paths out to mean every field", "a path cannot be empty")
			}
		case !strings.HasPrefix(s, "/"):
			p.report(at, "BadPath", fmt.Sprintf("write %q", "/"+strings.ReplaceAll(s, ".", "/")), "the path %q does not begin with /", s)
		case badEscape(s):
			p.report(at, "BadPath", "write ~1 for / and ~0 for ~ inside a segment", "the path %q has a ~ that is followed by neither 0 nor 1", s)
		}
		out = append(out, newPathPattern(s))
	}
	return out
}

// wellFormed reports whether the pattern is a JSON pointer.
func (p pathPattern) wellFormed() bool {
	return strings.HasPrefix(p.source, "/") && !badEscape(p.source)
}

func badEscape(s string) bool {
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return true
		}
	}
	return false
}

func (p *policy) compileWhen(path, source string) *expression {
	at := "spec." + path + ".when"
	if p.doc.at[at] == nil {
		return nil
	}
	if strings.TrimSpace(source) == "" {
		if n := p.doc.resolve(p.doc.at[at]); n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
			p.report(p.doc.pos(at), "BadExpression", "remove the key to mean always", "the expression is empty")
		}
		return nil
	}
	// A block's last line break is no part of what is written: what is missing
	// at the end is missing on the last line with text.
	e, errs := compileExpression(strings.TrimRight(source, " \n"))
	for _, x := range errs {
		p.report(p.doc.inside(at, x.line, x.column), "BadExpression", x.hint, "the expression cannot be used: %s", x.message)
	}
	return e
}

// inside gives the place of a line and column within a text value.
func (d *decoder) inside(path string, line, column int) Position {
	n := d.resolve(d.at[path])
	pos := d.position(n)
	switch {
	case n.Style == yaml.LiteralStyle || n.Style == yaml.FoldedStyle:
		if n.Style == yaml.FoldedStyle {
			pos.Line++ // folding has lost the lines
			return pos
		}
		// The first line with text sets the indentation of the block.
		for _, text := range d.lines[min(pos.Line, len(d.lines)):] {
			if trimmed := strings.TrimLeft(text, " "); trimmed != "" {
				column += len(text) - len(trimmed)
				break
			}
		}
		pos.Line, pos.Column = pos.Line+line, column+1
	case n.Style == yaml.DoubleQuotedStyle || n.Style == yaml.SingleQuotedStyle:
		if line == 1 {
			pos.Column += 1 + column
		}
	case line == 1:
		pos.Column += column
	}
	return pos
}

func (p *policy) checkTarget(cat *catalog, path string, t *v1alpha1.Target, paths []pathPattern) {
	var provider, kind string
	if t != nil {
		provider, kind = t.Provider, t.Kind
	}
	p.doc.problems = append(p.doc.problems, cat.checkTarget(provider, kind, paths, func(part string) Position {
		return p.at(path + "." + part)
	})...)
}

// checkFields warns of fields in a when that no resource of the target's kind
// has. It is a warning: a cloud may show more than is compared.
func (p *policy) checkFields(cat *catalog, path string, t *v1alpha1.Target, when *expression) Problems {
	if t == nil || when == nil {
		return nil
	}
	var out Problems
	provider, kind, _ := cat.likely(t.Provider, t.Kind, func(string) Position { return Position{} })
	for _, u := range when.fields {
		if message, hint, unknown := cat.unknownField(provider, kind, u); unknown {
			out = append(out, Problem{Position: p.doc.inside("spec."+path+".when", u.line, u.column), Warning: true,
				Code: "UnknownField", Message: message, Hint: hint})
		}
	}
	return out
}

func (p *policy) compileIgnores(cat *catalog) {
	for i, ig := range p.spec.Ignore {
		path := fmt.Sprintf("ignore[%d]", i)
		c := &ignore{Ignore: ig, policy: p.name, Position: p.at(path)}
		c.paths = p.compilePaths(path, ig.Paths)
		c.when = p.compileWhen(path, ig.When)
		if ig.ExpiresAt != "" {
			at, err := parseExpiry(string(ig.ExpiresAt))
			if err != nil {
				p.report(p.at(path+".expiresAt"), "BadTime", "write a date such as 2027-03-01 or a time such as 2027-03-01T12:00:00Z",
					"expiresAt cannot be %q", ig.ExpiresAt)
			}
			c.expires = at
		}
		if strings.TrimSpace(ig.Reason) == "" && p.doc.at["spec."+path+".reason"] != nil {
			p.report(p.at(path+".reason"), "BadValue", "say why the drift is accepted", "the reason is empty")
		}
		if len(ig.Paths) == 0 && ig.When == "" && (ig.Target == nil || describeTarget(ig.Target) == " of any kind") {
			p.report(p.at(path), "IgnoresAll", "name a target, paths or when", "this entry would ignore everything")
		}
		if s := hiddenStatus(ig.Target); s >= 0 {
			p.warn(p.at(fmt.Sprintf("%s.target.statuses[%d]", path, s)), "HidesNotChecked", hidesHint,
				fmt.Sprintf("this entry hides what is %s: a report that could not look then ends as if all were in sync", ig.Target.Statuses[s]))
		}
		p.checkTarget(cat, path, ig.Target, c.paths)
		p.doc.problems = append(p.doc.problems, p.checkFields(cat, path, ig.Target, c.when)...)
		p.ignores = append(p.ignores, c)
	}
}

const hidesHint = "leave the status out, or name an id or a name and expiresAt so that little is hidden and not for ever"

// hiddenStatus gives the place of the first status in a target that says that
// nobody could look, -1 if there is none.
func hiddenStatus(t *v1alpha1.Target) int {
	if t == nil {
		return -1
	}
	return slices.IndexFunc(t.Statuses, func(s v1alpha1.Status) bool { return notDrift(detector.Status(s)) })
}

func parseExpiry(s string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, s)
}

// checkShadowed finds rules that can never win: a later rule of the same
// policy matches whatever they match, without a condition of its own.
func (p *policy) checkShadowed() {
	for i, r := range p.rules {
		if r.ID == "" {
			continue
		}
		for _, later := range p.rules[i+1:] {
			if later.complete() && later.when == nil && later.When == "" && r.complete() && later.covers(r) {
				p.report(r.Position, "ShadowedRule", "put the more specific rule last, or give the later one a when",
					"rule %q can never win: rule %q in line %d matches everything it matches and comes later", r.ID, later.ID, later.Line)
				break
			}
		}
	}
}

// complete reports whether the rule says itself what it is about, so that its
// reach does not depend on another policy.
func (r *rule) complete() bool { return r.Target != nil || len(r.paths) > 0 }

func (r *rule) covers(other *rule) bool {
	return targetCovers(r.Target, other.Target) && pathsCover(r.paths, other.paths)
}

func targetCovers(t, other *v1alpha1.Target) bool {
	if t == nil {
		return true
	}
	if other == nil {
		other = &v1alpha1.Target{}
	}
	text := func(a, b string) bool { return a == "" || a == b }
	pattern := func(a, b string) bool { return a == "" || b != "" && globCovers(a, b) }
	return text(t.Provider, other.Provider) && text(t.Kind, other.Kind) && pattern(t.ID, other.ID) && pattern(t.Name, other.Name) &&
		(len(t.Statuses) == 0 || len(other.Statuses) > 0 && !slices.ContainsFunc(other.Statuses, func(s v1alpha1.Status) bool {
			return !slices.Contains(t.Statuses, s)
		}))
}

func pathsCover(paths, others []pathPattern) bool {
	if len(paths) == 0 {
		return true
	}
	if len(others) == 0 {
		return false
	}
	for _, o := range others {
		if !slices.ContainsFunc(paths, func(p pathPattern) bool { return p.covers(o) }) {
			return false
		}
	}
	return true
}
