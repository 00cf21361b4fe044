package notify

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// One message for a cluster and sweep, the worst first, with what differs,
// what follows and who did it; nothing while nothing changes; what went, once.
func TestWebhook(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, routeTo(t, h.url("?template=json")))
	w.consume(swept())
	o := swept(
		drift("a"),
		drift("b", of(policies.Critical), func(d *policies.Decision) {
			d.Blocked = []policies.Block{{By: policies.GateWindow}, {By: policies.GateApproval}}
		}),
		drift("c", of(policies.Low), in(policies.ModeObserve), status(detector.Missing)),
		drift("d", status(detector.NotChecked)), drift("e", status(detector.Foreign)),
		drift("f", func(d *policies.Decision) { d.Ignored = &policies.Ignored{} }),
	)
	o.ChangedBy = map[providers.ID]string{{Kind: "Instance", Name: "i-b"}: "arn:aws:sts::123456789012:assumed-role/Admin/alice"}
	w.consume(o)
	w.until("nothing was sent", func() bool { return len(h.seen()) == 1 })
	want := payload{
		"title":   "Holdfast: prod/eu-1: 3 new findings (1 critical)",
		"cluster": "prod/eu-1", "severity": "critical", "new": "3", "resolved": "0", "remediations": "0", "notListed": "0",
		"message": "critical: AWSMachine b, Instance i-b: /instanceType is m5.xlarge, wanted m5.large; replace held back by Window, Approval; changed by arn:aws:sts::123456789012:assumed-role/Admin/alice\n" +
			"high: AWSMachine a, Instance i-a: /instanceType is m5.xlarge, wanted m5.large; replace\n" +
			"low: AWSMachine c, Instance i-c is missing: the reason; replace (mode observe)",
	}
	if diff := cmp.Diff([]payload{want}, h.payloads(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 3 {
		w.consume(o)
	}
	w.settled()
	if n := len(h.seen()); n != 1 {
		t.Fatalf("%d messages while nothing changed: %v", n, h.payloads(t)[1:])
	}
	w.consume(swept(drift("a")))
	w.until("nothing was sent", func() bool { return len(h.seen()) == 2 })
	if got := h.payloads(t)[1]; got["title"] != "Holdfast: prod/eu-1: 2 resolved" || got["message"] != "resolved: AWSMachine b, Instance i-b: /instanceType\nresolved: AWSMachine c, Instance i-c" {
		t.Errorf("got %v", got)
	}
}

// After a start, what is there is told of as such, and once.
func TestOpenAtStart(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, routeTo(t, h.url("?template=json")))
	w.consume(swept(drift("a")))
	w.until("nothing was sent", func() bool { return len(h.seen()) == 1 })
	if got := h.payloads(t)[0]["title"]; got != "Holdfast: prod/eu-1: 1 open finding (1 high)" {
		t.Errorf("title %q", got)
	}
}

// What was not compared, or not clearly seen, is not resolved.
func TestResolvedOnlyWhenSeen(t *testing.T) {
	other := aws
	other.Region = "us-east-1"
	unread := func(name string) policies.Decision {
		d := drift(name, status(detector.Unknown))
		d.Finding.Resource = detector.ResourceRef{Provider: "aws", Kind: "AWSMachine", ID: "prod/" + name}
		return d
	}
	for name, tc := range map[string]struct {
		outcome *sweep.Outcome
		want    int
	}{
		"gone":                      {swept(), 2},
		"one is gone":               {swept(drift("a")), 1},
		"the owner was not read":    {swept(unread("a"), unread("b")), 0},
		"one owner was not read":    {swept(unread("a")), 1},
		"the resource is unknown":   {swept(drift("a", status(detector.Unknown)), drift("b", status(detector.NotChecked))), 0},
		"another scope":             {&sweep.Outcome{Scope: other, Result: &sweep.Result{}}, 0},
		"owners without a scope":    {&sweep.Outcome{Result: &sweep.Result{}}, 0},
		"a targeted read of others": {read([]string{"c"}), 0},
		"a targeted read of one":    {read([]string{"a"}), 1},
		"the cluster is gone":       {&sweep.Outcome{Gone: []detector.ClusterRef{{Namespace: "prod", Name: "eu-1"}}}, 0},
		"it drifts in another way":  {swept(drift("a"), drift("b", func(d *policies.Decision) { d.Finding.Diffs[0].Path = "/imageId" })), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(start)
			if n := len(s.learn(swept(drift("a"), drift("b")))); n != 2 {
				t.Fatalf("%d pieces of news", n)
			}
			resolved := 0
			for _, n := range s.learn(tc.outcome) {
				if n.about == AboutResolved {
					resolved++
				}
			}
			if resolved != tc.want {
				t.Errorf("%d are resolved, want %d", resolved, tc.want)
			}
		})
	}
}

