package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

var (
	now   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	scope = providers.Scope{Provider: "aws", Account: "1", Region: "r"}
)

// scene is an outcome in the making: clusters of one scope with owners.
type scene struct {
	*sweep.Outcome
}

func newScene() scene {
	return scene{&sweep.Outcome{At: now, Cause: sweep.CauseSchedule, Policies: policies.Builtin(), Inventory: &inventory.Inventory{}, Result: &sweep.Result{}}}
}

func ownerRef(cluster, name string) providers.OwnerRef {
	return providers.OwnerRef{Kind: "AWSMachine", Namespace: "ns", Name: name, UID: types.UID(cluster + "/" + name)}
}

// cluster adds a cluster with owners, each with one resource in sync.
func (s scene) cluster(name string, owners ...string) scene {
	c := &inventory.Cluster{Object: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}}
	r := sweep.ClusterResult{Ref: detector.ClusterRef{Namespace: "ns", Name: name}, Provider: "aws", Scope: scope, TakenAt: now.Add(-2 * time.Second), Checked: 9, NotChecked: 1}
	for _, o := range owners {
		c.Owners = append(c.Owners, &inventory.Owner{Provider: "aws", Owner: providers.Owner{Ref: ownerRef(name, o)}})
		r.Owners = append(r.Owners, sweep.OwnerResult{Ref: ownerRef(name, o), InSync: []detector.ResourceRef{{Provider: "aws", Kind: "Volume", ID: "v"}}})
	}
	s.Inventory.Clusters = append(s.Inventory.Clusters, c)
	s.Result.Clusters = append(s.Result.Clusters, r)
	return s
}

// drift adds a decision about an owner's instance.
func (s scene) drift(cluster, owner string, mods ...func(*policies.Decision)) scene {
	d := policies.Decision{Action: policies.Replace, Severity: policies.High, Mode: policies.ModeEnforce, FirstSeen: now.Add(-time.Hour),
		Rule: policies.RuleRef{ID: "aws-instance-type"}, Finding: detector.Finding{Cluster: detector.ClusterRef{Namespace: "ns", Name: cluster},
			Owner: ownerRef(cluster, owner), Pool: "MachineDeployment/md", Status: detector.Drifted,
			Resource: detector.ResourceRef{Provider: "aws", Kind: "Instance", ID: "i-" + owner}}}
	for _, m := range mods {
		m(&d)
	}
	s.Result.Decisions = append(s.Result.Decisions, d)
	return s
}

func consume(t *testing.T, s *Sink, o scene) {
	t.Helper()
	if err := s.Consume(t.Context(), o.Outcome); err != nil {
		t.Fatal(err)
	}
}

// gathered lists every series as name{label="value",...} value.
func gathered(t *testing.T, cs ...prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	for _, c := range cs {
		reg.MustRegister(c)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = valueOf(m)
		}
	}
	return out
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	default:
		return float64(m.Histogram.GetSampleCount())
	}
}

// cloud is a provider that has counted calls.
type cloud struct {
	providers.Provider
	stats []providers.CallStats
}

func (c cloud) CallStats() []providers.CallStats { return c.stats }

