package report

import (
	"bytes"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
)

const (
	toolName = "Holdfast"
	toolURI  = "https://github.com/holdfast-io/holdfast"
	// fingerprintName says which fingerprint it is (SARIF 2.1.0, 3.27.17).
	fingerprintName = "holdfast/v1"
)

// writeSARIF writes SARIF 2.1.0 (OASIS). Drift is a result of the rule that
// decided, placed where its owner was read from. What could not be compared is
// no result but a notification of the invocation: it says something about the
// scan.
func writeSARIF(w io.Writer, r *Report, _ Style) error {
	s := &sarifWriter{Report: r, rules: map[string]int{}, sources: sourcesOf(r)}
	run := sarif.NewRunWithInformationURI(toolName, toolURI)
	run.Tool.Driver.WithVersion(cleanWide.clean(r.Version))
	run.WithColumnKind("unicodeCodePoints")
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Status != detector.NotChecked && f.Status != detector.Unknown {
			run.AddResult(s.result(run, f, string(f.Since)))
		}
	}
	if r.Compared != nil {
		for i := range r.Compared.Resolved {
			run.AddResult(s.result(run, &r.Compared.Resolved[i], "absent"))
		}
	}
	run.AddInvocation(s.invocation())
	doc := sarif.NewReport().AddRun(run)
	var b bytes.Buffer
	if err := doc.PrettyWrite(&b); err != nil {
		return err
	}
	text, err := withoutDefaults(b.Bytes())
	if err != nil {
		return err
	}
	_, err = w.Write(escapeHidden(text, surrogates))
	return err
}

type sarifWriter struct {
	*Report
	rules   map[string]int
	sources map[ownerKey]string
}

// cleanWide is for formats that programs read and people look at.
var cleanWide = cleaner{max: maxWide}

// sourcesOf finds the file that each owner was read from.
func sourcesOf(r *Report) map[ownerKey]string {
	out := map[ownerKey]string{}
	for i := range r.Clusters {
		c := &r.Clusters[i]
		for j := range c.Owners {
			if o := &c.Owners[j]; o.Source != "" {
				out[keyOf(detector.ClusterRef{Namespace: c.Namespace, Name: c.Name}, &o.OwnerRef)] = o.Source
			}
		}
	}
	return out
}

// result makes one; baseline is its baselineState (3.27.24), whose words are
// those of Since, and empty without a previous report.
func (s *sarifWriter) result(run *sarif.Run, f *Finding, baseline string) *sarif.Result {
	result := sarif.NewResult().
		WithRuleID(s.ruleID(f)).
		WithRuleIndex(s.rule(run, f)).
		WithLevel(sarifLevel(f.Severity)).
		WithMessage(sarif.NewTextMessage(sarifText(f.sentence()))).
		AddLocation(s.location(f)).
		WithPartialFingerprints(map[string]string{fingerprintName: cleanWide.clean(f.Fingerprint)})
	if baseline != "" {
		result.WithBaselineState(baseline)
	}
	if f.Ignored != nil {
		result.AddSuppression(sarif.NewSuppression().WithKind("external").
			WithStatus("accepted").WithJustification(cleanWide.clean(ignoredText(f.Ignored))))
	}
	properties := sarif.NewPropertyBag()
	properties.Add("severity", string(severities[rank(f.Severity)]))
	properties.Add("status", cleanWide.clean(string(f.Status)))
	properties.Add("action", cleanWide.clean(string(f.Action)))
	blockedBy := []string{}
	for _, by := range f.BlockedBy {
		blockedBy = append(blockedBy, cleanWide.clean(by))
	}
	properties.Add("blockedBy", blockedBy)
	if f.FirstSeen != nil {
		properties.Add("firstSeen", f.FirstSeen.Format(timeFormat))
	}
	return result.WithProperties(properties)
}

// timeFormat is RFC 3339 in UTC.
const timeFormat = "2006-01-02T15:04:05Z"

func sarifLevel(s policies.Severity) string {
	switch severities[rank(s)] {
	case policies.Critical, policies.High:
		return "error"
	case policies.Medium:
		return "warning"
	}
	return "note"
}

