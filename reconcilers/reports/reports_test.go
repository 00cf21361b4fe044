package reports

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

// TestOnAPIServer runs what needs a real one on one, first without the CRD.
func TestOnAPIServer(t *testing.T) {
	cfg := controlplane.Start(t)
	t.Run("no CRD", func(t *testing.T) { testMissing(t, cfg) })
	for name, run := range map[string]func(*testing.T, *rest.Config){
		"content":        testContent,
		"rest":           testRest,
		"restart":        testRestart,
		"targeted reads": testTargeted,
		"cloud away":     testUnread,
		"places":         testPlaces,
		"shards":         testShards,
		"hostile text":   testHostile,
		"removal":        testRemoval,
		"others' hands":  testOthers,
		"errors":         testErrors,
	} {
		t.Run(name, func(t *testing.T) { run(t, cfg) })
	}
}

func testMissing(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "missing")
	s := w.sink()
	var lines []string
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	for range 3 {
		if err := s.Consume(ctx, w.sweep("a").decide(w.owner("a")).Outcome); err != nil {
			t.Fatalf("a kind that is not installed is an error: %v", err)
		}
		w.later(2 * lookAgain)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "install the CRDs") {
		t.Errorf("said %d times: %v", len(lines), lines)
	}
	if n, err := (&Remover{Client: w.client}).Remove(ctx); n != 0 || err != nil {
		t.Errorf("removing where there is no kind: %d, %v", n, err)
	}
	install(t, cfg)
	// A targeted read is enough: what the sweeps told is kept.
	w.later(2 * lookAgain)
	if err := s.Consume(ctx, w.sweep("a", "b").targeted(w.owner("b")).Outcome); err != nil {
		t.Fatal(err)
	}
	if got := w.result(t, w.owner("a")); got.Result != "fail" {
		t.Errorf("after the installation: %+v", got)
	}
	if got := w.result(t, w.owner("b")); got.Result != "pass" {
		t.Errorf("after the installation: %+v", got)
	}
	if len(lines) != 2 {
		t.Errorf("that it goes now is not told: %v", lines)
	}
}

func testContent(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "content")
	s := w.sink()
	orphan := func(d *policies.Decision) {
		d.Finding.Fingerprint, d.Finding.Status, d.Finding.Diffs = "orphan", detector.Unexpected, nil
		d.Finding.Resource, d.Finding.Reason = detector.ResourceRef{Provider: "aws", Kind: "Instance", ID: "i-0"}, "nobody wants it"
	}
	o := w.sweep("b", "a", "c").decide(w.owner("a")).decide(w.owner("b"), func(d *policies.Decision) { d.Ignored = &policies.Ignored{By: "ops"} }).decide(w.nobody(), orphan)
	w.consume(t, s, o)
	all := w.reports(t)
	if len(all) != 2 || len(all[""]) != 1 || len(all[pool]) != 1 {
		t.Fatalf("want one report of the pool and one of the cluster: %+v", all)
	}
	machines := all[pool][0]
	want := &openreports.Report{Source: "holdfast", Summary: openreports.ReportSummary{Pass: 2, Fail: 1}}
	if machines.Source != want.Source || machines.Summary != want.Summary {
		t.Errorf("report %+v", machines)
	}
	var names []string
	for _, r := range machines.Results {
		names = append(names, r.Subjects[0].Name)
	}
	if d := cmp.Diff([]string{"a", "b", "c"}, names); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "eu-1", UID: w.object.UID}}, machines.OwnerReferences); d != "" {
		t.Errorf("owner (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{LabelManagedBy: "holdfast", LabelCluster: "eu-1", LabelPool: "machinedeployment-md-0", LabelShard: "0-of-1"}, machines.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	drift := w.result(t, w.owner("a"))
	if drift.Result != "fail" || drift.Severity != "high" || drift.Rule != "aws-instance-type" || drift.Timestamp.Seconds != start.Unix() {
		t.Errorf("drift: %+v", drift)
	}
	for _, part := range []string{"i-a", "m5.large", "m5.4xlarge", "would replace the machine"} {
		if !strings.Contains(drift.Description, part) {
			t.Errorf("%q lacks %q", drift.Description, part)
		}
	}
	if r := w.result(t, w.owner("b")); r.Result != "pass" || !strings.Contains(r.Description, "not ignored") {
		t.Errorf("ignored: %+v", r)
	}
	own := all[""][0]
	if own.Summary != (openreports.ReportSummary{Pass: 1, Fail: 1}) || own.Labels[LabelPool] != "" {
		t.Errorf("the cluster's own report: %+v", own)
	}
	for _, f := range own.ManagedFields {
		if f.Manager != v1alpha1.FieldManager || f.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("managed by %s, %s", f.Manager, f.Operation)
		}
	}
	// What is repaired is a pass again, and what is gone goes.
	w.later(time.Minute)
	w.consume(t, s, w.sweep("a", "b"))
	if r := w.result(t, w.owner("a")); r.Result != "pass" || r.Timestamp.Seconds != w.now.Unix() {
		t.Errorf("repaired: %+v", r)
	}
	if got := w.reports(t); got[pool][0].Summary != (openreports.ReportSummary{Pass: 2}) || got[""][0].Summary != (openreports.ReportSummary{Pass: 1}) {
		t.Errorf("afterwards: %+v", got)
	}
}