// everything is one of each collector, with something in each series.
func everything(t *testing.T) []prometheus.Collector {
	t.Helper()
	s := NewSink()
	expires := now.Add(time.Hour)
	s.Status = func() sweep.Status {
		s.SweepFailed(scope, nil, errors.New("a daemon may be telling something just now"))
		return sweep.Status{Clusters: []sweep.ClusterStatus{{Ref: detector.ClusterRef{Namespace: "ns", Name: "a"}, Breakers: []string{"zone-b"}}},
			Scopes: []sweep.ScopeStatus{{Scope: scope, Waiting: 3}, {Scope: scope, Waiting: 4}, {Waiting: 9}}}
	}
	elected := make(chan struct{})
	close(elected)
	s.Elected = elected
	consume(t, s, newScene().cluster("a", "m1", "m2", "m3").
		drift("a", "m1", func(d *policies.Decision) { d.Blocked = []policies.Block{{By: "MassDrift"}, {By: "Window"}} }).
		drift("a", "m2", func(d *policies.Decision) { d.Ignored = &policies.Ignored{ExpiresAt: expires} }))
	failed := newScene().cluster("a", "m1", "m2", "m3")
	failed.Result.Clusters[0].TakenAt, failed.Result.Clusters[0].Unusable = time.Time{}, providers.ReasonCredentials
	consume(t, s, failed)
	s.EventLag(scope, time.Second)
	s.SinkFailed(s, errors.New("x"))
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	running := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r1"},
		Spec:   v1alpha1.RemediationSpec{ClusterName: "a", Action: "replace", Pool: "MachineDeployment/md", Scope: v1alpha1.ScopeRef{Provider: "aws"}, FirstSeen: &metav1.Time{Time: now.Add(-time.Minute)}},
		Status: v1alpha1.RemediationStatus{Phase: v1alpha1.PhaseRunning}}
	blocked := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r2"},
		Spec:   v1alpha1.RemediationSpec{ClusterName: "a", Action: "patch"},
		Status: v1alpha1.RemediationStatus{Phase: v1alpha1.PhaseLatched, Blocked: []v1alpha1.GateBlock{{By: "Attempts"}}, ContestedBy: "someone"}}
	refused := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r3"},
		Spec: v1alpha1.RemediationSpec{ClusterName: "a", Action: "patch"},
		Status: v1alpha1.RemediationStatus{Phase: v1alpha1.PhaseRunning, Attempts: []v1alpha1.Attempt{
			{Number: 1, Outcome: v1alpha1.OutcomeFailed}, {Number: 2}}}}
	r := &Remediations{sink: s, repairs: newRepairs(), attempts: map[detector.ClusterRef]map[attemptKey]float64{}, reader: newReader(scheme, running, blocked, refused)}
	after := running.DeepCopy()
	after.Status.Attempts = []v1alpha1.Attempt{{Number: 1, Outcome: v1alpha1.OutcomeSucceeded}}
	after.Status.Phase, after.Status.EndedAt = v1alpha1.PhaseSucceeded, &metav1.Time{Time: now}
	r.changed(running, after)
	r.changed(after, after)
	p := &Policies{}
	p.Set([]PolicySource{{Name: "prod", Object: true, Valid: true}, {Name: "/etc/p.yaml"}})
	clouds := NewClouds(map[string]providers.Provider{"aws": cloud{stats: []providers.CallStats{
		{Operation: "ec2:DescribeInstances", Count: 3, Waited: time.Second}, {Operation: "ec2:DescribeInstances", Code: "RequestLimitExceeded", Throttled: true, Count: 2}}}})
	return []prometheus.Collector{s, r, p, clouds}
}

// newReader is a cache that holds these objects. The fake client does not know
// the option that saves copies.
func newReader(scheme *runtime.Scheme, objects ...client.Object) client.Reader {
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			return c.List(ctx, list)
		},
	}).Build()
}

