package report

import (
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Cleaners for the page: values stay short enough to scan, and a long one is
// shown in a box of its own.
var (
	cleanValue = cleaner{max: maxValue}
	cleanText  = cleaner{max: maxLine}
)

type htmlGroup struct {
	Title, Pool string

	Machines []string
	Badges   []htmlTile
	Findings []htmlFinding
}

type htmlFinding struct {
	Class, Severity, Symbol, Status, Cluster, Kind string

	New bool
	// Stands is how many findings the entry stands for.
	Stands                                                     int
	IDs                                                        []string
	Diffs                                                      []htmlDiff
	Warnings                                                   []string
	Reason, Why, Ignored, Plan, PlanClass, Rule, RuleAt, Since string
	Blocks                                                     []htmlBlock
}

type htmlBlock struct{ By, Detail string }

type htmlDiff struct {
	Mark, Path, Note string

	Sides []htmlSide
}

type htmlSide struct {
	Class, Label, Text string
	Long, Empty        bool
}

func newHTMLGroup(v *view, c *clusterView, g *group, cluster string) htmlGroup {
	out := htmlGroup{Title: cleanValue.clean(ownerText(&g.owners[0], c.Namespace)), Pool: cleanValue.clean(g.pool)}
	if len(g.owners) > 1 {
		out.Title = fmt.Sprintf("%d machines", len(g.owners))
		for i := range g.owners {
			out.Machines = append(out.Machines, cleanValue.clean(g.owners[i].Name))
		}
	}
	counts := map[string]int{}
	for i := range g.findings {
		f := newHTMLFinding(v, &g.findings[i])
		f.Cluster = cluster
		out.Findings = append(out.Findings, f)
		counts[f.Class] += len(g.findings[i].resources)
	}
	for _, class := range append(severityNames(), "silent") {
		if n := counts[class]; n > 0 {
			label := class
			if class == "silent" {
				label = "silenced"
			}
			out.Badges = append(out.Badges, htmlTile{Class: class, Label: label, Count: n})
		}
	}
	return out
}

func newHTMLFinding(v *view, f *groupFinding) htmlFinding {
	out := htmlFinding{
		Class:    severityClass(f.Finding),
		Severity: string(severities[rank(f.Severity)]),
		Symbol:   unicodeSymbols.severity[severities[rank(f.Severity)]],
		Status:   cleanValue.clean(statusWord(f.Status)),
		Kind:     cleanValue.clean(f.Resource.Kind),
		New:      f.Since == SinceNew,
		Stands:   len(f.resources),
		Rule:     cleanValue.clean(f.Rule),
		RuleAt:   cleanValue.clean(positionText(f.RuleAt)),
		Since:    sinceText(f.Finding, v.Generated),
	}
	if f.Status == detector.Drifted {
		out.Why = cleanText.clean(f.Reason)
	} else {
		out.Reason = cleanText.clean(f.reasonText())
	}
	for i := range f.resources {
		out.IDs = append(out.IDs, cleanValue.clean(f.resourceText(&f.resources[i])))
	}
	for i := range f.Diffs {
		out.Diffs = append(out.Diffs, newHTMLDiff(&f.Diffs[i]))
	}
	for _, w := range f.Warnings {
		out.Warnings = append(out.Warnings, cleanText.clean(w))
	}
	switch {
	case f.Ignored != nil:
		out.Ignored = cleanText.clean(ignoredText(f.Ignored))
		return out
	case f.Status == detector.Foreign:
		return out
	}
	out.Plan, out.PlanClass = capital(actionWords(f.Finding)), planClass(f.Finding)
	for i := range f.Blocks {
		b := f.Blocks[i]
		detail := b.Detail
		if b.Until != nil {
			detail += " (until " + stamp(*b.Until) + ")"
		}
		out.Blocks = append(out.Blocks, htmlBlock{cleanText.clean(b.By), cleanText.clean(detail)})
	}
	if len(out.Blocks) == 0 {
		for _, by := range f.BlockedBy {
			out.Blocks = append(out.Blocks, htmlBlock{By: cleanText.clean(by)})
		}
	}
	return out
}

func newHTMLDiff(d *Diff) htmlDiff {
	return htmlDiff{
		Mark: strings.Replace(diffMark(d), "-", "−", 1), Path: cleanValue.clean(shownPath(d.Path)), Note: diffNote(d),
		Sides: []htmlSide{newHTMLSide(d, "Wanted", "want", wantText(d), d.Want), newHTMLSide(d, "Seen", "have", valueText(d.Have), d.Have)},
	}
}

func newHTMLSide(d *Diff, label, class, text string, v providers.Value) htmlSide {
	switch {
	case v.IsAbsent():
		return htmlSide{Class: "blank", Label: label, Text: "none", Empty: true}
	case d.Sensitive:
		return htmlSide{Class: class, Label: label, Text: "sensitive, not shown", Empty: true}
	}
	text = cleanWide.clean(text)
	return htmlSide{Class: class, Label: label, Text: text, Long: len(text) > maxValue}
}