// drifting is a sweep in which as much is said as can be.
func drifting(w *world) scene {
	return w.sweep("a", "b", "c").decide(w.owner("a")).decide(w.owner("b"), func(d *policies.Decision) {
		d.Finding.Status, d.Finding.Reason, d.Finding.Diffs = detector.Unknown, fmt.Sprintf("RequestID: %d", d.FirstSeen.Unix()), nil
	}).decide(w.nobody(), func(d *policies.Decision) {
		d.Finding.Status, d.Finding.Reason = detector.Unexpected, "nobody wants it"
	})
}

func testRest(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "rest")
	s := w.sink()
	w.consume(t, s, drifting(w))
	if n := w.writes(); len(n) != 2 {
		t.Fatalf("the first sweep writes %v", n)
	}
	for range 3 {
		w.later(10*time.Minute + time.Second)
		w.consume(t, s, drifting(w))
		w.consume(t, s, drifting(w).targeted(w.owner("a")))
	}
	if n := w.writes(); len(n) > 0 {
		t.Errorf("nothing changes, and it writes %v", n)
	}
	w.consume(t, s, drifting(w).decide(w.owner("c")))
	if n := w.writes(); len(n) != 1 {
		t.Errorf("one machine drifts, and it writes %v", n)
	}
}

func testRestart(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "restart")
	w.consume(t, w.sink(), drifting(w))
	before := w.reports(t)
	w.writes()
	for name, first := range map[string]func() scene{
		"sweep":                   func() scene { return drifting(w) },
		"targeted read":           func() scene { return drifting(w).targeted(w.owner("a")) },
		"cloud that is away":      func() scene { return w.sweep("a", "b", "c").unread("no answer") },
		"sweep of another's only": func() scene { return drifting(w).targeted(w.infra()) },
	} {
		w.later(time.Hour)
		s := w.sink()
		w.consume(t, s, first())
		if n := w.writes(); len(n) > 0 {
			t.Errorf("%s after a restart: nothing has changed, and it writes %v", name, n)
		}
		w.consume(t, s, drifting(w))
		if n := w.writes(); len(n) > 0 {
			t.Errorf("sweep after %s: it writes %v", name, n)
		}
	}
	if d := cmp.Diff(before, w.reports(t)); d != "" {
		t.Errorf("reports have changed:\n%s", d)
	}
}