// TestTable: every series of the table exists with the type and labels that it
// says, no other does, and promlint has nothing against any.
func TestTable(t *testing.T) {
	cs := everything(t)
	reg := prometheus.NewPedanticRegistry()
	for _, c := range cs {
		reg.MustRegister(c)
		problems, err := testutil.CollectAndLint(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("promlint: %s: %s", p.Metric, p.Text)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
		i := slices.IndexFunc(Table(), func(s Series) bool { return s.Name == f.GetName() })
		if i < 0 {
			t.Errorf("%s is not in the table", f.GetName())
			continue
		}
		s := Table()[i]
		if want := strings.ToLower(f.GetType().String()); s.Type != want || s.Help != f.GetHelp() {
			t.Errorf("%s is a %s, the table says %s", s.Name, want, s.Type)
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		if want := slices.Sorted(slices.Values(s.Labels)); !slices.Equal(labels, want) {
			t.Errorf("%s has the labels %v, the table says %v", s.Name, labels, want)
		}
	}
	for _, s := range Table() {
		if !found[s.Name] {
			t.Errorf("%s is in the table, and nothing gives it", s.Name)
		}
	}
}

func TestValues(t *testing.T) {
	got := gathered(t, everything(t)...)
	const c = `cluster_name="a",cluster_namespace="ns"`
	for series, want := range map[string]float64{
		`holdfast_resources{` + c + `,kind="Instance",provider="aws",status="Drifted"}`:                                                                                      2,
		`holdfast_resources{` + c + `,kind="Volume",provider="aws",status="InSync"}`:                                                                                         3,
		`holdfast_findings{action="replace",` + c + `,kind="Instance",pool="MachineDeployment/md",provider="aws",rule="aws-instance-type",severity="high",status="Drifted"}`: 1,
		`holdfast_findings_ignored{` + c + `}`:                                                     1,
		`holdfast_findings_blocked{action="replace",` + c + `,reason="Window"}`:                    1,
		`holdfast_oldest_finding_timestamp_seconds{` + c + `,severity="high"}`:                     float64(now.Add(-time.Hour).Unix()),
		`holdfast_oldest_blocked_timestamp_seconds{action="replace",` + c + `,reason="MassDrift"}`: float64(now.Add(-time.Hour).Unix()),
		`holdfast_cloud_unusable{` + c + `,provider="aws",reason="CredentialsUnavailable"}`:        1,
		`holdfast_repair_duration_seconds{action="replace",provider="aws"}`:                        1,
		`holdfast_reads_waiting{provider="aws"}`:                                                   7,
		`holdfast_budget_limit{action="patch",` + c + `}`:                                          10, // of the built-in policies
		`holdfast_remediations_failing{action="patch",` + c + `}`:                                  1,
		`holdfast_leader{}`:                                                                        1,
		`holdfast_breaker_open{` + c + `}`:                                                         1,
		`holdfast_coverage_ratio{` + c + `,provider="aws"}`:                                        0.9,
		`holdfast_sweep_errors_total{` + c + `,provider="aws"}`:                                    1,
		`holdfast_sweep_last_success_timestamp_seconds{` + c + `,provider="aws"}`:                  float64(now.Add(-2 * time.Second).Unix()),
		`holdfast_reads_total{provider="aws",reason="Schedule"}`:                                   1,
		`holdfast_remediations{action="patch",` + c + `,status="Latched"}`:                         1,
		`holdfast_remediations_in_flight{action="replace",` + c + `,pool="MachineDeployment/md"}`:  1,
		`holdfast_remediations_contested{` + c + `}`:                                               1,
		`holdfast_remediation_attempts_total{action="replace",` + c + `,status="Succeeded"}`:       1,
		`holdfast_cloud_api_throttles_total{operation="ec2:DescribeInstances",provider="aws"}`:     2,
		`holdfast_cloud_api_calls_total{code="",operation="ec2:DescribeInstances",provider="aws"}`: 3,
		`holdfast_policy_valid{policy="/etc/p.yaml"}`:                                              0,
		`holdfast_sink_errors_total{reason="metrics"}`:                                             1,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", series, v, ok, want)
		}
	}
	if t.Failed() {
		for s, v := range got {
			t.Logf("%s %v", s, v)
		}
	}
}

// TestStandby: a process that waits to take over has one series of its own.
func TestStandby(t *testing.T) {
	s := NewSink()
	s.Elected = make(chan struct{})
	if got := gathered(t, s); len(got) != 1 || got["holdfast_leader{}"] != 0 {
		t.Errorf("it has %v", got)
	}
}

// TestBreakerOfObserved: the breaker shows where nothing is held back, and not
// by what is held back.
func TestBreakerOfObserved(t *testing.T) {
	s := NewSink()
	var open []string
	s.Status = func() sweep.Status {
		return sweep.Status{Clusters: []sweep.ClusterStatus{{Ref: detector.ClusterRef{Namespace: "ns", Name: "a"}, Breakers: open}}}
	}
	consume(t, s, newScene().cluster("a", "m1").drift("a", "m1", func(d *policies.Decision) {
		d.Mode, d.Action, d.Blocked = policies.ModeObserve, policies.Observe, nil
	}))
	const series = `holdfast_breaker_open{cluster_name="a",cluster_namespace="ns"}`
	if v, there := gathered(t, s)[series]; v != 0 || !there {
		t.Errorf("closed, and the metric is %v (there: %v)", v, there)
	}
	open = []string{""}
	if v := gathered(t, s)[series]; v != 1 {
		t.Errorf("open, and the metric is %v", v)
	}
}

// TestC68SeriesGo: the series of a machine, a cluster, a switched-off cluster go
// with it.
func TestC68SeriesGo(t *testing.T) {
	s := NewSink()
	consume(t, s, newScene().cluster("a", "m1", "m2").drift("a", "m1").cluster("b", "m1").drift("b", "m1"))
	s.SweepFailed(scope, []detector.ClusterRef{{Namespace: "ns", Name: "b"}}, errors.New("x"))
	of := func(cluster, part string) (n int) {
		for series := range gathered(t, s) {
			if strings.Contains(series, `cluster_name="`+cluster+`"`) && strings.Contains(series, part) {
				n++
			}
		}
		return n
	}
	if of("a", "") == 0 || of("b", "holdfast_sweep_errors") != 1 {
		t.Fatal("no series")
	}
	consume(t, s, newScene().cluster("a", "m2").cluster("b", "m1"))
	if n := of("a", "holdfast_findings{") + of("a", `status="Drifted"`); n != 0 {
		t.Errorf("%d series of a machine that is gone", n)
	}
	consume(t, s, newScene().cluster("a", "m2"))
	if of("b", "") == 0 {
		t.Error("a cluster that was not looked at lost its series")
	}
	gone := newScene()
	gone.Gone = []detector.ClusterRef{{Namespace: "ns", Name: "b"}}
	consume(t, s, gone)
	if of("a", "") == 0 {
		t.Error("the series of a cluster went with another")
	}
	if n := of("b", ""); n != 0 {
		t.Errorf("%d series of a cluster that is gone", n)
	}
	o := newScene().cluster("a", "m2")
	o.Inventory.Clusters[0].Object.Annotations = map[string]string{v1alpha1.AnnotationMode: "off"}
	consume(t, s, o)
	if n := of("a", ""); n != 0 {
		t.Errorf("%d series of a cluster that is switched off", n)
	}
	s.SweepFailed(scope, []detector.ClusterRef{{Namespace: "ns", Name: "a"}}, errors.New("x"))
	if n := of("a", ""); n != 0 {
		t.Errorf("%d series of a cluster that is switched off and whose scope cannot be read", n)
	}
	consume(t, s, newScene().cluster("a", "m2"))
	if of("a", "") == 0 {
		t.Error("a cluster that is switched on again has no series")
	}
}

// TestFailedReadKeepsValues: a cloud that cannot be read resolves no finding.
func TestFailedReadKeepsValues(t *testing.T) {
	s := NewSink()
	consume(t, s, newScene().cluster("a", "m1").drift("a", "m1"))
	unreadable := func(cause string) scene {
		o := newScene().cluster("a", "m1").drift("a", "m1", func(d *policies.Decision) { d.Finding.Status = detector.NotChecked })
		o.Result.Clusters[0].TakenAt, o.Result.Clusters[0].Owners[0].InSync = time.Time{}, nil
		o.Cause = cause
		return o
	}
	count := func(status string) (n int) {
		for series := range gathered(t, s) {
			if strings.HasPrefix(series, "holdfast_findings{") && strings.Contains(series, `status="`+status+`"`) {
				n++
			}
		}
		return n
	}
	consume(t, s, unreadable(sweep.CauseSchedule))
	if count("Drifted") != 1 || count("NotChecked") != 0 {
		t.Error("a failed read changed what is known")
	}
	consume(t, s, unreadable(sweep.CauseStale))
	if count("Drifted") != 0 || count("NotChecked") != 1 {
		t.Error("what is known did not become stale")
	}
}

// TestTargetedReadMerges: a read of one owner leaves the others as they were.
func TestTargetedReadMerges(t *testing.T) {
	s := NewSink()
	consume(t, s, newScene().cluster("a", "m1", "m2").drift("a", "m1").drift("a", "m2"))
	o := newScene().cluster("a", "m1", "m2")
	o.Owners = map[providers.OwnerRef]bool{ownerRef("a", "m1"): true}
	consume(t, s, o)
	for series, v := range gathered(t, s) {
		if strings.HasPrefix(series, "holdfast_findings{") && v != 1 {
			t.Errorf("%s %v, want 1: m2 still drifts, m1 does not", series, v)
		}
	}
}

// What belongs to no infrastructure object has the Cluster for its owner: it
// counts from sweep to sweep.
func TestOrphansAreCounted(t *testing.T) {
	s := NewSink()
	orphan := func(d *policies.Decision) {
		d.Finding.Owner = providers.OwnerRef{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "ns", Name: "a"}
		d.Finding.Status, d.Finding.Have, d.Finding.Pool = detector.Unexpected, &providers.Resource{}, ""
	}
	count := func() (n float64) {
		for series, value := range gathered(t, s) {
			if strings.HasPrefix(series, "holdfast_findings{") && strings.Contains(series, `status="Unexpected"`) {
				n += value
			}
		}
		return n
	}
	targeted := newScene().cluster("a", "m1")
	targeted.Owners = map[providers.OwnerRef]bool{ownerRef("a", "m1"): true}
	for _, step := range []struct {
		what string
		scene
		want float64
	}{
		{"a sweep finds one", newScene().cluster("a", "m1").drift("a", "", orphan), 1},
		{"a read of a machine says nothing of it", targeted, 1},
		{"a sweep finds none", newScene().cluster("a", "m1"), 0},
	} {
		consume(t, s, step.scene)
		if got := count(); got != step.want {
			t.Errorf("%s: %v are counted, want %v", step.what, got, step.want)
		}
	}
}

// TestHostileTextAddsNoSeries puts 200 payloads wherever a cloud's text may
// stand.
func TestHostileTextAddsNoSeries(t *testing.T) {
	with := func(text func(int) string) int {
		s := NewSink()
		owners := make([]string, 200)
		for i := range owners {
			owners[i] = fmt.Sprintf("m%d", i)
		}
		o := newScene().cluster("a", owners...)
		o.ChangedBy = map[providers.ID]string{}
		var stats []providers.CallStats
		for i, owner := range owners {
			p := text(i)
			o.drift("a", owner, func(d *policies.Decision) {
				f := &d.Finding
				f.Resource.ID, f.Resource.Name, f.Reason, f.Warnings = p, p, p, []string{p}
				f.Diffs = []detector.Diff{{Path: "/tags/" + p, Have: providers.String(p), Want: providers.String(p), Foreign: p}}
				d.Reason, d.Blocked = p, []policies.Block{{By: "Budget", Detail: p}}
			})
			o.ChangedBy[providers.ID{Name: p}] = p
			stats = append(stats, providers.CallStats{Operation: "ec2:DescribeInstances", Code: p, Count: 1})
		}
		consume(t, s, o)
		return len(gathered(t, s, NewClouds(map[string]providers.Provider{"aws": cloud{stats: stats}})))
	}
	plain := with(func(int) string { return "plain text" })
	hostile := with(func(i int) string {
		return fmt.Sprintf("%d\x1b[31m\n\xff\u202e{le=\"+Inf\"} 1\n# EOF %s", i, strings.Repeat("A", i*50))
	})
	if plain != hostile {
		t.Errorf("%d series of hostile text, %d of plain", hostile, plain)
	}
	many := with(func(i int) string { return fmt.Sprintf("Code%d", i) })
	if many > plain+maxCodes {
		t.Errorf("%d series of an endpoint that makes up error codes", many)
	}
}

// TestSinksCountFromZero: the failures of a sink have a series before the first.
func TestSinksCountFromZero(t *testing.T) {
	s := NewSink()
	s.Expect(s)
	got, there := gathered(t, s)[`holdfast_sink_errors_total{reason="metrics"}`]
	if !there || got != 0 {
		t.Errorf("%v, %v: want a series that is 0", got, there)
	}
}