// A targeted read adds to what is told, and never takes others' findings for
// its own.
func TestTargetedRead(t *testing.T) {
	s := newState(start)
	s.learn(swept(drift("a")))
	news := s.learn(read([]string{"b"}, drift("a"), drift("b"), drift("c")))
	if len(news) != 1 || news[0].owner.Name != "b" {
		t.Errorf("news %+v", news)
	}
	if again := s.learn(swept(drift("a"), drift("b"))); len(again) != 0 {
		t.Errorf("the sweep tells again: %+v", again)
	}
}

// A storm is few messages, each bounded and with true counts; what came and
// went before anybody could be told is not told.
func TestGroupingAndBounds(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, routeTo(t, h.url("?template=json"), func(r *Route) { r.MaxLength = 1000; r.Rate.Every.Duration = time.Hour }))
	var all []policies.Decision
	for i := range 1500 {
		all = append(all, drift("m-"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+itoa(i)))
	}
	w.consume(swept())
	w.consume(swept(all...))
	w.until("nothing was sent", func() bool { return len(h.seen()) == 1 })
	p := h.payloads(t)[0]
	if n := len([]rune(p["message"])); n > 1000 || n < 500 {
		t.Errorf("the message has %d characters", n)
	}
	if p["new"] != "1000" || p["notListed"] != "500" || !strings.Contains(p["message"], "more: see") || !strings.HasSuffix(p["title"], "1000 new findings (1000 high), 500 not listed") {
		t.Errorf("title %q, new %s, not listed %s", p["title"], p["new"], p["notListed"])
	}
	// While the rate lets nothing go, a finding comes and goes, another stays.
	w.consume(swept(append(all, drift("fleeting"), drift("lasting"))...))
	w.consume(swept(append(all, drift("lasting"))...))
	w.until("nothing was sent", func() bool { w.clock.Step(time.Minute); return len(h.seen()) == 2 })
	if got := h.payloads(t)[1]; got["new"] != "1" || got["resolved"] != "0" || !strings.Contains(got["message"], "lasting") {
		t.Errorf("got %v", got)
	}
}

func itoa(i int) string {
	return strings.TrimLeft(string([]byte{byte('0' + i/1000), byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)}), "")
}

// Each cluster has a message of its own.
func TestMessagePerCluster(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, routeTo(t, h.url("?template=json")))
	w.consume(swept(drift("a"), drift("b", inCluster("eu-2")), drift("c", inCluster("eu-2"))))
	w.until("not two messages", func() bool { return len(h.seen()) == 2 })
	if got := joined(h.payloads(t), "cluster"); got != "prod/eu-1\nprod/eu-2" {
		t.Errorf("clusters %q", got)
	}
}

