package remediator_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/remediator"
)

// TestSpecHidesSecrets: the values of sensitive fields are in no record.
func TestSpecHidesSecrets(t *testing.T) {
	d := aDecision(func(d *policies.Decision) {
		d.Finding.Diffs = []detector.Diff{{Path: "/userData", Want: providers.String("CANARY-1"), Have: providers.String("CANARY-2"), Sensitive: true, Type: detector.Changed}}
	})
	spec := remediator.Spec(d, remediator.Subject{})
	if text := fmt.Sprintf("%+v", spec); strings.Contains(text, "CANARY") {
		t.Error(text)
	}
	if c := spec.Plan[0]; !c.Sensitive || c.Want != nil || c.Seen != nil {
		t.Errorf("%+v", c)
	}
}

// TestSpecIsBounded: what a cloud says is one bounded line without what cannot
// be seen, however much there is of it.
func TestSpecIsBounded(t *testing.T) {
	hostile := "a\x1b[2J\u202e\nb\x00\U000e0041 " + strings.Repeat("x\u0301\u0301\u0301\u0301\u0301", 5000)
	d := aDecision(func(d *policies.Decision) {
		d.Finding.Diffs = nil
		for i := range 500 {
			d.Finding.Diffs = append(d.Finding.Diffs, detector.Diff{Path: fmt.Sprintf("/tags/%d%s", i, hostile), Want: providers.String(hostile), Have: providers.String(hostile)})
		}
		d.Finding.Resource.Name = hostile
	})
	spec := remediator.Spec(d, remediator.Subject{ChangedBy: hostile})
	if len(spec.Plan) != 200 {
		t.Errorf("%d changes", len(spec.Plan))
	}
	texts := []string{spec.ChangedBy, spec.Resource.Name}
	for _, c := range spec.Plan {
		texts = append(texts, c.Path, *c.Want, *c.Seen)
	}
	for _, s := range texts {
		if n := len([]rune(s)); n > 240 || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) }) {
			t.Fatalf("%d characters: %q", n, s)
		}
	}
}

// TestName: the same for the same drift, another for another owner of the same
// name, and a name that the API server takes.
func TestName(t *testing.T) {
	long := owner
	long.Name = strings.Repeat("a.", 126)
	other := owner
	other.UID = "uid-2"
	a := remediator.Name(owner, "fp")
	if a != remediator.Name(owner, "fp") || a == remediator.Name(other, "fp") || a == remediator.Name(owner, "fp2") || !strings.HasPrefix(a, owner.Name+"-") {
		t.Error(a)
	}
	for _, o := range []providers.OwnerRef{owner, long} {
		if errs := validation.IsDNS1123Subdomain(remediator.Name(o, "fp")); len(errs) > 0 {
			t.Errorf("%s: %v", remediator.Name(o, "fp"), errs)
		}
	}
}

// TestToken: the same for every try of an attempt, another for the next.
func TestToken(t *testing.T) {
	r := aRecord(v1alpha1.PhaseRunning)
	a := remediator.Token(r)
	if a != remediator.Token(r.DeepCopy()) || len(a) > 64 || strings.Trim(a, "0123456789abcdef-") != "" {
		t.Error(a)
	}
	r.Status.AttemptCount++
	if a == remediator.Token(r) {
		t.Error("the next attempt has the same token")
	}
}

// TestChangeOf: a change has the values of its record's decision and nothing
// else, but for one that stops the machine, which also starts it again.
func TestChangeOf(t *testing.T) {
	d := *aDecision()
	other := *aDecision(func(d *policies.Decision) {
		d.Finding.Fingerprint = "other"
		d.Finding.Diffs = []detector.Diff{{Path: "/tags/b", Want: providers.String("y")}}
	})
	stopped := *aDecision(func(d *policies.Decision) {
		d.Finding.Fingerprint = "stopped"
		d.Finding.Diffs = []detector.Diff{{Path: "/state", Want: providers.String("running"), Have: providers.String("stopped")}}
	})
	elsewhere := *aDecision(func(d *policies.Decision) { d.Finding.Owner.UID = "uid-9" })
	paths := func(r *v1alpha1.Remediation, drained bool, ds ...policies.Decision) string {
		c, ok := remediator.ChangeOf(r, remediator.Read{Decisions: ds}, drained)
		var out []string
		for _, f := range c.Fields {
			out = append(out, f.Path)
		}
		return fmt.Sprint(out, ok, c.Disruptive)
	}
	r := aRecord(v1alpha1.PhaseRunning)
	disruptive := aRecord(v1alpha1.PhaseRunning, func(r *v1alpha1.Remediation) { r.Spec.Disruptive = true })
	for _, tc := range []struct{ got, want string }{
		{paths(r, false, d, other, stopped, elsewhere), "[/tags/a] true false"},
		{paths(r, true, other), "[] false false"},
		{paths(disruptive, true, d, other, stopped), "[/tags/a /state] true true"},
		{paths(disruptive, true, stopped), "[/state] true true"},
		{paths(disruptive, false, d), "[/tags/a] true false"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}

// TestVerdictOn: what was not seen says nothing.
func TestVerdictOn(t *testing.T) {
	r := aRecord(v1alpha1.PhaseVerifying)
	finding := func(status detector.Status, mods ...func(*detector.Finding)) policies.Decision {
		d := *aDecision(func(d *policies.Decision) {
			d.Finding.Status, d.Finding.Fingerprint, d.Finding.Diffs = status, "x", nil
			d.Finding.Want, d.Finding.Have = &providers.Resource{}, &providers.Resource{}
			for _, m := range mods {
				m(&d.Finding)
			}
		})
		return d
	}
	seen := func(f *detector.Finding) { f.Have.Closed = []string{"/tags"} }
	unseen := func(f *detector.Finding) { f.Have = nil }
	nothing := func(f *detector.Finding) { f.Want, f.Have, f.Resource.ID = nil, nil, "prod/w-1" }
	other := func(f *detector.Finding) { f.Resource.ID, f.Have = "i-2", nil }
	here := map[providers.OwnerRef]bool{owner: true}
	tests := map[string]struct {
		owners, exist  map[providers.OwnerRef]bool
		decisions      []policies.Decision
		clear, remains bool
		gone           bool
	}{
		"in sync":              {owners: here, exist: here, clear: true},
		"not among those read": {exist: here},
		"gone":                 {owners: here, clear: true, gone: true},
		"drifts":               {owners: here, exist: here, decisions: []policies.Decision{*aDecision()}, clear: true, remains: true},
		"some of it drifts":    {owners: here, exist: here, decisions: []policies.Decision{*aDecision(func(d *policies.Decision) { d.Finding.Fingerprint = "part" })}, clear: true, remains: true},
		"not readable":         {owners: here, exist: here, decisions: []policies.Decision{finding(detector.Unknown, unseen)}},
		"nothing readable":     {owners: here, exist: here, decisions: []policies.Decision{finding(detector.NotChecked, nothing)}},
		"these values not":     {owners: here, exist: here, decisions: []policies.Decision{finding(detector.NotChecked)}},
		"other values not":     {owners: here, exist: here, decisions: []policies.Decision{finding(detector.NotChecked, seen)}, clear: true},
		"another resource not": {owners: here, exist: here, decisions: []policies.Decision{finding(detector.Unknown, other)}, clear: true},
	}
	for name, tc := range tests {
		v := remediator.VerdictOn(r, remediator.Read{At: now, SeenAt: now, Owners: tc.owners, Exists: tc.exist, Decisions: tc.decisions})
		if v.Clear != tc.clear || v.Remains != tc.remains || v.OwnerGone != tc.gone {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
