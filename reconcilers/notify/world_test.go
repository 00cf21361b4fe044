package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hook is a real HTTP server that stands for a webhook.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	// answer, if set, gives the status of the nth request, from 1.
	answer func(n int) int
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.bodies = append(h.bodies, string(body))
		n := len(h.bodies)
		answer := h.answer
		h.mu.Unlock()
		if answer != nil {
			w.WriteHeader(answer(n))
		}
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return h
}

// url is the hook's, for shoutrrr.
func (h *hook) url(query string) string { return "generic+" + h.URL + "/hook" + query }

func (h *hook) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.bodies)
}

// payload is what a webhook gets with template=json.
type payload map[string]string

func (h *hook) payloads(t *testing.T) []payload {
	t.Helper()
	var out []payload
	for _, body := range h.seen() {
		var p payload
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		out = append(out, p)
	}
	return out
}

// world is a notifier that runs, by a clock that the test turns.
type world struct {
	t     *testing.T
	clock *clocktesting.FakeClock
	*Notifier
}

var start = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, routes ...Route) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakeClock(start)}
	n, err := New(Config{Routes: routes}, nil, w.clock)
	if err != nil {
		t.Fatal(err)
	}
	w.Notifier = n
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// routeTo is a route whose URL is in the environment.
func routeTo(t *testing.T, url string, mods ...func(*Route)) Route {
	t.Helper()
	name := fmt.Sprintf("HOLDFAST_TEST_%x", len(url)+int(time.Now().UnixNano()))
	t.Setenv(name, url)
	r := Route{Name: "ops", URL: Source{Env: name}, Rate: Rate{Every: metav1.Duration{Duration: time.Second}, Burst: 1}}
	for _, mod := range mods {
		mod(&r)
	}
	return r
}

// until turns the clock, a second at a time while nothing is being sent, until
// something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if holds() {
			return
		}
		if !slices.ContainsFunc(w.routes, func(r *route) bool { return len(r.busy) > 0 }) {
			w.clock.Step(time.Second)
		}
	}
	w.t.Fatalf("%s", what)
}

// settled turns the clock until nothing waits and nothing is being sent.
func (w *world) settled() {
	w.t.Helper()
	quiet := 0
	w.until("something waits for ever", func() bool {
		if slices.ContainsFunc(w.routes, func(r *route) bool { return r.waiting() || len(r.busy) > 0 }) {
			quiet = 0
		}
		quiet++
		return quiet > 20
	})
}

func (w *world) count(outcome string) int64 {
	r := w.routes[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[outcome]
}

func (w *world) consume(o *sweep.Outcome) {
	w.t.Helper()
	if err := w.Consume(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

var aws = providers.Scope{Provider: "aws", Account: "123456789012", Region: "eu-central-1"}

func machine(name string) providers.OwnerRef {
	return providers.OwnerRef{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSMachine", Namespace: "prod", Name: name, UID: "uid-" + "x"}
}

// drift is a decision about an instance's type.
func drift(name string, mods ...func(*policies.Decision)) policies.Decision {
	d := policies.Decision{
		Action: policies.Replace, Severity: policies.High, Mode: policies.ModeEnforce,
		Finding: detector.Finding{
			Cluster: detector.ClusterRef{Namespace: "prod", Name: "eu-1"}, Owner: machine(name), Status: detector.Drifted,
			Resource: detector.ResourceRef{Provider: "aws", Kind: providers.KindInstance, ID: "i-" + name},
			Diffs:    []detector.Diff{{Path: "/instanceType", Want: providers.String("m5.large"), Have: providers.String("m5.xlarge"), Type: detector.Changed}},
		},
	}
	for _, mod := range mods {
		mod(&d)
	}
	d.Finding.Fingerprint = detector.Fingerprint(&d.Finding)
	return d
}

func inCluster(name string) func(*policies.Decision) {
	return func(d *policies.Decision) { d.Finding.Cluster.Name = name }
}

func of(s policies.Severity) func(*policies.Decision) {
	return func(d *policies.Decision) { d.Severity = s }
}

func in(m policies.Mode) func(*policies.Decision) {
	return func(d *policies.Decision) { d.Mode = m }
}

func status(s detector.Status) func(*policies.Decision) {
	return func(d *policies.Decision) { d.Finding.Status, d.Finding.Diffs, d.Finding.Reason = s, nil, "the reason" }
}

// swept is the outcome of a sweep of the scope.
func swept(ds ...policies.Decision) *sweep.Outcome {
	return &sweep.Outcome{At: start, Cause: "Schedule", Scope: aws, Result: &sweep.Result{Decisions: ds}}
}

// read is the outcome of a targeted read of some machines.
func read(names []string, ds ...policies.Decision) *sweep.Outcome {
	o := swept(ds...)
	o.Owners = map[providers.OwnerRef]bool{}
	for _, name := range names {
		o.Owners[machine(name)] = true
	}
	return o
}

func joined(ps []payload, key string) string {
	var out []string
	for _, p := range ps {
		out = append(out, p[key])
	}
	return strings.Join(out, "\n")
}
