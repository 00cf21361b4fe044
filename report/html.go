package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/policies"
)

var (
	//go:embed page/report.html.tmpl
	pageTemplate string
	//go:embed page/report.css
	pageStyle string
	//go:embed page/report.js
	pageScript string

	page = template.Must(template.New("report").Funcs(template.FuncMap{"soft": softBreaks}).Parse(pageTemplate))
)

// contentPolicy lets the page's own style and script run, known by their
// hashes, and nothing else: no request leaves the page, and no markup that
// slipped in could act (https://www.w3.org/TR/CSP3/).
func contentPolicy() string {
	return strings.Join([]string{
		"default-src 'none'", "style-src '" + hashSource(pageStyle) + "'", "script-src '" + hashSource(pageScript) + "'",
		"base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
	}, "; ")
}

func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// breakable is how long a word must be to get places where it may break.
const breakable = 20

// softBreaks escapes a text and lets its long words break after / : and the
// comma, so that a browser breaks no ARN inside a number and no host:port
// inside the port.
func softBreaks(text string) template.HTML {
	var b strings.Builder
	for i, word := range strings.Split(text, " ") {
		if i > 0 {
			b.WriteByte(' ')
		}
		for len(word) > breakable {
			at := strings.IndexAny(word, "/:,") + 1
			if at == 0 || at == len(word) {
				break
			}
			b.WriteString(template.HTMLEscapeString(word[:at]) + "<wbr>")
			word = word[at:]
		}
		b.WriteString(template.HTMLEscapeString(word))
	}
	return template.HTML(b.String()) //nolint:gosec // every piece is escaped
}

// writeHTML writes one page that needs nothing else, reads without its script
// and is filtered with it. html/template escapes every text for where it
// stands; the cleaner before it keeps texts from disturbing each other.
func writeHTML(w io.Writer, r *Report, _ Style) error {
	return page.Execute(w, newPage(r))
}

// htmlPage is what the template shows. All texts are clean.
type htmlPage struct {
	Policy, Version, Title, Verdict, Lead, Mood, Made, Plan, Compared, LastLine string

	Style  template.CSS
	Script template.JS

	// Entries counts what the entries below stand for.
	Entries string

	BySeverity, ByStatus        []htmlTile
	Severities, Statuses, Kinds []string
	Clusters                    []htmlCluster
	Problems                    []htmlProblem
	Gone                        []htmlGone
}

type htmlTile struct {
	Class, Symbol, Label string
	Count                int
}

type htmlCluster struct {
	Anchor, Name, Scope, About, Quiet, QuietClass, Coverage, CoverWidth string

	Objects, Drifted, Missing, Unexpected, NotChecked, Unknown int

	Groups   []htmlGroup
	Unreads  []htmlUnread
	Problems []htmlProblem
}

type htmlUnread struct {
	Status, Cluster, Kinds, Count, Reason string
	// Stands is how many findings the entry stands for.
	Stands int

	Lists []htmlList
}

type htmlList struct {
	Label string
	Names []string
}

type htmlProblem struct{ Cluster, Reason, Message, Object string }

type htmlGone struct {
	Title string
	Lines []string
}

func newPage(r *Report) *htmlPage {
	v := newView(r)
	p := &htmlPage{
		Policy:     contentPolicy(),
		Version:    cleanWide.clean(r.Version),
		Made:       fmt.Sprintf("Made %s by Holdfast %s. %s.", stamp(r.Generated), cleanWide.clean(r.Version), capital(coverageText(v.coverage()))),
		Plan:       planWords(r),
		LastLine:   lastLine,
		Style:      template.CSS(pageStyle), //nolint:gosec // our own file
		Script:     template.JS(pageScript), //nolint:gosec // our own file
		BySeverity: severityTiles(&r.Summary),
		ByStatus:   statusTiles(&r.Summary),
		Entries:    entriesText(v),
		Severities: severityNames(),
		Problems:   htmlProblems(v.problems),
	}
	p.Verdict, p.Lead, p.Mood = r.verdict()
	p.Title = p.Verdict + " · Holdfast drift report"
	if r.Compared != nil {
		p.Compared = comparedWords(r.Compared)
		p.gone("Resolved since the report of "+stamp(r.Compared.Previous), r.Compared.Resolved)
		p.gone(unverifiedTitle, r.Compared.Unverified)
	}
	for i := range v.clusters {
		p.Clusters = append(p.Clusters, newHTMLCluster(v, &v.clusters[i], i))
	}
	p.choices()
	return p
}

func severityNames() []string {
	names := make([]string, len(severities))
	for i, s := range severities {
		names[i] = string(s)
	}
	return names
}

func severityTiles(s *Summary) []htmlTile {
	var out []htmlTile
	for _, severity := range severities {
		out = append(out, htmlTile{string(severity), unicodeSymbols.severity[severity], capital(string(severity)), s.BySeverity[severity]})
	}
	return out
}

func statusTiles(s *Summary) []htmlTile {
	return []htmlTile{
		{"info", "", "Drifted", s.Drifted}, {"info", "", "Missing", s.Missing}, {"info", "", "Unexpected", s.Unexpected},
		{"unread", "?", "Not checked", s.NotChecked}, {"unread", "?", "Unknown", s.Unknown},
	}
}

