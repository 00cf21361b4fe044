package reports

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

func testShards(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "shards")
	names := make([]string, 3000)
	for i := range names {
		names[i] = fmt.Sprintf("machine-%04d", i)
	}
	all := func(drifting int) scene {
		o := w.sweep(names...)
		for _, name := range names[:drifting] {
			o.decide(w.owner(name))
		}
		return o
	}
	s := w.sink()
	w.consume(t, s, all(3000))
	shards := w.reports(t)[pool]
	if len(shards) < 2 || len(shards)&(len(shards)-1) != 0 {
		t.Fatalf("%d shards", len(shards))
	}
	seen := map[string]bool{}
	for i := range shards {
		r := &shards[i]
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > maxSize {
			t.Errorf("%s has %d bytes", r.Name, len(data))
		}
		if !slices.IsSortedFunc(r.Results, func(a, b openreports.ReportResult) int {
			return strings.Compare(a.Subjects[0].Name, b.Subjects[0].Name)
		}) {
			t.Errorf("%s is not in order", r.Name)
		}
		for _, result := range r.Results {
			if seen[result.Subjects[0].Name] {
				t.Errorf("%s is there twice", result.Subjects[0].Name)
			}
			seen[result.Subjects[0].Name] = true
		}
	}
	if len(seen) != len(names) {
		t.Errorf("%d machines of %d", len(seen), len(names))
	}
	w.writes()
	t.Logf("%d shards", len(shards))

	w.later(time.Minute)
	w.consume(t, s, all(2999))
	if n := w.writes(); len(n) != 1 {
		t.Errorf("one machine of thousands has changed, and it writes %v", n)
	}
	s = w.sink()
	w.consume(t, s, all(2999))
	if n := w.writes(); len(n) > 0 {
		t.Errorf("a restart writes %v", n)
	}
	names = names[:20]
	w.consume(t, s, all(10))
	if got := w.reports(t)[pool]; len(got) != 1 || len(got[0].Results) != 20 || got[0].Labels[LabelShard] != "0-of-1" {
		t.Errorf("a pool that shrinks has %d shards, the first %v", len(got), got[0].Labels)
	}
}

func testHostile(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "hostile")
	s := w.sink()
	evil := "\x1b[31m\u202e\x00\xff<script>" + strings.Repeat("x", 1<<20)
	o := w.sweep("a").decide(w.owner("a"), func(d *policies.Decision) {
		d.Finding.Resource = detector.ResourceRef{Provider: "aws", Kind: "Instance", ID: evil, Name: evil}
		d.Finding.Diffs[0].Have, d.Finding.Diffs[0].Path = providers.String(evil), "/tags/"+evil
		d.Finding.Warnings = []string{evil}
	})
	w.consume(t, s, o)
	r := w.result(t, w.owner("a"))
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 64<<10 {
		t.Errorf("a result of %d bytes", len(data))
	}
	for _, text := range append([]string{r.Description}, r.Properties["id"]) {
		if strings.ContainsFunc(text, providers.Hidden) || !strings.Contains(text, `\x1b`) {
			t.Errorf("not made inert: %.200q", text)
		}
	}
	w.writes()
	w.consume(t, w.sink(), o)
	if n := w.writes(); len(n) > 0 {
		t.Errorf("a restart writes %v", n)
	}
}

