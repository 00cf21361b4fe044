package report

import (
	"strings"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
)

// finding draws what is wrong, what would be done about it and who says so.
func (t *table) finding(c *clusterView, f *groupFinding) *node {
	n := &node{}
	mark, ink := t.sym.severity[severities[rank(f.Severity)]], severityInks[severities[rank(f.Severity)]]
	word := string(f.Severity)
	if !f.Trouble() {
		mark, ink = t.sym.dot, dim
	}
	ids := make([]string, len(f.resources))
	for i := range f.resources {
		ids[i] = f.resourceText(&f.resources[i])
	}
	n.line(2,
		span{mark + " " + t.clean(word), ink}, span{"  " + t.clean(f.Resource.Kind) + " ", plainInk},
		span{statusWord(f.Status), statusInk(f.Status)}, span{"  " + t.some(ids), dim})
	t.diffs(n, f.Diffs)
	if reason := f.reasonText(); reason != "" && (f.Status != detector.Drifted || t.wide) {
		n.line(4, span{"  " + t.clean(reason), plainInk})
	}
	for _, w := range f.Warnings {
		n.line(4, span{"  note: " + t.clean(w), dim})
	}
	t.plan(n, c, f)
	t.origin(n, f)
	return n
}

func statusInk(s detector.Status) ink {
	switch s {
	case detector.Missing:
		return red
	case detector.Unexpected, detector.Drifted:
		return yellow
	}
	return dim
}

// plan says what would be done and what holds it back.
func (t *table) plan(n *node, c *clusterView, f *groupFinding) {
	if f.Ignored != nil {
		n.line(4, span{"  " + t.clean(ignoredText(f.Ignored)), dim})
		return
	}
	if f.Status == detector.Foreign {
		return
	}
	spans := []span{{"  " + t.sym.arrow + " ", plainInk}, {actionWords(f.Finding), actionInk(f.Finding)}}
	if len(f.BlockedBy) > 0 {
		spans = append(spans, span{", held back by ", plainInk})
		for i, text := range t.blocks(c, f) {
			if i > 0 {
				spans = append(spans, span{"; ", plainInk})
			}
			spans = append(spans, span{text, yellow})
		}
	}
	n.line(4, spans...)
}

// actionInk is plain where a gate holds the action back: it must look neither
// done nor about to be.
func actionInk(f *Finding) ink {
	if len(f.BlockedBy) > 0 {
		return plainInk
	}
	switch f.Action {
	case policies.Replace:
		return red
	case policies.Patch:
		return green
	}
	return plainInk
}

// blocks names the gates; those that are explained below the cluster by name
// alone.
func (t *table) blocks(c *clusterView, f *groupFinding) []string {
	var out []string
	for i := range f.Blocks {
		if c.common(f.Blocks[i].By) {
			out = append(out, t.clean(f.Blocks[i].By))
		} else {
			out = append(out, t.clean(blockText(&f.Blocks[i])))
		}
	}
	if len(out) == 0 {
		for _, by := range f.BlockedBy {
			out = append(out, t.clean(by))
		}
	}
	return out
}

// origin says which rule decided, and since when the finding is known.
func (t *table) origin(n *node, f *groupFinding) {
	var parts []string
	if rule := ruleText(f.Finding); rule != "" {
		parts = append(parts, "rule "+t.clean(rule))
	}
	if since := sinceText(f.Finding, t.Generated); since != "" {
		parts = append(parts, since)
	}
	if t.wide && f.Fingerprint != "" && len(f.resources) == 1 {
		parts = append(parts, "fingerprint "+t.value.clean(f.Fingerprint))
	}
	if len(parts) > 0 {
		n.line(4, span{"  " + strings.Join(parts, " "+t.sym.dot+" "), dim})
	}
}

// pathColumn is how wide the column of paths may become.
const pathColumn = 34

// diffs draws each differing value: wanted, then seen.
func (t *table) diffs(n *node, diffs []Diff) {
	paths := make([]string, len(diffs))
	column := 0
	for i := range diffs {
		paths[i] = t.value.clean(shownPath(diffs[i].Path))
		if w := cells.StringWidth(paths[i]); w <= pathColumn {
			column = max(column, w)
		}
	}
	for i := range diffs {
		pad := strings.Repeat(" ", max(column-cells.StringWidth(paths[i]), 0))
		t.diff(n, &diffs[i], paths[i]+pad+"  ", column+6)
	}
}

var markInks = map[string]ink{"+": green, "-": red, "~": yellow}

func (t *table) diff(n *node, d *Diff, path string, hang int) {
	spans := []span{{"  " + diffMark(d) + " ", markInks[diffMark(d)]}, {path, plainInk}}
	note := diffNote(d)
	want, have := t.value.clean(wantText(d)), t.value.clean(valueText(d.Have))
	switch {
	case d.Type == detector.Added && d.Want.IsAbsent():
		spans = append(spans, span{have, bold})
	case d.Type == detector.Removed && d.Have.IsAbsent():
		spans = append(spans, span{want, bold})
	case d.Sensitive:
		spans = append(spans, span{"differs (sensitive, not shown)", bold})
	default:
		spans = append(spans, span{want, plainInk}, span{" " + t.sym.arrow + " ", dim}, span{have, bold})
	}
	if note != "" {
		spans = append(spans, span{"  " + note, dim})
	}
	n.line(min(hang, t.width/2), spans...)
}