func TestFilters(t *testing.T) {
	for name, tc := range map[string]struct {
		only Filter
		want string
	}{
		"nothing":     {Filter{}, "a b c"},
		"severity":    {Filter{Severity: policies.High}, "a b"},
		"cluster":     {Filter{Clusters: []string{"prod/eu-[13]", "*/us-*"}}, "a"},
		"all of prod": {Filter{Clusters: []string{"prod/*"}}, "a b c"},
		"mode":        {Filter{Modes: []policies.Mode{policies.ModeObserve}}, "c"},
		"resolved":    {Filter{About: []About{AboutResolved}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range newState(start).learn(swept(drift("a", of(policies.Critical)), drift("b", inCluster("eu-2")), drift("c", inCluster("eu-2"), of(policies.Low), in(policies.ModeObserve)))) {
				if tc.only.tells(n) {
					got = append(got, n.owner.Name)
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("told of %q, want %q", s, tc.want)
			}
		})
	}
}

// A route that is not told of what goes is not told of what came and went
// before it could be told either.
func TestFilteredResolution(t *testing.T) {
	r := newRoute(Route{Name: "ops", Only: Filter{About: []About{AboutDrift}}}, nil, nil)
	s := newState(start)
	r.offer(s.learn(swept(drift("a"), drift("b"))))
	r.offer(s.learn(swept(drift("b"))))
	b := r.take()
	if len(b.news) != 1 || r.waiting() {
		t.Errorf("%d pieces of news wait", len(b.news))
	}
}

// A failing service is tried again with growing pauses, and given up in the
// end; each is counted, and what comes next is told.
func TestRetries(t *testing.T) {
	t.Run("for a while", func(t *testing.T) {
		h := newHook(t)
		h.answer = func(n int) int {
			if n <= 3 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}
		w := newWorld(t, routeTo(t, h.url("")))
		w.consume(swept(drift("a")))
		w.until("not sent", func() bool { return w.count(outcomeSent) == 1 })
		if n := w.count(outcomeRetried); n != 3 {
			t.Errorf("%d retries", n)
		}
	})
	t.Run("for good", func(t *testing.T) {
		h := newHook(t)
		h.answer = func(n int) int {
			if n <= maxTries {
				return http.StatusBadGateway
			}
			return http.StatusOK
		}
		w := newWorld(t, routeTo(t, h.url("?template=json")))
		w.consume(swept(drift("a")))
		w.until("not given up", func() bool { return w.count(outcomeDead) == 1 })
		if waited := w.clock.Since(start); waited < 10*time.Minute {
			t.Errorf("given up after %s", waited)
		}
		w.consume(swept(drift("a"), drift("b")))
		w.until("not sent", func() bool { return w.count(outcomeSent) == 1 })
		if got := h.payloads(t)[maxTries]["message"]; !strings.Contains(got, "Instance i-b") || strings.Contains(got, "i-a") {
			t.Errorf("message %q", got)
		}
	})
}

// A service that never answers blocks neither a sweep nor the end, and holds no
// more than one try.
func TestServiceHangs(t *testing.T) {
	h := newHook(t)
	release := make(chan struct{})
	h.answer = func(int) int { <-release; return http.StatusOK }
	w := newWorld(t, routeTo(t, h.url("")))
	w.consume(swept(drift("a")))
	w.until("no request", func() bool { return len(h.seen()) == 1 })
	began := time.Now()
	for i := range 1000 {
		w.consume(swept(drift("m" + itoa(i))))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("1,000 outcomes took %s", took)
	}
	w.clock.Step(sendTimeout)
	for w.count(outcomeRetried) == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 100 {
		w.clock.Step(10 * time.Second)
		time.Sleep(time.Millisecond)
	}
	if n := len(h.seen()); n != 1 {
		t.Errorf("%d requests hang at once", n)
	}
	close(release)
	w.until("it does not go on", func() bool { return w.count(outcomeSent) > 0 })
}

// There is room for so many clusters and no more; what has none is counted.
func TestRoomIsBounded(t *testing.T) {
	r := newRoute(Route{Name: "ops"}, nil, nil)
	var all []*news
	for i := range maxClusters + 7 {
		all = append(all, &news{about: AboutDrift, key: itoa(i), cluster: detector.ClusterRef{Name: itoa(i)}})
	}
	r.offer(all)
	if r.counts[outcomeDropped] != 7 || r.waits.size() != maxClusters {
		t.Errorf("dropped %d, %d wait", r.counts[outcomeDropped], r.waits.size())
	}
}

func record(phase v1alpha1.RemediationPhase, mods ...func(*v1alpha1.Remediation)) *v1alpha1.Remediation {
	r := &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "a-1f2e", UID: types.UID("uid-1")},
		Spec: v1alpha1.RemediationSpec{
			ClusterName: "eu-1", Owner: v1alpha1.ObjectRef{Kind: "AWSMachine", Name: "a"}, Severity: "high", Action: "replace",
			Resource: v1alpha1.ResourceRef{Kind: "Instance", ID: "i-a"}, ChangedBy: "alice",
		},
		Status: v1alpha1.RemediationStatus{Phase: phase, Reason: "Attempts", Message: "tried 3 times"},
	}
	for _, mod := range mods {
		mod(r)
	}
	return r
}

