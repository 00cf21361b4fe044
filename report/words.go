package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// The words that all formats for people share.

// lastLine ends every report for people.
const lastLine = "Dry run: nothing was changed, neither in the cloud nor in the cluster."

func plain(n int) string { return strconv.Itoa(n) }

// plural gives "1 machine" or "3 machines".
func plural(n int, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "y") && !strings.HasSuffix(one, "ay"):
		return plain(n) + " " + strings.TrimSuffix(one, "y") + "ies"
	default:
		return plain(n) + " " + one + "s"
	}
}

var statusWords = map[detector.Status]string{
	detector.InSync: "in sync", detector.Drifted: "drifted", detector.Missing: "missing",
	detector.Unexpected: "unexpected", detector.Foreign: "foreign",
	detector.NotChecked: "not checked", detector.Unknown: "unknown",
}

func statusWord(s detector.Status) string {
	if w, ok := statusWords[s]; ok {
		return w
	}
	return string(s)
}

// actionWords says what would be done.
func actionWords(f *Finding) string {
	switch f.Action {
	case policies.Patch:
		if f.Status == detector.Missing {
			return "would create it again"
		}
		return "would patch in place"
	case policies.Replace:
		return "would replace the machine"
	case policies.Observe:
		return "report only"
	case policies.Ignore:
		return "ignored"
	}
	return string(f.Action)
}

// stamp is how times are written: in UTC, so that two readers mean the same.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// percent rounds down: 99.96 % of coverage is not all.
func percent(c Coverage) string {
	if c.Checked+c.NotChecked == 0 {
		return "none"
	}
	tenths := c.Checked * 1000 / (c.Checked + c.NotChecked)
	if tenths%10 == 0 {
		return fmt.Sprintf("%d%%", tenths/10)
	}
	return fmt.Sprintf("%d.%d%%", tenths/10, tenths%10)
}

func coverageText(c Coverage) string {
	if c.Checked+c.NotChecked == 0 {
		return "no field to compare"
	}
	return "coverage " + percent(c) + " (" + fieldsOf(c) + ")"
}

func fieldsOf(c Coverage) string {
	return fmt.Sprintf("%d of %s", c.Checked, plural(c.Checked+c.NotChecked, "field"))
}

// valueText gives a value for people before cleaning. A text whose ends could
// be misread is quoted.
func valueText(v providers.Value) string {
	if v.IsAbsent() {
		return "(none)"
	}
	t := v.Text()
	switch {
	case v.IsSet() && t == "":
		return "(empty)"
	case t == "", t != strings.TrimSpace(t), strings.HasPrefix(t, "("):
		return `"` + t + `"`
	}
	return t
}

// wantText gives what is wanted. A set beside a text that was seen, or beside
// nothing, is a choice: sets that are compared as sets differ by element.
func wantText(d *Diff) string {
	choices := d.Want.Elements()
	if !d.Want.IsSet() || d.Have.IsSet() || len(choices) < 2 {
		return valueText(d.Want)
	}
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// reasonText is the finding's reason where its values do not say it already.
func (f *Finding) reasonText() string {
	for i := range f.Diffs {
		if f.Diffs[i].Have.Text() == f.Reason {
			return ""
		}
	}
	return f.Reason
}

// ownerText names an owner; its namespace is left out where it is the
// cluster's.
func ownerText(o *providers.OwnerRef, namespace string) string {
	if *o == (providers.OwnerRef{}) {
		return "Belonging to no object"
	}
	if o.Namespace == namespace || o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// resourceText gives id and, where it says more, name.
func resourceText(r *detector.ResourceRef) string {
	switch {
	case r.ID == "" && r.Name == "":
		return "(not yet known)"
	case r.ID == "":
		return r.Name
	case r.Name == "" || r.Name == r.ID || strings.HasSuffix(r.ID, "/"+r.Name):
		return r.ID
	}
	return r.ID + " (" + r.Name + ")"
}

// some joins up to n texts and counts the others.
func some(texts []string, n int) string {
	if n <= 0 || len(texts) <= n+1 {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:n], ", "), len(texts)-n)
}

// ruleText names the rule and where it stands.
func ruleText(f *Finding) string {
	at := positionText(f.RuleAt)
	switch {
	case f.Rule == "":
		return at
	case at == "":
		return f.Rule
	}
	return f.Rule + " (" + at + ")"
}

// sinceText says since when a finding is known, and whether it is new.
func sinceText(f *Finding, now time.Time) string {
	var parts []string
	if f.Since == SinceNew {
		parts = append(parts, "new")
	}
	if f.FirstSeen != nil && f.Since != SinceNew {
		parts = append(parts, fmt.Sprintf("since %s (%s)", stamp(*f.FirstSeen), age(now, *f.FirstSeen)))
	}
	return strings.Join(parts, ", ")
}

// blockText explains a gate.
func blockText(b *Block) string {
	t := b.By
	if b.Detail != "" {
		t += ": " + b.Detail
	}
	if b.Until != nil {
		t += " (until " + stamp(*b.Until) + ")"
	}
	return t
}

// ignoredText says what silenced a finding.
func ignoredText(i *Ignored) string {
	t := "ignored by " + i.By
	if i.Reason != "" {
		t += ": " + i.Reason
	}
	if i.ExpiresAt != nil {
		t += " (until " + stamp(*i.ExpiresAt) + ")"
	}
	return t
}

// diffMark says how a value differs: + and - where one side has none. What is
// gone and left a word behind, such as terminated, has two sides.
func diffMark(d *Diff) string {
	switch {
	case d.Type == detector.Added && d.Want.IsAbsent():
		return "+"
	case d.Type == detector.Removed && d.Have.IsAbsent():
		return "-"
	}
	return "~"
}

// diffNote says on which side a value is that the other side lacks.
func diffNote(d *Diff) string {
	note := ""
	switch diffMark(d) {
	case "+":
		note = "in the cloud, not wanted"
	case "-":
		note = "wanted, not in the cloud"
	}
	if d.Adopted {
		note = strings.TrimPrefix(note+"; adopted: the spec was rewritten to match the cloud", "; ")
	}
	return note
}