func testRemoval(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "removal")
	s := w.sink()
	w.consume(t, s, w.sweep("a", "b").decide(w.owner("a")))
	foreign := &openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: "removal", Name: "foreign", Labels: map[string]string{LabelManagedBy: managedBy}}}
	if err := w.client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if got := w.reports(t); len(got[pool]) != 1 || len(got[""]) != 2 {
		t.Fatalf("before: %+v", got)
	}
	// A machine that is switched off.
	o := w.sweep("a", "b").decide(w.owner("a"))
	o.Inventory.Clusters[0].Owners[1].Infra.SetAnnotations(map[string]string{v1alpha1.AnnotationMode: "off"})
	w.consume(t, s, o)
	if got := w.reports(t)[pool][0].Summary; got != (openreports.ReportSummary{Pass: 1}) {
		t.Errorf("a machine that is off: %+v", got)
	}
	for name, s := range map[string]*Sink{"running": s, "restarted": w.sink()} {
		w.consume(t, s, w.sweep("a", "b").decide(w.owner("a")))
		w.object.Annotations = map[string]string{v1alpha1.AnnotationMode: "off"}
		w.consume(t, s, w.sweep("a", "b"))
		w.object.Annotations = nil
		if got := w.reports(t); len(got) != 1 || len(got[""]) != 1 || got[""][0].Name != "foreign" {
			t.Errorf("%s: off leaves %+v", name, got)
		}
	}
	w.consume(t, w.sink(), w.sweep("a", "b"))
	nobody := rest.CopyConfig(cfg)
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "nobody", Groups: []string{"system:authenticated"}}
	powerless, err := client.New(nobody, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := (&Remover{Client: powerless, Namespace: "removal"}).Remove(t.Context()); n != 0 || err != nil {
		t.Errorf("without the right to, it removes %d, %v", n, err)
	}
	if n, err := (&Remover{Client: w.client, Namespace: "removal"}).Remove(t.Context()); n != 2 || err != nil {
		t.Errorf("removed %d, %v; want 2", n, err)
	}
	if got := w.reports(t); len(got) != 1 || got[""][0].Name != "foreign" {
		t.Errorf("the flag is off, and there are %+v", got)
	}
	// A Cluster that goes is let go.
	w.writes()
	w.object.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.consume(t, s, w.sweep("a", "b").decide(w.owner("b")))
	if n := w.writes(); len(n) > 0 {
		t.Errorf("for a Cluster on its way out it writes %v", n)
	}
}

// testOthers: what somebody else does to reports is undone at the next sweep.
func testOthers(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "others")
	s := w.sink()
	o := func() scene { return w.sweep("a", "b").decide(w.owner("a")) }
	w.consume(t, s, o())
	before := w.reports(t)
	plain, err := client.New(cfg, client.Options{Scheme: w.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	edited, deleted := before[pool][0], before[""][0]
	edited.Results = edited.Results[1:]
	if err := plain.Update(t.Context(), &edited); err != nil {
		t.Fatal(err)
	}
	if err := plain.Delete(t.Context(), &deleted); err != nil {
		t.Fatal(err)
	}
	w.writes()
	w.consume(t, s, o())
	if n := w.writes(); len(n) != 2 {
		t.Errorf("it writes %v, want both", n)
	}
	after := w.reports(t)
	if d := cmp.Diff(before[pool][0].Results, after[pool][0].Results); d != "" || len(after[""]) != 1 {
		t.Errorf("not put right:\n%s", d)
	}
	w.consume(t, s, o())
	if n := w.writes(); len(n) > 0 {
		t.Errorf("and again: %v", n)
	}
}

func testErrors(t *testing.T, cfg *rest.Config) {
	w := newWorld(t, cfg, "errors")
	s := w.sink()
	n := 0
	w.fail = func(_, name string) error {
		if n++; n < 3 {
			return conflict(name)
		}
		return nil
	}
	w.consume(t, s, w.sweep("a"))
	if len(w.reports(t)) != 2 {
		t.Error("a conflict is not tried again")
	}
	w.fail = func(_, _ string) error {
		return apierrors.NewForbidden(openreports.Resource("reports"), "x", fmt.Errorf("no"))
	}
	if err := s.Consume(t.Context(), w.sweep("a").decide(w.owner("a")).Outcome); !apierrors.IsForbidden(err) {
		t.Errorf("what is forbidden is not told: %v", err)
	}
	w.fail = nil
	w.consume(t, s, w.sweep("a").targeted(w.infra()))
	if r := w.result(t, w.owner("a")); r.Result != "fail" {
		t.Errorf("the next outcome does not bring what failed: %+v", r)
	}
	// An etcd that takes less than usual.
	names := make([]string, 600)
	for i := range names {
		names[i] = fmt.Sprintf("machine-%d", i)
	}
	big := w.sweep(names...)
	for _, name := range names {
		big.decide(w.owner(name))
	}
	s.store.client = limited{w.client, 200 << 10}
	if err := s.Consume(t.Context(), big.Outcome); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, r := range w.reports(t)[pool] {
		total += len(r.Results)
	}
	if shards := len(w.reports(t)[pool]); shards < 2 || total != 600 {
		t.Errorf("%d shards with %d results", shards, total)
	}
	// A cancelled context is no reason to go on.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Consume(ctx, w.sweep("a").decide(w.owner("a")).Outcome); err == nil {
		t.Error("a cancelled context is no error")
	}
}