func (s *sarifWriter) ruleID(f *Finding) string {
	return cleanWide.clean(firstOf(f.Rule, "no-rule"))
}

// rule gives the index of the finding's rule, adding it when it is new.
func (s *sarifWriter) rule(run *sarif.Run, f *Finding) int {
	id := s.ruleID(f)
	if i, ok := s.rules[id]; ok {
		return i
	}
	rule := run.AddRule(id)
	text := "Drift that the rule " + id + " decides"
	if at := positionText(f.RuleAt); at != "" {
		text += ", " + cleanWide.clean(at)
	}
	rule.WithShortDescription(sarif.NewMultiformatMessageString().WithText(sarifText(text)))
	rule.WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(sarifLevel(f.Severity)))
	if f.Policy != "" {
		properties := sarif.NewPropertyBag()
		properties.Add("policy", cleanWide.clean(f.Policy))
		rule.WithProperties(properties)
	}
	s.rules[id] = len(s.rules)
	return s.rules[id]
}

// location names the resource, and the owner's file where it has one.
func (s *sarifWriter) location(f *Finding) *sarif.Location {
	owner := firstOf(f.Owner.Name, "-")
	name := strings.Join([]string{f.Cluster.String(), firstOf(f.Owner.Kind, "-"), owner, f.Resource.Kind, f.Resource.ID}, "/")
	location := sarif.NewLocation().AddLogicalLocation(sarif.NewLogicalLocation().
		WithName(cleanWide.clean(firstOf(f.Resource.Name, f.Resource.ID, f.Resource.Kind))).
		WithFullyQualifiedName(cleanWide.clean(name)).
		WithKind("resource"))
	file, line := splitSource(s.sources[keyOf(f.Cluster, &f.Owner)])
	if file == "" {
		return location
	}
	physical := sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewArtifactLocation().WithURI(fileURI(file)))
	if line > 0 {
		physical.WithRegion(sarif.NewRegion().WithStartLine(line))
	}
	return location.WithPhysicalLocation(physical)
}

var sourceLine = regexp.MustCompile(`^(.+?):(\d{1,9})(?::\d+)?$`)

// splitSource takes file:line apart, with or without a column.
func splitSource(source string) (file string, line int) {
	m := sourceLine.FindStringSubmatch(source)
	if m == nil {
		return source, 0
	}
	line, _ = strconv.Atoi(m[2])
	return m[1], line
}

// fileURI gives a URI reference: relative files stay relative to where the
// scan ran, which is where a code host expects them.
func fileURI(file string) string {
	u := &url.URL{Path: filepath.ToSlash(filepath.Clean(file))}
	if filepath.IsAbs(file) {
		u.Scheme = "file"
	}
	return u.String()
}

// sarifText escapes what SARIF gives a meaning in a message: embedded links
// (3.11.6) and placeholders (3.11.5).
func sarifText(clean string) string {
	return strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `{`, `{{`, `}`, `}}`).Replace(clean)
}

// invocation tells how the scan itself went.
func (s *sarifWriter) invocation() *sarif.Invocation {
	complete := true
	invocation := sarif.NewInvocation()
	note := func(level, id, text string) {
		invocation.AddToolExecutionNotification(sarif.NewNotification().
			WithLevel(level).
			WithDescriptor(sarif.NewReportingDescriptorReference().WithID(id)).
			WithMessage(sarif.NewTextMessage(sarifText(text))))
	}
	for i := range s.Findings {
		if f := &s.Findings[i]; f.Incomplete() {
			complete = false
			note("warning", string(f.Status), f.sentence())
		}
	}
	for _, p := range s.Problems {
		level := "error"
		if p.Warning {
			level = "warning"
		} else {
			complete = false
		}
		note(level, cleanWide.clean(firstOf(p.Reason, "Problem")), problemText(&p))
	}
	return invocation.WithExecutionSuccessful(complete).WithEndTimeUtc(s.Generated.Format(timeFormat))
}
