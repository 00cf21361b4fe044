package policy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/reconcilers/policy"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// testUnmatched: an object that is for no Cluster says so, and says nothing while
// there are none at all.
func testUnmatched(t *testing.T, c client.Client, w *policy.Writer, cluster *clusterv1.Cluster) {
	ctx := t.Context()
	p := &v1alpha1.DriftPolicy{ObjectMeta: metav1.ObjectMeta{Name: "nobodys"}, Spec: v1alpha1.DriftPolicySpec{
		Match: &v1alpha1.Match{Clusters: []v1alpha1.ClusterPattern{{Namespace: "prod", Name: "ue"}}}}}
	if err := c.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	want := func(status metav1.ConditionStatus, say string) func() error {
		return func() error {
			live := &v1alpha1.DriftPolicy{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(p), live); err != nil {
				return err
			}
			m, v := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionMatched), meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionValid)
			if v == nil || (m == nil) != (status == "") || m != nil && (m.Status != status || !strings.Contains(m.Message, say)) {
				return fmt.Errorf("%+v", live.Status)
			}
			return nil
		}
	}
	consume := func(o *sweep.Outcome) {
		t.Helper()
		if err := w.Consume(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no clusters yet", want("", ""))
	consume(&sweep.Outcome{Inventory: &inventory.Inventory{Clusters: []*inventory.Cluster{{Object: cluster}}}})
	eventually(t, "for none", want(metav1.ConditionFalse, "It is for no Cluster that there is, and does nothing: spec.match.clusters names prod/ue; did you mean prod/eu?"))
	other := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "ue"}}
	consume(&sweep.Outcome{Inventory: &inventory.Inventory{Clusters: []*inventory.Cluster{{Object: cluster}, {Object: other}}}})
	eventually(t, "for one", want(metav1.ConditionTrue, ""))
	gone := []detector.ClusterRef{{Namespace: "prod", Name: "ue"}}
	consume(&sweep.Outcome{Inventory: &inventory.Inventory{}, Gone: gone})
	eventually(t, "for none again", want(metav1.ConditionFalse, "prod/ue"))
	consume(&sweep.Outcome{Inventory: &inventory.Inventory{}, Gone: []detector.ClusterRef{{Namespace: "prod", Name: "eu"}}})
	eventually(t, "no clusters any more", want("", ""))
	if err := c.Delete(ctx, p); err != nil {
		t.Fatal(err)
	}
}

// TestUnmatchedFile: a file that is for no Cluster is told by the log, once for
// each reason.
func TestUnmatchedFile(t *testing.T) {
	c := &configMap{dir: t.TempDir()}
	file := func(match string) map[string]string {
		return map[string]string{"p.yaml": "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: p}\nspec: {match: " + match + "}\n"}
	}
	c.write(t, file("{clusters: [{name: ue}]}"))
	s := start(t, policy.Options{Paths: []string{c.dir}, Poll: 20 * time.Millisecond})
	said := &logged{}
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), funcr.New(said.add, funcr.Options{})))
	w := &policy.Writer{Source: s, Now: time.Now}
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for range 2 {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "eu"}}
		if err := w.Consume(ctx, &sweep.Outcome{Inventory: &inventory.Inventory{Clusters: []*inventory.Cluster{{Object: cluster}}}}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "said", said.counts("Policy is for no cluster", 1))
	if line := said.last(); !strings.Contains(line, "p.yaml:1") || !strings.Contains(line, "did you mean prod/eu?") {
		t.Error(line)
	}
	c.write(t, file("{clusterSelector: {matchLabels: {a: b}}}"))
	eventually(t, "said anew", said.counts("Policy is for no cluster", 2))
	c.write(t, file("{clusters: [{name: eu}]}"))
	eventually(t, "for one", said.counts("Policy is for a cluster now", 1))
	if err := said.counts("Policy is for no cluster", 2)(); err != nil {
		t.Error(err)
	}
}

// TestFileThatIsNotRead: a key of a ConfigMap without .yaml is told by the log, once.
func TestFileThatIsNotRead(t *testing.T) {
	c := &configMap{dir: t.TempDir()}
	c.write(t, map[string]string{"eu": text("off"), "us.yaml": text("off")})
	said := &logged{}
	s := policy.New(policy.Options{Paths: []string{c.dir}, Poll: 10 * time.Millisecond, Catalog: catalog(), Log: funcr.New(said.add, funcr.Options{})})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "said", said.counts("File looks like a policy, and is not read", 1))
	c.write(t, map[string]string{"eu": text("off"), "us.yaml": text("dryRun")})
	eventually(t, "taken up", wantMode(s, policies.ModeDryRun))
	if err := said.counts("File looks like a policy, and is not read", 1)(); err != nil {
		t.Error(err)
	}
}

// logged keeps what was logged.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) add(_, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, args)
}

func (l *logged) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[len(l.lines)-1]
}

func (l *logged) counts(text string, want int) func() error {
	return func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		n := 0
		for _, line := range l.lines {
			if strings.Contains(line, text) {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%q %d times, want %d, of %q", text, n, want, l.lines)
		}
		return nil
	}
}
