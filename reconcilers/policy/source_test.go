package policy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/reconcilers/policy"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

func catalog() map[string][]providers.CatalogRow {
	return map[string][]providers.CatalogRow{"aws": aws.Registration().Catalog, "vsphere": vsphere.Registration().Catalog}
}

// told keeps what a source said last.
type told struct {
	mu     sync.Mutex
	states []policy.State
}

func (t *told) set(s []policy.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states = s
}

func (t *told) of(name string) (policy.State, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.states, func(s policy.State) bool { return s.Name == name })
	if i < 0 {
		return policy.State{}, false
	}
	return t.states[i], true
}

func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	var err error
	for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func start(t *testing.T, o policy.Options) *policy.Source {
	t.Helper()
	o.Catalog, o.Log = catalog(), logr.Discard()
	s := policy.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-s.Loaded()
	return s
}

func modeOf(s *policy.Source) policies.Mode {
	return s.Set().For(detector.ClusterRef{Namespace: "prod", Name: "eu"}, nil).Mode
}

func wantMode(s *policy.Source, want policies.Mode) func() error {
	return func() error {
		if got := modeOf(s); got != want {
			return fmt.Errorf("mode %s, want %s", got, want)
		}
		return nil
	}
}

func text(mode string) string {
	return "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: p}\nspec: {mode: \"" + mode + "\"}\n"
}

// configMap plays the kubelet: files are links into a folder that a link swap
// exchanges at once.
type configMap struct {
	dir string
	n   int
}

func (c *configMap) write(t *testing.T, files map[string]string) {
	t.Helper()
	c.n++
	data := fmt.Sprintf("..2026_%d", c.n)
	if err := os.Mkdir(filepath.Join(c.dir, data), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(c.dir, data, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(c.dir, name)
		if _, err := os.Lstat(link); err != nil {
			if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
				t.Fatal(err)
			}
		}
	}
	tmp := filepath.Join(c.dir, "..data_tmp")
	if err := os.Symlink(data, tmp); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(c.dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// TestC67MountedFiles: a bad new version of a mounted file never takes effect,
// and a good one does without a restart, by events alone.
func TestC67MountedFiles(t *testing.T) {
	cm := &configMap{dir: t.TempDir()}
	cm.write(t, map[string]string{"p.yaml": text("dryRun")})
	said := &told{}
	s := start(t, policy.Options{Paths: []string{cm.dir}, Told: said.set, Poll: time.Hour})
	if err := wantMode(s, policies.ModeDryRun)(); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"typo": strings.Replace(text("enforce"), "mode", "mathc", 1), "key twice": text("enforce") + "spec: {}\n", "tab": text("enforce") + "\tx: y\n",
	} {
		cm.write(t, map[string]string{"p.yaml": bad})
		eventually(t, name, func() error {
			if st, ok := said.of(filepath.Join(cm.dir, "p.yaml")); !ok || st.Valid || len(st.Problems) == 0 {
				return fmt.Errorf("not told to be bad: %+v", st)
			}
			return nil
		})
		if got := modeOf(s); got != policies.ModeDryRun {
			t.Errorf("%s: mode %s, want the last good one", name, got)
		}
		cm.write(t, map[string]string{"p.yaml": text("dryRun")})
		eventually(t, "good again", func() error {
			if st, _ := said.of(filepath.Join(cm.dir, "p.yaml")); !st.Valid {
				return fmt.Errorf("%+v", st)
			}
			return nil
		})
	}
	for len(s.Changes()) > 0 {
		<-s.Changes()
	}
	cm.write(t, map[string]string{"p.yaml": text("off")})
	select {
	case <-s.Changes():
	case <-time.After(10 * time.Second):
		t.Fatal("nobody is told of the new policies")
	}
	if err := wantMode(s, policies.ModeOff)(); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(cm.dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mount goes away", func() error {
		if st, _ := said.of(filepath.Join(cm.dir, "p.yaml")); st.Valid {
			return fmt.Errorf("%+v", st)
		}
		return wantMode(s, policies.ModeOff)()
	})
}

// TestNothingIsEnforcedInPlaceOfABadPolicy: a process that starts anew knows no
// good version of a policy that is bad by now. It may be the one that keeps a
// cluster from what a broader policy enforces.
func TestNothingIsEnforcedInPlaceOfABadPolicy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("default.yaml", text("enforce"))
	careful := strings.NewReplacer("name: p", "name: careful", "{mode", "{match: {clusters: [{name: eu}]}, mode").Replace(text("observe"))
	write("careful.yaml", strings.Replace(careful, "observe", "obsrve", 1))
	s := start(t, policy.Options{Paths: []string{dir}, Poll: time.Hour})
	if err := wantMode(s, policies.ModeObserve)(); err != nil {
		t.Fatal(err)
	}
	write("careful.yaml", strings.NewReplacer("eu", "us").Replace(careful))
	eventually(t, "the policy is mended, and is about another cluster", wantMode(s, policies.ModeEnforce))
}