func testTargeted(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "targeted")
	s := w.sink()
	w.consume(t, s, w.sweep("a", "b").targeted(w.owner("a")).decide(w.owner("a")))
	if n := w.writes(); len(n) > 0 {
		t.Errorf("a targeted read before any sweep makes a report of few: %v", n)
	}
	w.consume(t, s, w.sweep("a", "b", "c").decide(w.owner("a")).decide(w.owner("b")).decide(w.infra()))
	w.writes()
	w.later(time.Minute)
	// Facts of others are in a targeted outcome too; they are not its subject.
	o := w.sweep("a", "b", "c").decide(w.owner("c"))
	o.Owners, o.Scopes = map[providers.OwnerRef]bool{w.owner("a"): true}, nil
	w.consume(t, s, o)
	for owner, want := range map[providers.OwnerRef]openreports.Result{w.owner("a"): "pass", w.owner("b"): "fail", w.owner("c"): "pass", w.infra(): "fail"} {
		if got := w.result(t, owner); got.Result != want {
			t.Errorf("%s: %s, want %s", owner, got.Result, want)
		}
	}
	if n := w.writes(); len(n) != 1 {
		t.Errorf("one pool has changed, and it writes %v", n)
	}
	if got := w.reports(t)[pool][0].Summary; got != (openreports.ReportSummary{Pass: 2, Fail: 1}) {
		t.Errorf("summary %+v", got)
	}
}

func testUnread(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "unread")
	s := w.sink()
	w.consume(t, s, w.sweep("a", "b").decide(w.owner("a")))
	w.writes()
	w.consume(t, s, w.sweep("a", "b").unread("dial tcp 10.0.0.1:443: no route"))
	if n := w.writes(); len(n) > 0 {
		t.Errorf("a cloud that does not answer changes %v", n)
	}
	stale := w.sweep("a", "b").unread("request 1: no route")
	stale.Cause = sweep.CauseStale
	w.consume(t, s, stale)
	if r := w.result(t, w.owner("a")); r.Result != "skip" || !strings.Contains(r.Description, "no route") {
		t.Errorf("what is stale: %+v", r)
	}
	w.writes()
	w.later(time.Hour)
	w.consume(t, s, w.sweep("a", "b").unread("request 2: no route"))
	if n := w.writes(); len(n) > 0 {
		t.Errorf("the same trouble once more changes %v", n)
	}
	w.consume(t, s, w.sweep("a", "b").unread("credentials are refused"))
	if r := w.result(t, w.owner("a")); !strings.Contains(r.Description, "refused") {
		t.Errorf("another trouble: %+v", r)
	}
	w.consume(t, s, w.sweep("a", "b").decide(w.owner("a")))
	if r := w.result(t, w.owner("a")); r.Result != "fail" {
		t.Errorf("back again: %+v", r)
	}
}

// testPlaces: a cluster in two regions is swept one after the other, and each
// sweep tells of its own.
func testPlaces(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "places")
	in := func(at providers.Scope, owners ...string) scene {
		o := w.sweep()
		for _, name := range []string{"a", "b"} {
			o.add(w.owner(name), pool, &capa.AWSMachine{})
		}
		o.Scope, o.Result.Clusters[0].Scope = at, at
		o.Scopes[w.ref()] = []providers.Scope{scope, other}
		r := &o.Result.Clusters[0]
		r.Owners = slices.DeleteFunc(r.Owners, func(x sweep.OwnerResult) bool { return !slices.Contains(owners, x.Ref.Name) })
		return o.decide(w.nobody(), func(d *policies.Decision) {
			d.Finding.Fingerprint, d.Finding.Status, d.Finding.Resource.ID = "orphan", detector.Unexpected, "i-"+at.Region
		})
	}
	s := w.sink()
	w.consume(t, s, in(scope, "eu-1", "a"))
	w.consume(t, s, in(other, "b"))
	if got := w.reports(t); got[""][0].Summary != (openreports.ReportSummary{Pass: 1, Fail: 2}) || got[pool][0].Summary.Pass != 2 {
		t.Errorf("two places: %+v", got)
	}
	w.writes()
	s = w.sink()
	w.consume(t, s, in(other, "b"))
	w.consume(t, s, in(scope, "eu-1", "a"))
	if n := w.writes(); len(n) > 0 {
		t.Errorf("a restart writes %v", n)
	}
	left := in(scope, "eu-1", "a", "b")
	left.Scopes[w.ref()] = []providers.Scope{scope}
	w.consume(t, s, left)
	if got := w.reports(t)[""][0].Summary; got != (openreports.ReportSummary{Pass: 1, Fail: 1}) {
		t.Errorf("a place that was left: %+v", got)
	}
}
