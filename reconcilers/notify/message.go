package notify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
)

// message is what is sent.
type message struct {
	title, body string
	// facts are for programs: counts and the worst severity.
	facts map[string]string
}

// message puts a batch into words. It is no longer than limit, counts all that
// there is, and shows the worst first.
func (d *dialect) message(b *batch, limit int) message {
	fresh, gone, acts := b.sorted(AboutDrift), b.sorted(AboutResolved), b.sorted(AboutRemediation)
	m := message{title: "Holdfast: " + d.value(b.cluster.String(), maxValue) + ": " + d.words(summary(fresh, gone, acts, b.uncounted))}
	m.facts = map[string]string{
		"cluster": b.cluster.String(), "new": strconv.Itoa(len(fresh)), "resolved": strconv.Itoa(len(gone)),
		"remediations": strconv.Itoa(len(acts)), "notListed": strconv.Itoa(b.uncounted), "severity": string(worst(fresh, acts)),
	}
	var lines []line
	for _, n := range acts {
		head := d.words("remediation "+phaseWords[n.phase]+": "+n.action+" of ") + d.what(n)
		lines = append(lines, line{head + d.remediation(n), head})
	}
	for _, n := range fresh {
		head := d.words(string(n.severity)+": ") + d.what(n)
		lines = append(lines, line{head + d.finding(n), head})
	}
	for _, n := range gone {
		head := d.words("resolved: ") + d.what(n)
		lines = append(lines, line{head + d.fields(n, false), head})
	}
	room := limit
	if !d.title {
		room -= utf8.RuneCountInString(m.title) + 1
	}
	m.body = fit(lines, room, d.words)
	if !d.title {
		m.body = strings.TrimSuffix(m.title+"\n"+m.body, "\n")
	}
	return m
}

// line is an entry of a message, in full and in short.
type line struct{ full, short string }

// fit joins lines while there is room, and says how many were left out. A line
// is never cut: that could cut off what makes a hostile text inert.
func fit(lines []line, room int, words func(string) string) string {
	const note = 50 // characters of the last line, at most
	var b strings.Builder
	for i, l := range lines {
		left := room
		if i < len(lines)-1 {
			left -= note
		}
		text := l.full
		if utf8.RuneCountInString(text)+1 > left {
			text = l.short
		}
		if utf8.RuneCountInString(text)+1 > left {
			b.WriteString(words(fmt.Sprintf("and %d more: see `holdfast report`", len(lines)-i)))
			return b.String()
		}
		room -= utf8.RuneCountInString(text) + 1
		b.WriteString(text)
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func summary(fresh, gone, acts []*news, uncounted int) string {
	var parts []string
	if n := len(fresh); n > 0 {
		word := "new"
		if fresh[0].open {
			word = "open"
		}
		count := 0
		for _, f := range fresh {
			if f.severity == fresh[0].severity {
				count++
			}
		}
		parts = append(parts, fmt.Sprintf("%s (%d %s)", plural(n, word+" finding"), count, fresh[0].severity))
	}
	if n := len(gone); n > 0 {
		parts = append(parts, fmt.Sprintf("%d resolved", n))
	}
	phases := map[v1alpha1.RemediationPhase]int{}
	for _, a := range acts {
		phases[a.phase]++
	}
	for _, p := range []v1alpha1.RemediationPhase{v1alpha1.PhaseLatched, v1alpha1.PhaseFailed, v1alpha1.PhaseAwaitingApproval, v1alpha1.PhaseSucceeded} {
		if n := phases[p]; n > 0 {
			parts = append(parts, plural(n, "remediation")+" "+phaseWords[p])
		}
	}
	if uncounted > 0 {
		parts = append(parts, fmt.Sprintf("%d not listed", uncounted))
	}
	return strings.Join(parts, ", ")
}

var phaseWords = map[v1alpha1.RemediationPhase]string{
	v1alpha1.PhaseLatched: "latched", v1alpha1.PhaseFailed: "failed",
	v1alpha1.PhaseAwaitingApproval: "awaiting approval", v1alpha1.PhaseSucceeded: "succeeded",
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func worst(lists ...[]*news) policies.Severity {
	for _, s := range severities {
		for _, list := range lists {
			if slices.ContainsFunc(list, func(n *news) bool { return n.severity == s }) {
				return s
			}
		}
	}
	return ""
}

// what names owner and resource.
func (d *dialect) what(n *news) string {
	var parts []string
	if n.owner.Name != "" {
		parts = append(parts, d.words(n.owner.Kind+" ")+d.value(n.owner.Name, maxValue))
	}
	id := n.resource.ID
	if id == "" {
		id = n.resource.Name
	}
	if id != "" && n.resource.Kind != n.owner.Kind {
		parts = append(parts, d.words(n.resource.Kind+" ")+d.value(id, maxValue))
	}
	return strings.Join(parts, ", ")
}

// finding says what there is beyond severity and names.
func (d *dialect) finding(n *news) string {
	var b strings.Builder
	switch n.status {
	case detector.Missing:
		b.WriteString(d.words(" is missing"))
	case detector.Unexpected:
		if len(n.diffs) == 0 {
			b.WriteString(d.words(" is not wanted"))
		}
	}
	if len(n.diffs) == 0 && n.reason != "" {
		b.WriteString(": " + d.value(n.reason, maxReason))
	}
	b.WriteString(d.fields(n, true))
	b.WriteString(d.words("; " + n.follows))
	if n.mode != policies.ModeEnforce {
		b.WriteString(d.words(" (mode " + string(n.mode) + ")"))
	}
	if n.by != "" {
		b.WriteString(d.words("; changed by ") + d.value(n.by, maxReason))
	}
	return b.String()
}

// fields lists what differs, with or without the values.
func (d *dialect) fields(n *news, values bool) string {
	if len(n.diffs) == 0 {
		return ""
	}
	parts := make([]string, 0, len(n.diffs)+1)
	for i := range n.diffs {
		f := &n.diffs[i]
		path := d.value(f.path, maxValue)
		switch {
		case !values:
		case f.sensitive:
			path += d.words(" differs")
		case f.have == "":
			path += d.words(" is absent, wanted ") + d.value(f.want, maxValue)
		case f.want == "":
			path += d.words(" has ") + d.value(f.have, maxValue)
		default:
			path += d.words(" is ") + d.value(f.have, maxValue) + d.words(", wanted ") + d.value(f.want, maxValue)
		}
		parts = append(parts, path)
	}
	if n.more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n.more))
	}
	return ": " + strings.Join(parts, ", ")
}

// remediation says what there is beyond phase and names.
func (d *dialect) remediation(n *news) string {
	s := d.words(" by ") + d.value(n.follows, maxValue)
	if n.reason != "" {
		s += d.words("; ") + d.value(n.reason, maxValue)
	}
	if n.message != "" {
		s += d.words(": ") + d.value(n.message, maxReason)
	}
	if n.by != "" {
		s += d.words("; changed by ") + d.value(n.by, maxReason)
	}
	return s
}