// TestPoll finds what no event told.
func TestPoll(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(target, []byte(text("dryRun")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "p.yaml")); err != nil {
		t.Fatal(err)
	}
	s := start(t, policy.Options{Paths: []string{dir}, Poll: 50 * time.Millisecond})
	if err := os.WriteFile(target, []byte(text("off")), 0o600); err != nil { // outside of any watched folder
		t.Fatal(err)
	}
	eventually(t, "the poll", wantMode(s, policies.ModeOff))
}

// TestOnAPIServer runs what needs a real one on one.
func TestOnAPIServer(t *testing.T) {
	cfg := controlplane.Start(t)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := eventsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("good policies are admitted", func(t *testing.T) { testGood(t, c) })
	t.Run("bad policies are refused", func(t *testing.T) { testBad(t, c) })
	t.Run("objects", func(t *testing.T) { testObjects(t, cfg, c) })
	t.Run("events of files", func(t *testing.T) { testFileEvents(t, c) })
}

func object(t *testing.T, data string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(data), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// testGood: every policy that this repository shows or has built in.
func testGood(t *testing.T, c client.Client) {
	n := 0
	for _, pattern := range []string{"../../policies/defaults/*.yaml", "../../examples/policies/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range strings.Split(string(data), "\n---\n") {
				if err := c.Create(t.Context(), object(t, d), client.DryRunAll, client.FieldValidation("Strict")); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				n++
			}
		}
	}
	if n < 6 {
		t.Errorf("only %d policies", n)
	}
}

// testBad: each with a word that helps.
func testBad(t *testing.T, c client.Client) {
	for name, tt := range map[string]struct{ spec, say string }{
		"mode":              {`{mode: enforced}`, `Unsupported value: "enforced": supported values: "off", "observe", "dryRun", "enforce"`},
		"severity":          {`{rules: [{id: a, severity: fatal}]}`, "spec.rules[0].severity"},
		"rule id":           {`{rules: [{id: "A B"}]}`, "spec.rules[0].id"},
		"rule id twice":     {`{rules: [{id: a}, {id: a}]}`, "Duplicate value"},
		"path":              {`{rules: [{id: a, paths: [instanceType]}]}`, "spec.rules[0].paths[0]"},
		"path escape":       {`{rules: [{id: a, paths: ["/a~2"]}]}`, "spec.rules[0].paths[0]"},
		"unknown key":       {`{mathc: {}}`, `unknown field "spec.mathc"`},
		"duration":          {`{rules: [{id: a, grace: {for: 10 minutes}}]}`, "spec.rules[0].grace.for"},
		"observations":      {`{rules: [{id: a, grace: {observations: 0}}]}`, "greater than or equal to 1"},
		"attempts":          {`{rules: [{id: a, attempts: {max: 1, per: 0s}}]}`, "per must be above 0s"},
		"percentage":        {`{safety: {maxDriftRatio: 130%}}`, "spec.safety.maxDriftRatio"},
		"snapshot age":      {`{safety: {maxSnapshotAge: 0s}}`, "nothing could ever act"},
		"min healthy":       {`{safety: {minHealthy: -1}}`, "minHealthy must be 0 or more, or a percentage"},
		"budget":            {`{budgets: [{scope: pool, max: -1}]}`, "max must be 0 or more, or a percentage"},
		"budget scope":      {`{budgets: [{scope: rack, max: 1}]}`, "spec.budgets[0].scope"},
		"window cron":       {`{windows: [{kind: deny, cron: noon, duration: 1h}]}`, "spec.windows[0].cron"},
		"window duration":   {`{windows: [{kind: deny, cron: "0 0 * * *", duration: 800h}]}`, "at most 744h"},
		"stale after":       {`{schedule: {staleAfter: 0s}}`, "staleAfter must be above 0s"},
		"reason":            {`{ignore: [{reason: ""}]}`, "spec.ignore[0].reason"},
		"expiry":            {`{ignore: [{reason: x, expiresAt: tomorrow}]}`, "spec.ignore[0].expiresAt"},
		"cluster name":      {`{match: {clusters: [{name: ""}]}}`, "spec.match.clusters[0].name"},
		"target status":     {`{rules: [{id: a, target: {statuses: [InSync]}}]}`, "spec.rules[0].target.statuses[0]"},
		"replace strategy":  {`{rules: [{id: a, replace: {strategy: reboot}}]}`, "spec.rules[0].replace.strategy"},
		"too many paths":    {`{rules: [{id: a, paths: [` + strings.Repeat("/a,", 101) + `]}]}`, "Too many"},
		"expression length": {`{rules: [{id: a, when: "` + strings.Repeat("a", 5000) + `"}]}`, "Too long"},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: bad}\nspec: "+tt.spec)
			err := c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation("Strict"))
			if err == nil || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("%v, want an error with %q", err, tt.say)
			}
		})
	}
}