// entriesText counts the findings that the entries stand for, in the words of
// the headline, so that the numbers of both can be added up.
func entriesText(v *view) string {
	counts := map[string]int{}
	trouble := 0
	for i := range v.Findings {
		switch f := &v.Findings[i]; {
		case f.Trouble():
			trouble++
		case f.Ignored != nil:
			counts["ignored"]++
		default:
			counts[statusWord(f.Status)]++
		}
	}
	parts := []string{plural(trouble, "finding")}
	for _, word := range []string{"not checked", "unknown", "ignored", "foreign"} {
		if n := counts[word]; n > 0 {
			parts = append(parts, plain(n)+" "+word)
		}
	}
	if n := len(v.Problems); n > 0 {
		parts = append(parts, plural(n, "problem"))
	}
	return strings.Join(parts, " · ") + "; what drifted alike shares an entry"
}

func newHTMLCluster(v *view, c *clusterView, n int) htmlCluster {
	out := htmlCluster{
		Anchor:     fmt.Sprintf("cluster-%d", n+1),
		Name:       cleanValue.clean(c.Namespace + "/" + c.Name),
		Scope:      cleanValue.clean(firstOf(c.Scope, c.Provider)),
		Coverage:   percent(c.Coverage),
		CoverWidth: fmt.Sprintf("%.1f", 100*c.Coverage.Ratio),
		Objects:    len(c.Owners),
		Drifted:    c.drifted, Missing: c.missing, Unexpected: c.unexpected, NotChecked: c.notChecked, Unknown: c.unknown,
		Problems: htmlProblems(c.problems),
	}
	about := []string{cleanValue.clean(firstOf(c.Scope, c.Provider)), plural(len(c.Owners), "object"), coverageText(c.Coverage)}
	if c.SnapshotTime == nil {
		about = append(about, "the cloud was not read")
	} else {
		about = append(about, fmt.Sprintf("read %s (%s ago)", stamp(*c.SnapshotTime), age(v.Generated, *c.SnapshotTime)))
	}
	out.About = strings.Join(about, " · ")
	switch text, inSync := c.quiet(); {
	case text == "":
	case inSync:
		out.Quiet, out.QuietClass = "✓ "+capital(text)+".", "ok"
	case c.uncompared():
		out.Quiet, out.QuietClass = "? "+capital(text)+".", "unread"
	default:
		out.Quiet, out.QuietClass = capital(text)+".", "info"
	}
	for i := range c.groups {
		out.Groups = append(out.Groups, newHTMLGroup(v, c, &c.groups[i], out.Name))
	}
	for i := range c.unread {
		out.Unreads = append(out.Unreads, newHTMLUnread(&c.unread[i], out.Name))
	}
	return out
}

func newHTMLUnread(u *unread, cluster string) htmlUnread {
	out := htmlUnread{
		Status: statusWord(u.status), Cluster: cluster,
		Reason: cleanText.clean(u.reason), Count: plural(len(u.findings), "resource"), Stands: len(u.findings),
	}
	var kinds []string
	for _, k := range kindsOf(u.findings) {
		list := htmlList{Label: cleanValue.clean(k.count())}
		for _, name := range k.names {
			list.Names = append(list.Names, cleanValue.clean(name))
		}
		kinds = append(kinds, cleanValue.clean(k.kind))
		out.Lists = append(out.Lists, list)
	}
	out.Kinds = strings.Join(kinds, "\n")
	return out
}

func htmlProblems(problems []Problem) []htmlProblem {
	out := make([]htmlProblem, 0, len(problems))
	for _, p := range problems {
		cluster := ""
		if p.Cluster != nil {
			cluster = cleanValue.clean(p.Cluster.String())
		}
		out = append(out, htmlProblem{cluster, cleanText.clean(p.Reason), cleanText.clean(p.Message), cleanValue.clean(p.Object)})
	}
	return out
}

func (p *htmlPage) gone(title string, findings []Finding) {
	if len(findings) == 0 {
		return
	}
	g := htmlGone{Title: title}
	for i := range findings {
		g.Lines = append(g.Lines, findings[i].sentence())
	}
	p.Gone = append(p.Gone, g)
}

// choices lists what the filters offer: what there is.
func (p *htmlPage) choices() {
	add := func(to *[]string, words ...string) {
		for _, w := range words {
			if w != "" && !slices.Contains(*to, w) {
				*to = append(*to, w)
			}
		}
	}
	for _, c := range p.Clusters {
		for _, g := range c.Groups {
			for _, f := range g.Findings {
				add(&p.Statuses, f.Status)
				add(&p.Kinds, f.Kind)
			}
		}
		for _, u := range c.Unreads {
			add(&p.Statuses, u.Status)
			add(&p.Kinds, strings.Split(u.Kinds, "\n")...)
		}
		if len(c.Problems) > 0 {
			add(&p.Statuses, "problem")
		}
	}
	if len(p.Problems) > 0 {
		add(&p.Statuses, "problem")
	}
	slices.Sort(p.Statuses)
	slices.Sort(p.Kinds)
}

// severityClass is the class of a finding's colours.
func severityClass(f *Finding) string {
	if !f.Trouble() {
		return "silent"
	}
	return string(severities[rank(f.Severity)])
}

// planClass is the class of an action's colour; none where a gate holds it
// back.
func planClass(f *Finding) string {
	if len(f.BlockedBy) == 0 && (f.Action == policies.Patch || f.Action == policies.Replace) {
		return string(f.Action)
	}
	return ""
}