// Phases that somebody should know of are told, each once.
func TestRemediations(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, routeTo(t, h.url("?template=json")))
	for _, phase := range []v1alpha1.RemediationPhase{v1alpha1.PhasePending, v1alpha1.PhaseRunning, v1alpha1.PhaseVerifying, v1alpha1.PhaseBlocked, v1alpha1.PhaseCancelled} {
		w.Remediated(record(phase))
	}
	w.settled()
	if got := h.seen(); len(got) != 0 {
		t.Fatalf("told of %v", got)
	}
	for i, phase := range []v1alpha1.RemediationPhase{v1alpha1.PhaseAwaitingApproval, v1alpha1.PhaseFailed, v1alpha1.PhaseLatched, v1alpha1.PhaseSucceeded} {
		r := record(phase)
		w.Remediated(r)
		w.Remediated(r)
		w.until("nothing was sent", func() bool { return len(h.seen()) == i+1 })
	}
	w.settled()
	got := joined(h.payloads(t), "title") + "\n" + joined(h.payloads(t), "message")
	want := `Holdfast: prod/eu-1: 1 remediation awaiting approval
Holdfast: prod/eu-1: 1 remediation failed
Holdfast: prod/eu-1: 1 remediation latched
Holdfast: prod/eu-1: 1 remediation succeeded
remediation awaiting approval: replace of AWSMachine a, Instance i-a by a-1f2e; Attempts: tried 3 times; changed by alice
remediation failed: replace of AWSMachine a, Instance i-a by a-1f2e; Attempts: tried 3 times; changed by alice
remediation latched: replace of AWSMachine a, Instance i-a by a-1f2e; Attempts: tried 3 times; changed by alice
remediation succeeded: replace of AWSMachine a, Instance i-a by a-1f2e; Attempts: tried 3 times; changed by alice`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What ended before the start was told of then.
	w.Remediated(record(v1alpha1.PhaseLatched, func(r *v1alpha1.Remediation) {
		r.UID = "uid-2"
		r.Status.EndedAt = &metav1.Time{Time: start.Add(-time.Minute)}
	}))
	w.settled()
	if n := len(h.seen()); n != 4 {
		t.Errorf("told of an old end: %v", h.seen()[4:])
	}
}

