package report

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Two runs on one state give the same bytes, in whatever order the parts came.
func TestBuildIsStable(t *testing.T) {
	want := render(t, Build(withIgnored(showcase())), FormatJSON, Style{})
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		in := withIgnored(showcase())
		random.Shuffle(len(in.Decisions), func(i, j int) { in.Decisions[i], in.Decisions[j] = in.Decisions[j], in.Decisions[i] })
		random.Shuffle(len(in.Clusters), func(i, j int) { in.Clusters[i], in.Clusters[j] = in.Clusters[j], in.Clusters[i] })
		random.Shuffle(len(in.Problems), func(i, j int) { in.Problems[i], in.Problems[j] = in.Problems[j], in.Problems[i] })
		for _, c := range in.Clusters {
			random.Shuffle(len(c.Owners), func(i, j int) { c.Owners[i], c.Owners[j] = c.Owners[j], c.Owners[i] })
		}
		if diff := cmp.Diff(string(want), string(render(t, Build(in), FormatJSON, Style{}))); diff != "" {
			t.Fatalf("another order of input gives another report:\n%s", diff)
		}
	}
}

func TestBuildLeavesItsInputAlone(t *testing.T) {
	in, copied := withIgnored(sample()), withIgnored(sample())
	r := Build(in)
	for i := range r.Clusters {
		for j := range r.Clusters[i].Owners {
			r.Clusters[i].Owners[j].Name = "changed"
			for k := range r.Clusters[i].Owners[j].InSync {
				r.Clusters[i].Owners[j].InSync[k].ID = "changed"
			}
		}
	}
	for i := range r.Findings {
		for j := range r.Findings[i].Warnings {
			r.Findings[i].Warnings[j] = "changed"
		}
		for j := range r.Findings[i].Diffs {
			r.Findings[i].Diffs[j].Path = "changed"
		}
	}
	if diff := cmp.Diff(copied, in); diff != "" {
		t.Error(diff)
	}
}

func TestSummary(t *testing.T) {
	want := Summary{
		Owners: 18, Checked: 21, Drifted: 11, Missing: 1, Unexpected: 1, NotChecked: 2, Unknown: 1, Ignored: 1, Foreign: 1,
		BySeverity: map[policies.Severity]int{policies.Critical: 2, policies.High: 4, policies.Medium: 3, policies.Low: 3, policies.Info: 1},
		WouldPatch: 4, WouldReplace: 5, Blocked: 9,
	}
	for name, in := range map[string]BuildInput{"listed": withIgnored(sample()), "not listed": sample()} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, Build(in).Summary); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIgnoredAndForeignAreListedOnDemand(t *testing.T) {
	count := func(r *Report) (n int) {
		for i := range r.Findings {
			if !listed(&r.Findings[i]) {
				n++
			}
		}
		return n
	}
	if n := count(Build(sample())); n != 0 {
		t.Errorf("%d silenced findings are listed without being asked for", n)
	}
	if n := count(Build(withIgnored(sample()))); n != 2 {
		t.Errorf("%d silenced findings are listed, want 2", n)
	}
}

func TestARuleThatIgnoresSaysSo(t *testing.T) {
	in := withIgnored(sample())
	in.Decisions = []policies.Decision{decision("eu-1", awsMachine("eu-1", "cp-0"), resource("aws", "Instance", "i-1", ""),
		with(removed("/tags/a", "b")), severity(policies.Low, policies.Ignore))}
	want := &Ignored{By: "tags", Reason: "tags can be written in place"}
	r := Build(in)
	if diff := cmp.Diff(want, r.Findings[0].Ignored); diff != "" {
		t.Error(diff)
	}
	if r.Summary.Ignored != 1 || r.Summary.Drifted != 0 {
		t.Errorf("summary counts %d ignored and %d drifted", r.Summary.Ignored, r.Summary.Drifted)
	}
}

// Secrets never leave: a sensitive value is in no output, in whatever format.
func TestSensitiveValuesAreMaskedEverywhere(t *testing.T) {
	in := sample()
	secret := func(path string, want, have providers.Value) detector.Diff {
		return detector.Diff{Path: path, Want: want, Have: have, Type: detector.Changed, Sensitive: true}
	}
	in.Decisions = append(in.Decisions, decision("eu-1", awsMachine("eu-1", "cp-0"), resource("aws", "Instance", "i-9", ""),
		with(secret("/userData", providers.String("DIGEST-1"), providers.String("DIGEST-2")),
			secret("/extraConfig/guestinfo", providers.Value{}, providers.Set("DIGEST-3")))))
	r := Build(in)
	in.Previous = r
	for _, f := range Formats() {
		if out := render(t, Build(in), Format(f), Style{}); bytes.Contains(out, []byte("DIGEST")) {
			t.Errorf("%s shows a sensitive value", f)
		}
	}
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Resource.ID == "i-9" })
	if d := r.Findings[i].Diffs[1]; !d.Want.IsAbsent() || d.Have.Text() != masked {
		t.Errorf("diff shows %q -> %q: absence is no secret, the value is", d.Want.Text(), d.Have.Text())
	}
}

func TestCoverageRatio(t *testing.T) {
	cases := map[string]struct {
		checked, not int
		ratio        float64
		percent      string
	}{
		"nothing wanted": {0, 0, 1, "none"},
		"all":            {7, 0, 1, "100%"},
		"none":           {0, 3, 0, "0%"},
		"nearly all":     {99_999, 1, 0.99999, "99.9%"},
		"half":           {1, 1, 0.5, "50%"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := coverageOf(c.checked, c.not)
			if got.Ratio != c.ratio || percent(got) != c.percent {
				t.Errorf("ratio %v, shown as %s", got.Ratio, percent(got))
			}
		})
	}
}

func TestRoundTrip(t *testing.T) {
	for name, in := range map[string]BuildInput{"ignored": withIgnored(sample()), "compared": compared(), "showcase": sample()} {
		t.Run(name, func(t *testing.T) {
			r := Build(in)
			back, err := Read(bytes.NewReader(render(t, r, FormatJSON, Style{})))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, back); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"no JSON":      {"apiVersion: v1", "not the JSON that `-o json` writes"},
		"cut off":      {`{"apiVersion":"report.holdfast.io/v1alpha1","findings":[`, "not the JSON"},
		"another kind": {`{"apiVersion":"v1","kind":"List"}`, `apiVersion is "v1", want "report.holdfast.io/v1alpha1"`},
		"a fraction":   {`{"apiVersion":"report.holdfast.io/v1alpha1","findings":[{"diffs":[{"want":1.5}]}]}`, "1.5 is not a whole number"},
		"empty":        {"", "not the JSON"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59900 * time.Millisecond: "59s", time.Minute: "1m", 59*time.Minute + 59*time.Second: "59m",
		time.Hour: "1h", 10 * time.Hour: "10h", 47*time.Hour + 59*time.Minute: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := age(at, at.Add(-d)); got != want {
			t.Errorf("%v is shown as %q, want %q", d, got, want)
		}
	}
}
