package report

import (
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/policies"
)

// quiet says what a cluster came to of which nothing needs a look, and whether
// all of it is in sync; empty where something needs one.
func (c *clusterView) quiet() (text string, inSync bool) {
	silenced := silencedText(c.Ignored, c.Foreign)
	switch {
	case c.drifted+c.missing+c.unexpected+c.notChecked+c.unknown+len(c.problems) > 0:
		return "", false
	case c.uncompared() && silenced != "":
		return "nothing was compared (" + silenced + ")", false
	case c.uncompared():
		return "nothing was compared", false
	case silenced != "":
		return quietWords(c.Ignored) + " (" + silenced + ")", false
	}
	return "everything that was compared is in sync", true
}

// uncompared says that there is nothing that a check mark could stand for.
func (c *clusterView) uncompared() bool { return c.Coverage.Checked == 0 || c.SnapshotTime == nil }

// whyUncompared says why.
func (c *clusterView) whyUncompared() string {
	if c.SnapshotTime == nil {
		return "the cloud was not read"
	}
	return "nothing of the cluster was compared"
}

// quietWords are for a scan of which everything that drifted is silenced.
func quietWords(ignored int) string {
	if ignored > 0 {
		return "no drift that is not ignored"
	}
	return "no drift in what is not foreign"
}

// silencedText counts what was silenced; empty for nothing.
func silencedText(ignored, foreign int) string {
	var parts []string
	if ignored > 0 {
		parts = append(parts, plain(ignored)+" ignored")
	}
	if foreign > 0 {
		parts = append(parts, plain(foreign)+" foreign")
	}
	return strings.Join(parts, ", ")
}

// verdict says what the scan came to: a headline, what it rests on, and its
// mood in the classes of the page.
func (r *Report) verdict() (title, lead, mood string) {
	s := &r.Summary
	drift, unread := s.Drifted+s.Missing+s.Unexpected, s.NotChecked+s.Unknown
	switch {
	case drift > 0:
		title, mood = plural(drift, "finding"), string(r.worst())
	case unread+r.obstacles() > 0:
		title, mood = "Incomplete, and no drift in what was compared", "unread"
	case s.Checked == 0:
		title, mood = "Nothing was compared", "unread"
	case s.Ignored+s.Foreign > 0:
		title, mood = capital(quietWords(s.Ignored)), "info"
	default:
		title, mood = "In sync", "ok"
	}
	lead = fmt.Sprintf("%s of %s compared.", plural(s.Checked, "resource"), plural(s.Owners, "object"))
	if unread > 0 {
		lead += fmt.Sprintf(" %d could not be compared.", unread)
	}
	if silenced := silencedText(s.Ignored, s.Foreign); silenced != "" && drift == 0 {
		lead += " " + capital(silenced) + "."
	}
	if n := len(r.Problems); n > 0 {
		lead += " The scan met " + plural(n, "problem") + "."
	}
	return title, lead, mood
}

// worst severity of all trouble; empty for none.
func (r *Report) worst() policies.Severity {
	for _, severity := range severities {
		if r.Summary.BySeverity[severity] > 0 {
			return severity
		}
	}
	return ""
}
