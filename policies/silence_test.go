package policies

import (
	"cmp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-io/holdfast/detector"
)

// TestWhatNobodySawIsNotSilenced: what hides drift does not hide by the way
// that nobody could look, or a report that saw nothing would say that all is
// in sync.
func TestWhatNobodySawIsNotSilenced(t *testing.T) {
	ignore := func(target string) string {
		return "spec:\n  ignore:\n  - {reason: test, target: {" + target + "}}\n"
	}
	rule := func(target string) string {
		return "spec:\n  rules:\n  - {id: quiet, target: {" + target + "}, action: ignore}\n"
	}
	statuses := []detector.Status{detector.Drifted, detector.Missing, detector.Unexpected, detector.Foreign, detector.NotChecked, detector.Unknown}
	drift := []detector.Status{detector.Drifted, detector.Missing, detector.Unexpected}
	tests := map[string]struct {
		spec string
		mod  inputMod
		want []detector.Status // silenced
	}{
		"entry":                         {spec: ignore("provider: aws"), want: drift},
		"entry of an id":                {spec: ignore(`id: "*"`), want: drift},
		"entry with an empty list":      {spec: ignore("provider: aws, statuses: []"), want: drift},
		"entry that names both":         {spec: ignore("provider: aws, statuses: [NotChecked, Unknown]"), want: []detector.Status{detector.NotChecked, detector.Unknown}},
		"entry that names one":          {spec: ignore("provider: aws, statuses: [Drifted, Unknown]"), want: []detector.Status{detector.Drifted, detector.Unknown}},
		"entry that names foreign":      {spec: ignore("provider: aws, statuses: [Foreign]"), want: []detector.Status{detector.Foreign}},
		"entry with when alone":         {spec: "spec:\n  ignore:\n  - {reason: test, when: \"true\"}\n", want: drift},
		"rule":                          {spec: rule("provider: aws"), want: append([]detector.Status{detector.Foreign}, drift...)},
		"rule that names it":            {spec: rule("provider: aws, statuses: [NotChecked]"), want: []detector.Status{detector.NotChecked}},
		"built-in rule made to":         {spec: "spec:\n  rules:\n  - {id: any-not-checked, action: ignore}\n", want: []detector.Status{detector.NotChecked, detector.Unknown}},
		"annotation on the Cluster":     {spec: "spec: {}\n", mod: cluster(func(c *ClusterFacts) { c.Annotations = map[string]string{AnnotationIgnore: "*"} }), want: append([]detector.Status{detector.Foreign}, drift...)},
		"annotation on the object":      {spec: "spec: {}\n", mod: owner(workerRef(0), func(o *OwnerFacts) { o.Annotations = map[string]string{AnnotationIgnore: "*"} }), want: append([]detector.Status{detector.Foreign}, drift...)},
		"nothing that would silence it": {spec: "spec: {}\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []detector.Status
			for _, s := range statuses {
				f := instanceFinding(workerRef(0))
				f.Status = s
				f.Fingerprint = detector.Fingerprint(&f)
				mods := []inputMod{withPolicy(t, tc.spec), withFindings(f)}
				if tc.mod != nil {
					mods = append(mods, tc.mod)
				}
				for _, d := range Decide(makeInput(t, mods...)) {
					if d.Action == Ignore || d.Ignored != nil {
						got = append(got, s)
					}
				}
			}
			if diff := gocmp.Diff(tc.want, got, cmpopts.SortSlices(cmp.Less[detector.Status])); diff != "" {
				t.Errorf("silenced (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHidingIsWarnedOf: where a policy says that it hides what nobody saw,
// lint says what that comes to.
func TestHidingIsWarnedOf(t *testing.T) {
	tests := map[string]struct {
		spec string
		want []string
	}{
		"entry": {spec: "spec:\n  ignore:\n  - {reason: x, target: {kind: Instance, statuses: [Drifted, NotChecked]}}\n",
			want: []string{"6:62: warning: this entry hides what is NotChecked: a report that could not look then ends as if all were in sync; " + hidesHint}},
		"rule": {spec: "spec:\n  rules:\n  - {id: a, target: {kind: Instance, statuses: [Unknown]}, action: ignore}\n",
			want: []string{`6:68: warning: rule "a" hides what is Unknown: a report that could not look then ends as if all were in sync; use observe, or name an id or a name so that little is hidden`}},
		"built-in rule": {spec: "spec:\n  rules:\n  - {id: any-not-checked, action: ignore}\n",
			want: []string{`6:35: warning: rule "any-not-checked" hides what is NotChecked: a report that could not look then ends as if all were in sync; use observe, or name an id or a name so that little is hidden`}},
		"drift": {spec: "spec:\n  ignore:\n  - {reason: x, target: {kind: Instance}}\n  rules:\n  - {id: a, target: {kind: Instance}, action: ignore}\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, problemsOf(head+tc.spec)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
