package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
)

// writeMarkdown writes GitHub-flavoured Markdown for pull requests, issues and
// job summaries. Every text that Holdfast did not write itself stands in a
// code span or a code block, where nothing is markup, a mention or a link.
func writeMarkdown(w io.Writer, r *Report, _ Style) error {
	m := &markdown{view: newView(r)}
	m.head()
	for i := range m.clusters {
		m.cluster(&m.clusters[i])
	}
	if len(m.problems) > 0 {
		m.line("## Problems", "")
		m.problemList(m.problems)
	}
	m.comparison()
	m.line("---", "", "_"+lastLine+"_")
	_, err := io.WriteString(w, m.b.String())
	return err
}

type markdown struct {
	*view
	b strings.Builder
}

// code makes a code span (GFM 6.3): a fence longer than any run of backticks
// inside, and spaces that keep backticks at the ends apart from it.
func code(text string) string {
	text = cleaner{max: maxValue}.clean(text)
	if strings.TrimSpace(text) == "" {
		text = `""`
	}
	longest, run := 0, 0
	for _, c := range text {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// cellCode is a code span in a table, where a bar would end the cell even in
// code (GFM 4.10); it shows as an escape.
func cellCode(text string) string {
	return strings.ReplaceAll(code(text), "|", `\x7c`)
}

func (m *markdown) line(lines ...string) {
	for _, l := range lines {
		m.b.WriteString(l)
		m.b.WriteByte('\n')
	}
}

var badges = map[policies.Severity]string{
	policies.Critical: "🟥", policies.High: "🟧", policies.Medium: "🟨", policies.Low: "🟦", policies.Info: "⬜",
}

func (m *markdown) head() {
	s := &m.Summary
	m.line("# Holdfast drift report", "")
	title, lead, _ := m.verdict()
	m.line("**"+title+"** "+lead, "")
	m.line("| Critical | High | Medium | Low | Info | Drifted | Missing | Unexpected | Not checked | Unknown | Ignored | Foreign |",
		"|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	row := "|"
	for _, severity := range severities {
		row += fmt.Sprintf(" %d |", s.BySeverity[severity])
	}
	m.line(row+fmt.Sprintf(" %d | %d | %d | %d | %d | %d | %d |", s.Drifted, s.Missing, s.Unexpected, s.NotChecked, s.Unknown, s.Ignored, s.Foreign), "")
	m.line("| Cluster | Scope | Objects | Drifted | Missing | Unexpected | Not checked | Unknown | Coverage |",
		"|:--|:--|--:|--:|--:|--:|--:|--:|--:|")
	for i := range m.clusters {
		c := &m.clusters[i]
		m.line(fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d | %s |",
			cellCode(c.Namespace+"/"+c.Name), cellCode(firstOf(c.Scope, c.Provider, "-")), len(c.Owners),
			c.drifted, c.missing, c.unexpected, c.notChecked, c.unknown, percent(c.Coverage)))
	}
	m.line("", planWords(m.Report)+fmt.Sprintf(" Made on %s.", stamp(m.Generated)), "")
}

func (m *markdown) cluster(c *clusterView) {
	if len(c.groups)+len(c.unread)+len(c.problems) == 0 {
		return
	}
	m.line("## Cluster "+code(c.Namespace+"/"+c.Name), "")
	read := "the cloud was not read"
	if c.SnapshotTime != nil {
		read = fmt.Sprintf("read %s (%s ago)", stamp(*c.SnapshotTime), age(m.Generated, *c.SnapshotTime))
	}
	m.line(fmt.Sprintf("%s · %s · %s", plural(len(c.Owners), "object"), coverageText(c.Coverage), read), "")
	for i := range c.groups {
		m.group(c, &c.groups[i])
	}
	for _, u := range c.unread {
		m.line("### "+capital(statusWord(u.status)), "", code(u.reason), "")
		for _, kind := range kindsOf(u.findings) {
			m.line(fmt.Sprintf("- %d × %s: %s", len(kind.names), code(kind.kind), codes(kind.names)))
		}
		m.line("")
	}
	if len(c.problems) > 0 {
		m.line("### Problems", "")
		m.problemList(c.problems)
	}
}

// codes lists names as code, some of them.
func codes(names []string) string {
	shown := make([]string, len(names))
	for i, n := range names {
		shown[i] = code(n)
	}
	return some(shown, namesShown)
}

func (m *markdown) problemList(problems []Problem) {
	for i := range problems {
		m.line("- **" + code(problems[i].Reason) + "** " + code(firstOf(problems[i].Object, "-")) + " " + code(problems[i].Message))
	}
	m.line("")
}

func (m *markdown) group(c *clusterView, g *group) {
	if len(g.owners) == 1 {
		title := "### " + code(ownerText(&g.owners[0], c.Namespace))
		if g.orphaned() {
			title = "### Belonging to no object"
		}
		if g.pool != "" {
			title += " of " + code(g.pool)
		}
		m.line(title, "")
	} else {
		names := make([]string, len(g.owners))
		for i := range g.owners {
			names[i] = g.owners[i].Name
		}
		m.line(fmt.Sprintf("### %d machines of %s", len(g.owners), code(g.pool)), "", codes(names), "")
	}
	for i := range g.findings {
		m.finding(&g.findings[i])
	}
}

func (m *markdown) finding(f *groupFinding) {
	ids := make([]string, len(f.resources))
	for i := range f.resources {
		ids[i] = f.resourceText(&f.resources[i])
	}
	severity := severities[rank(f.Severity)]
	m.line(fmt.Sprintf("- %s **%s** %s %s: %s", badges[severity], severity, code(f.Resource.Kind), statusWord(f.Status), codes(ids)), "")
	if len(f.Diffs) > 0 {
		m.line("  ```diff")
		for i := range f.Diffs {
			m.diff(&f.Diffs[i])
		}
		m.line("  ```")
	}
	if reason := f.reasonText(); reason != "" && f.Status != detector.Drifted {
		m.line("  " + code(reason) + "  ")
	}
	if f.Ignored != nil {
		m.line("  " + code(ignoredText(f.Ignored)) + "  ")
	} else {
		m.line("  " + m.plan(f) + "  ")
	}
	origin := ""
	if rule := ruleText(f.Finding); rule != "" {
		origin = "Rule " + code(rule)
	}
	if since := sinceText(f.Finding, m.Generated); since != "" {
		origin = strings.TrimPrefix(origin+" · "+since, " · ")
	}
	m.line("  "+origin, "")
}

func (m *markdown) plan(f *groupFinding) string {
	text := "→ " + actionWords(f.Finding)
	for i := range f.Blocks {
		if i == 0 {
			text += ", held back by "
		} else {
			text += "; "
		}
		text += code(blockText(&f.Blocks[i]))
	}
	return text
}

// diff writes wanted and seen as the two sides of a diff block. Each line
// begins with a sign, so that no text can close the block.
func (m *markdown) diff(d *Diff) {
	value := cleaner{max: maxValue}
	path := value.clean(shownPath(d.Path))
	if d.Sensitive {
		m.line("  ! " + path + "  differs (sensitive, not shown)")
		return
	}
	if !d.Want.IsAbsent() || d.Type != detector.Added {
		m.line("  - " + path + "  " + value.clean(wantText(d)) + "  (wanted)")
	}
	if !d.Have.IsAbsent() || d.Type != detector.Removed {
		m.line("  + " + path + "  " + value.clean(valueText(d.Have)) + "  (seen)")
	}
	if d.Adopted {
		m.line("  ! " + path + "  adopted: the spec was rewritten to match the cloud")
	}
}

func (m *markdown) comparison() {
	c := m.Compared
	if c == nil {
		return
	}
	m.line("## Since the report of "+stamp(c.Previous), "")
	m.line(fmt.Sprintf("%d new, %d unchanged, %d resolved, %d unverified.", c.New, c.Unchanged, len(c.Resolved), len(c.Unverified)), "")
	for i := range c.Resolved {
		m.line("- ✅ resolved: " + code(c.Resolved[i].sentence()))
	}
	for i := range c.Unverified {
		m.line("- ❔ unverified: " + code(c.Unverified[i].sentence()))
	}
	m.line("")
}
