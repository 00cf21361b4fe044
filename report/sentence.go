package report

import (
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// sentence says in one clean line what a finding is, for formats that hold
// text and no tree.
func (f *Finding) sentence() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(f.Resource.Kind + " " + resourceText(&f.Resource)))
	if f.Owner.Name != "" {
		b.WriteString(" of " + ownerText(&f.Owner, f.Cluster.Namespace))
	}
	b.WriteString(" in cluster " + f.Cluster.String() + ": " + string(f.Severity) + ", " + statusWord(f.Status))
	var parts []string
	for i := range f.Diffs {
		parts = append(parts, f.Diffs[i].sentence())
	}
	if reason := f.reasonText(); reason != "" {
		parts = append(parts, reason)
	}
	switch {
	case f.Ignored != nil:
		parts = append(parts, ignoredText(f.Ignored))
	case f.Trouble():
		parts = append(parts, f.planSentence())
	}
	if rule := ruleText(f); rule != "" && !f.Incomplete() {
		parts = append(parts, "rule "+rule)
	}
	for _, w := range f.Warnings {
		parts = append(parts, "note: "+w)
	}
	if len(parts) > 0 {
		b.WriteString(". " + strings.Join(parts, ". "))
	}
	return cleanWide.clean(b.String()) + "."
}

func (f *Finding) planSentence() string {
	text := actionWords(f)
	for i := range f.Blocks {
		if i == 0 {
			text += ", held back by "
		} else {
			text += "; "
		}
		text += blockText(&f.Blocks[i])
	}
	if len(f.Blocks) == 0 && len(f.BlockedBy) > 0 {
		text += ", held back by " + strings.Join(f.BlockedBy, ", ")
	}
	return text
}

// sentence bounds each value, so that one huge value does not push the others
// out of the finding's line.
func (d *Diff) sentence() string {
	value := cleaner{max: maxValue}
	if d.Sensitive {
		return shownPath(d.Path) + " differs (sensitive, not shown)"
	}
	text := shownPath(d.Path) + ": wanted " + value.clean(wantText(d)) + ", seen " + value.clean(valueText(d.Have))
	if d.Adopted {
		text += " (adopted: the spec was rewritten to match the cloud)"
	}
	return text
}

func problemText(p *Problem) string {
	text := p.Message
	if p.Object != "" {
		text = p.Object + ": " + text
	}
	if p.Cluster != nil {
		text = "cluster " + p.Cluster.String() + ": " + text
	}
	return cleanWide.clean(text)
}

// shownPath is a JSON pointer as people read it: /routes/0.0.0.0/0 instead of
// /routes/0.0.0.0~10. Programs get the pointer.
func shownPath(pointer string) string {
	if !strings.Contains(pointer, "~") {
		return pointer
	}
	return "/" + strings.Join(providers.Segments(pointer), "/")
}
