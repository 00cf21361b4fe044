package report

import (
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
)

// comparison says what became of a previous report's findings.
func (t *table) comparison() {
	c := t.Compared
	if c == nil {
		return
	}
	t.gone("Resolved since "+stamp(c.Previous), t.sym.check, green, c.Resolved)
	t.gone(unverifiedTitle, t.sym.query, yellow, c.Unverified)
}

// unverifiedTitle stands over what --compare could not tell about.
const unverifiedTitle = "Unverified: not looked for this time, so perhaps still there"

func (t *table) gone(title, mark string, ink ink, findings []Finding) {
	if len(findings) == 0 {
		return
	}
	t.blank("")
	t.say(span{title, bold})
	root := &node{}
	for i := range findings {
		f := &findings[i]
		where := f.Cluster.String()
		if owner := ownerText(&f.Owner, f.Cluster.Namespace); f.Owner.Name != "" {
			where += " " + owner
		}
		root.add(&node{}).line(2, span{mark + " ", ink}, span{t.value.clean(where), plainInk},
			span{"  " + t.clean(f.Resource.Kind+" "+resourceText(&f.Resource)), dim},
			span{"  " + statusWord(f.Status) + " " + t.clean(strings.Join(pathsOf(f), " ")), plainInk})
	}
	t.tree("", root.kids)
}

func pathsOf(f *Finding) []string {
	var out []string
	for i := range f.Diffs {
		if p := shownPath(f.Diffs[i].Path); len(out) == 0 || out[len(out)-1] != p {
			out = append(out, p)
		}
	}
	return out
}

func (t *table) summary() {
	s := &t.Summary
	dot := " " + t.sym.dot + " "
	t.blank("")
	t.say(span{"Summary", bold})
	if len(t.clusters) > 1 {
		t.overview()
	}
	t.draw("  ", "  ", line{[]span{{strings.Join([]string{
		plural(len(t.clusters), "cluster"), plural(s.Owners, "object"), plural(s.Checked, "resource") + " compared",
		coverageText(t.coverage()),
	}, dot), plainInk}}, 2})
	t.draw("  ", "  ", line{t.severityCounts(), 2})
	counts := []string{
		plain(s.Drifted) + " drifted", plain(s.Missing) + " missing", plain(s.Unexpected) + " unexpected",
		plain(s.NotChecked) + " not checked", plain(s.Unknown) + " unknown",
	}
	if s.Ignored+s.Foreign > 0 {
		hidden := fmt.Sprintf("%d ignored, %d foreign", s.Ignored, s.Foreign)
		if !t.showsIgnored() {
			hidden += " (--show-ignored lists them)"
		}
		counts = append(counts, hidden)
	}
	t.draw("  ", "  ", line{[]span{{strings.Join(counts, dot), plainInk}}, 2})
	t.draw("  ", "  ", line{[]span{{planWords(t.Report), plainInk}}, 2})
	if c := t.Compared; c != nil {
		t.draw("  ", "  ", line{[]span{{comparedWords(c), plainInk}}, 2})
	}
}

// planWords says what would be done if nothing held it back.
func planWords(r *Report) string {
	s := &r.Summary
	if s.WouldPatch+s.WouldReplace == 0 {
		return "No change would be made."
	}
	created := 0
	for i := range r.Findings {
		f := &r.Findings[i]
		created += truth(f.Trouble() && f.Status == detector.Missing && f.Action == policies.Patch)
	}
	text := fmt.Sprintf("%d would be patched, ", s.WouldPatch-created)
	if created > 0 {
		text += fmt.Sprintf("%d would be created again, ", created)
	}
	text += fmt.Sprintf("%d would be answered by replacing the machine", s.WouldReplace)
	switch all := s.WouldPatch + s.WouldReplace; {
	case s.Blocked == all:
		text += "; all held back"
	case s.Blocked > 0:
		text += fmt.Sprintf("; %d of these %d held back", s.Blocked, all)
	}
	return text + "."
}

func comparedWords(c *Comparison) string {
	text := fmt.Sprintf("Since the report of %s: %d new, %d unchanged, %d resolved",
		stamp(c.Previous), c.New, c.Unchanged, len(c.Resolved))
	if n := len(c.Unverified); n > 0 {
		text += fmt.Sprintf(", %d unverified", n)
	}
	return text + "."
}

func (t *table) severityCounts() []span {
	var spans []span
	for _, severity := range severities {
		if len(spans) > 0 {
			spans = append(spans, span{"  ", plainInk})
		}
		n := t.Summary.BySeverity[severity]
		ink := severityInks[severity]
		if n == 0 {
			ink = dim
		}
		spans = append(spans, span{fmt.Sprintf("%s %d %s", t.sym.severity[severity], n, severity), ink})
	}
	return spans
}

// coverage of all clusters together.
func (v *view) coverage() Coverage {
	checked, notChecked := 0, 0
	for i := range v.clusters {
		checked += v.clusters[i].Coverage.Checked
		notChecked += v.clusters[i].Coverage.NotChecked
	}
	return coverageOf(checked, notChecked)
}

// showsIgnored says whether the report lists what was silenced.
func (v *view) showsIgnored() bool {
	for i := range v.Findings {
		if !listed(&v.Findings[i]) {
			return true
		}
	}
	return false
}

// overviewColumns are the counts of the overview, by the names of the statuses.
var overviewColumns = []string{"DRIFTED", "MISSING", "UNEXPECTED", "NOT CHECKED", "UNKNOWN", "COVERAGE"}

// overview is a line for each cluster. The name comes last, since only it may
// be long; without room beside the counts, it has a line of its own.
func (t *table) overview() {
	const roomForName = 20
	narrow, gap := false, "  "
	counts := func(columns ...string) string {
		text := ""
		for i, name := range overviewColumns {
			text += fmt.Sprintf("%*s", len(name), columns[i]) + gap
		}
		return text
	}
	if narrow = len(counts(overviewColumns...))+roomForName > t.width; narrow {
		gap = " "
	}
	row := func(ink ink, text, name string) {
		if narrow {
			t.draw("  ", "  ", line{[]span{{name, ink}}, 2})
			t.draw("  ", "  ", line{[]span{{strings.TrimRight(text, " "), ink}}, 0})
			return
		}
		t.draw("  ", "  ", line{[]span{{text, ink}, {name, ink}}, len(text)})
	}
	row(dim, counts(overviewColumns...), "CLUSTER")
	for i := range t.clusters {
		c := &t.clusters[i]
		ink := plainInk
		if worst := c.worst(); worst != "" && rank(worst) <= rank(policies.High) {
			ink = severityInks[worst]
		}
		row(ink, counts(plain(c.drifted), plain(c.missing), plain(c.unexpected), plain(c.notChecked), plain(c.unknown),
			percent(c.Coverage)), t.value.clean(c.Namespace+"/"+c.Name))
	}
}

// worst severity of the cluster's trouble; empty for none.
func (c *clusterView) worst() policies.Severity {
	var worst policies.Severity
	for i := range c.groups {
		for _, f := range c.groups[i].findings {
			if f.Trouble() && (worst == "" || rank(f.Severity) < rank(worst)) {
				worst = severities[rank(f.Severity)]
			}
		}
	}
	return worst
}