// A URL is read for each message, so that a new credential needs no restart.
func TestSources(t *testing.T) {
	first, second := newHook(t), newHook(t)
	t.Run("file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "url")
		write := func(url string) {
			if err := os.WriteFile(file, []byte(url+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(first.url(""))
		w := newWorld(t, Route{Name: "ops", URL: Source{File: file}, Rate: Rate{Every: metav1.Duration{Duration: time.Second}}})
		w.consume(swept(drift("a")))
		w.until("the first hook got nothing", func() bool { return len(first.seen()) == 1 })
		write(second.url(""))
		w.consume(swept(drift("a"), drift("b")))
		w.until("the second hook got nothing", func() bool { return len(second.seen()) == 1 })
	})
	t.Run("Secret", func(t *testing.T) {
		reader := fake.NewClientBuilder().WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "hooks"}, Data: map[string][]byte{"ops": []byte(first.url(""))},
		}).Build()
		source := Source{Secret: &SecretKey{Namespace: "holdfast", Name: "hooks", Key: "ops"}}
		a, err := source.read(t.Context(), reader)
		if err != nil || a.raw != first.url("") {
			t.Errorf("%v, %v", a, err)
		}
		source.Secret.Key = "other"
		if _, err := source.read(t.Context(), reader); err == nil || !strings.Contains(err.Error(), `no key "other"`) {
			t.Errorf("error %v", err)
		}
		if _, err := New(Config{Routes: []Route{{Name: "ops", URL: source}}}, nil, nil); err == nil {
			t.Error("a Secret without an API server is no error")
		}
	})
	t.Run("none yet", func(t *testing.T) {
		source := Source{Env: "HOLDFAST_TEST_NOT_SET"}
		if _, err := source.read(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "HOLDFAST_TEST_NOT_SET is not set") {
			t.Errorf("error %v", err)
		}
	})
}

func TestValidate(t *testing.T) {
	good := Route{Name: "ops", URL: Source{Env: "X"}}
	for name, tc := range map[string]struct {
		mod  func(*Route)
		want string
	}{
		"good":       {func(*Route) {}, ""},
		"name":       {func(r *Route) { r.Name = "Ops team" }, "want 1 to 63"},
		"no URL":     {func(r *Route) { r.URL = Source{} }, "exactly one of file, env and secret"},
		"two URLs":   {func(r *Route) { r.URL.File = "x" }, "exactly one"},
		"secret":     {func(r *Route) { r.URL = Source{Secret: &SecretKey{Name: "x"}} }, "namespace, name and key"},
		"severity":   {func(r *Route) { r.Only.Severity = "urgent" }, `"urgent" is none of`},
		"mode":       {func(r *Route) { r.Only.Modes = []policies.Mode{"off"} }, `"off" is none of`},
		"cluster":    {func(r *Route) { r.Only.Clusters = []string{"eu-1"} }, "NAMESPACE/NAME"},
		"pattern":    {func(r *Route) { r.Only.Clusters = []string{"prod/["} }, "NAMESPACE/NAME"},
		"about":      {func(r *Route) { r.Only.About = []About{"All"} }, `"All" is none of`},
		"rate":       {func(r *Route) { r.Rate.Burst = -1 }, "negative"},
		"max length": {func(r *Route) { r.MaxLength = 10 }, "at least 400"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			tc.mod(&r)
			err := (&Config{Routes: []Route{r}}).Validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	if err := (&Config{Routes: []Route{good, good}}).Validate(); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("error %v", err)
	}
}

func TestMetrics(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, routeTo(t, h.url("")))
	w.consume(swept(drift("a")))
	w.until("not sent", func() bool { return w.count(outcomeSent) == 1 })
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.Notifier)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			got = append(got, fmt.Sprintf("%s %v", line, m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	want := []string{
		"holdfast_notifications_total outcome=dead route=ops 0", "holdfast_notifications_total outcome=dropped route=ops 0",
		"holdfast_notifications_total outcome=retried route=ops 0", "holdfast_notifications_total outcome=sent route=ops 1",
		"holdfast_notifications_waiting route=ops 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A cluster that is read by another identity, and so in another scope, keeps
// what was told of it.
func TestScopeMoves(t *testing.T) {
	s := newState(start)
	s.learn(swept(drift("a")))
	moved := aws
	moved.Identity = "AWSClusterRoleIdentity/team"
	there := func(ds ...policies.Decision) *sweep.Outcome { o := swept(ds...); o.Scope = moved; return o }
	if n := s.learn(there(drift("a"))); len(n) != 0 {
		t.Errorf("told again: %+v", n)
	}
	if n := s.learn(swept()); len(n) != 0 {
		t.Errorf("the old scope resolves it: %+v", n)
	}
	if n := s.learn(there()); len(n) != 1 || n[0].about != AboutResolved {
		t.Errorf("not resolved: %+v", n)
	}
}
