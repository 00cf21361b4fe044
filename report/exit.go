package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/policies"
)

// Outcome is what a whole run came to.
type Outcome int

// Outcomes. Only the first three are a report's own; the others are for runs
// that did not get as far as a report.
const (
	OutcomeInSync Outcome = iota
	OutcomeDrift
	OutcomeIncomplete
	OutcomeError
	OutcomeBadPolicy
)

// ExitStyle maps outcomes to exit codes.
type ExitStyle string

// Exit styles.
const (
	// ExitHoldfast: 0 in sync, 1 drift, 2 error, 3 incomplete, 4 bad policy.
	ExitHoldfast ExitStyle = ""
	// ExitTerraform is that of `terraform plan -detailed-exitcode`: 0 in
	// sync, 2 drift, 1 everything that kept the run from telling, which an
	// incomplete comparison and a bad policy are too.
	ExitTerraform ExitStyle = "terraform"
)

// ParseExitStyle reads the value of --exit-style.
func ParseExitStyle(s string) (ExitStyle, error) {
	switch s {
	case "", "holdfast":
		return ExitHoldfast, nil
	case string(ExitTerraform):
		return ExitTerraform, nil
	}
	return "", fmt.Errorf("exit style %q is not known: want holdfast or terraform", s)
}

// Code gives the exit code of an outcome.
func (s ExitStyle) Code(o Outcome) int {
	codes := map[Outcome]int{OutcomeInSync: 0, OutcomeDrift: 1, OutcomeError: 2, OutcomeIncomplete: 3, OutcomeBadPolicy: 4}
	if s == ExitTerraform {
		codes = map[Outcome]int{OutcomeInSync: 0, OutcomeDrift: 2, OutcomeError: 1, OutcomeIncomplete: 1, OutcomeBadPolicy: 1}
	}
	code, ok := codes[o]
	if !ok {
		return codes[OutcomeError]
	}
	return code
}

// DefaultFailOn is the severity from which drift fails a run.
const DefaultFailOn = policies.Low

// ParseFailOn reads the value of --fail-on; empty is the default.
func ParseFailOn(s string) (policies.Severity, error) {
	if s == "" {
		return DefaultFailOn, nil
	}
	severity := policies.Severity(strings.ToLower(s))
	if !slices.Contains(severities, severity) {
		return "", fmt.Errorf("severity %q is not known: want critical, high, medium, low or info", s)
	}
	return severity, nil
}

// Outcome of the report: drift if a finding that nobody silenced reaches
// failOn, incomplete if something could not be compared, else in sync. Drift
// wins: what was found is certain, whatever else is not.
func (r *Report) Outcome(failOn policies.Severity) Outcome {
	outcome := OutcomeInSync
	if r.obstacles() > 0 {
		outcome = OutcomeIncomplete
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Trouble() && rank(f.Severity) <= rank(thresholdOf(failOn)) {
			return OutcomeDrift
		}
		if f.Incomplete() {
			outcome = OutcomeIncomplete
		}
	}
	return outcome
}

// obstacles counts the problems that kept something from being compared.
func (r *Report) obstacles() int {
	n := 0
	for i := range r.Problems {
		if !r.Problems[i].Warning {
			n++
		}
	}
	return n
}

func thresholdOf(s policies.Severity) policies.Severity {
	if !slices.Contains(severities, s) {
		return DefaultFailOn
	}
	return s
}

// Exit gives the exit code of a run that ended in a report.
func Exit(r *Report, failOn policies.Severity, style ExitStyle) int {
	return style.Code(r.Outcome(failOn))
}
