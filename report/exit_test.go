package report

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
)

func TestExit(t *testing.T) {
	drift := func(s policies.Severity) policies.Decision {
		return instance(with(removed("/tags/a", "1")), severity(s, policies.Observe))
	}
	unread := instance(status(detector.NotChecked, "throttled"))
	unknown := instance(status(detector.Unknown, "inaccessible"))
	silent := instance(with(removed("/tags/a", "1")), severity(policies.Critical, policies.Patch), ignored("x", "y", time.Time{}))
	silentUnread := instance(status(detector.NotChecked, "throttled"), ignored("x", "y", time.Time{}))
	problem := func(in *BuildInput) { in.Problems = []Problem{{Reason: "CredentialsUnavailable", Message: "expired"}} }
	cases := map[string]struct {
		in                  []func(*BuildInput)
		failOn              policies.Severity
		holdfast, terraform int
	}{
		"in sync":                              {},
		"low drift fails by default":           {in: mods(found(drift(policies.Low))), holdfast: 1, terraform: 2},
		"info drift does not by default":       {in: mods(found(drift(policies.Info)))},
		"info drift, asked for":                {in: mods(found(drift(policies.Info))), failOn: policies.Info, holdfast: 1, terraform: 2},
		"below fail-on":                        {in: mods(found(drift(policies.Medium))), failOn: policies.High},
		"at fail-on":                           {in: mods(found(drift(policies.High))), failOn: policies.High, holdfast: 1, terraform: 2},
		"above fail-on":                        {in: mods(found(drift(policies.Critical))), failOn: policies.High, holdfast: 1, terraform: 2},
		"an unknown severity is not below":     {in: mods(found(drift("odd"))), failOn: policies.Critical, holdfast: 1, terraform: 2},
		"an unknown fail-on is the default":    {in: mods(found(drift(policies.Low))), failOn: "odd", holdfast: 1, terraform: 2},
		"missing is drift":                     {in: mods(found(instance(status(detector.Missing, "gone")))), holdfast: 1, terraform: 2},
		"unexpected is drift":                  {in: mods(found(instance(status(detector.Unexpected, "orphan")))), holdfast: 1, terraform: 2},
		"foreign is not":                       {in: mods(found(instance(status(detector.Foreign, "theirs"))))},
		"not checked":                          {in: mods(found(unread)), holdfast: 3, terraform: 1},
		"unknown":                              {in: mods(found(unknown)), holdfast: 3, terraform: 1},
		"a problem of the scan":                {in: mods(problem), holdfast: 3, terraform: 1},
		"drift and not checked":                {in: mods(found(unread, drift(policies.Low))), holdfast: 1, terraform: 2},
		"drift and a problem":                  {in: mods(found(drift(policies.Low)), problem), holdfast: 1, terraform: 2},
		"drift below fail-on, and not checked": {in: mods(found(unread, drift(policies.Low))), failOn: policies.High, holdfast: 3, terraform: 1},
		"ignored drift":                        {in: mods(found(silent))},
		"not checked, and that is ignored":     {in: mods(found(silentUnread))},
	}
	for name, c := range cases {
		for _, show := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				in := scan(at, c.in...)
				in.ShowIgnored = show
				r := Build(in)
				if got := Exit(r, c.failOn, ExitHoldfast); got != c.holdfast {
					t.Errorf("exit code %d, want %d", got, c.holdfast)
				}
				if got := Exit(r, c.failOn, ExitTerraform); got != c.terraform {
					t.Errorf("terraform's exit code %d, want %d", got, c.terraform)
				}
			})
		}
	}
}

func TestExitCodesOfRunsWithoutReport(t *testing.T) {
	for outcome, want := range map[Outcome][2]int{OutcomeError: {2, 1}, OutcomeBadPolicy: {4, 1}, Outcome(99): {2, 1}} {
		if got := [2]int{ExitHoldfast.Code(outcome), ExitTerraform.Code(outcome)}; got != want {
			t.Errorf("outcome %d gives %v, want %v", outcome, got, want)
		}
	}
}

func TestParseFlags(t *testing.T) {
	if s, err := ParseFailOn("HIGH"); err != nil || s != policies.High {
		t.Errorf("HIGH is %q, %v", s, err)
	}
	if s, err := ParseFailOn(""); err != nil || s != policies.Low {
		t.Errorf("the default is %q, %v", s, err)
	}
	if s, err := ParseExitStyle("terraform"); err != nil || s != ExitTerraform {
		t.Errorf("terraform is %q, %v", s, err)
	}
	if w, err := ParseColor(""); err != nil || w != ColorAuto {
		t.Errorf("the default colour is %q, %v", w, err)
	}
	for name, err := range map[string]error{
		"fail-on":    second(ParseFailOn("urgent")),
		"exit style": second(ParseExitStyle("make")),
		"color":      second(ParseColor("maybe")),
	} {
		if err == nil {
			t.Errorf("%s takes an unknown word", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestWarningsAreNoObstacle checks that a remark about the objects leaves a
// report complete, and that anything else that was met does not.
func TestWarningsAreNoObstacle(t *testing.T) {
	for warning, want := range map[bool]Outcome{true: OutcomeInSync, false: OutcomeIncomplete} {
		r := &Report{Problems: []Problem{{Reason: "UnknownField", Message: "spec.vpc is not a field", Warning: warning}}}
		if got := r.Outcome(DefaultFailOn); got != want {
			t.Errorf("warning %v: outcome %v, want %v", warning, got, want)
		}
	}
}