// testObjects: what only the loader can judge is Valid=False, with the last good
// version in effect; a steady state writes nothing.
func testObjects(t *testing.T, cfg *rest.Config, c client.Client) {
	objects, err := cache.New(cfg, cache.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = objects.Start(ctx) }()
	s := start(t, policy.Options{Objects: objects, Poll: time.Hour})
	events := &recorder{}
	w := &policy.Writer{Source: s, Client: c, Reader: c, Events: events, Now: time.Now}
	go func() { _ = w.Start(ctx) }()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "eu"}}
	testUnmatched(t, c, w, cluster)
	if err := w.Consume(ctx, &sweep.Outcome{Inventory: &inventory.Inventory{Clusters: []*inventory.Cluster{{Object: cluster}}}}); err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.DriftPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.DriftPolicySpec{Mode: v1alpha1.ModeDryRun}}
	if err := c.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	want := func(status metav1.ConditionStatus, reason, say string, good int64) func() error {
		return func() error {
			live := &v1alpha1.DriftPolicy{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(p), live); err != nil {
				return err
			}
			v := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionValid)
			if v == nil || v.Status != status || v.Reason != reason || !strings.Contains(v.Message, say) || live.Status.ObservedGeneration != live.Generation ||
				live.Status.LastGoodGeneration != good || live.Status.MatchedClusterCount != 1 || !slices.Equal(live.Status.MatchedClusters, []string{"prod/eu"}) {
				return fmt.Errorf("%+v", live.Status)
			}
			return nil
		}
	}
	eventually(t, "valid", want(metav1.ConditionTrue, policy.ReasonValid, "", 1))
	if err := wantMode(s, policies.ModeDryRun)(); err != nil {
		t.Error(err)
	}
	update := func(change func(*v1alpha1.DriftPolicySpec)) {
		live := &v1alpha1.DriftPolicy{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(p), live); err != nil {
			t.Fatal(err)
		}
		change(&live.Spec)
		if err := c.Update(ctx, live); err != nil {
			t.Fatal(err)
		}
	}
	update(func(spec *v1alpha1.DriftPolicySpec) {
		spec.Mode = v1alpha1.ModeOff
		spec.Rules = []v1alpha1.Rule{{ID: "r", Target: &v1alpha1.Target{Provider: "aws", Kind: "Instanze"}, Action: "observe"}}
	})
	eventually(t, "bad", want(metav1.ConditionFalse, policy.ReasonLastGood, `spec.rules[0].target.kind: no resource kind is called "Instanze" in provider aws; did you mean "Instance"?`, 1))
	if err := wantMode(s, policies.ModeDryRun)(); err != nil {
		t.Error(err)
	}
	eventually(t, "an event", func() error {
		if n := events.count(policy.EventInvalid); n != 1 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	live := &v1alpha1.DriftPolicy{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(p), live); err != nil {
		t.Fatal(err)
	}
	revision := live.ResourceVersion
	other := &v1alpha1.DriftPolicy{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	if err := c.Create(ctx, other); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another policy", func() error {
		q := &v1alpha1.DriftPolicy{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(other), q); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionValid) {
			return fmt.Errorf("%+v", q.Status)
		}
		return nil
	})
	if err := c.Get(ctx, client.ObjectKeyFromObject(p), live); err != nil || live.ResourceVersion != revision {
		t.Errorf("the status of an unchanged policy was written: %v", err)
	}
	update(func(spec *v1alpha1.DriftPolicySpec) { spec.Rules = nil })
	eventually(t, "good again", want(metav1.ConditionTrue, policy.ReasonValid, "", 3))
	eventually(t, "in effect", wantMode(s, policies.ModeOff))
	if err := c.Delete(ctx, live); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gone", wantMode(s, policies.ModeObserve))
}

type recorder struct {
	mu      sync.Mutex
	reasons []string
}

func (r *recorder) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = append(r.reasons, reason)
}

func (r *recorder) count(reason string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.reasons {
		if x == reason {
			n++
		}
	}
	return n
}
