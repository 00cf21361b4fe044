package faults

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
)

// policy acts on what is seen, as soon as it is seen.
const policy = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: at-once}
spec:
  mode: enforce
  safety: {maxDriftRatio: 100%, minHealthy: 50%}
  rules:
  - {id: aws-instance-tags, action: patch, grace: {for: 0s, observations: 1}, attempts: {max: 10, per: 1h}}
  - {id: aws-instance-missing, action: replace, grace: {for: 0s, observations: 1}, attempts: {max: 10, per: 1h}STRATEGY}
`

// daemon is a running holdfast controller behind a front.
type daemon struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer
}

func (d *daemon) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.Write(p)
}

func (d *daemon) output() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

// kill ends it at once, and returns when it is gone.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may be gone
	<-d.done
}

func (d *daemon) dead() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// run starts the program and waits until it is ready.
func run(t *testing.T, g *management.Ground, f *front, policy string, args ...string) *daemon {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, kubeconfig := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "kubeconfig")
	for path, text := range map[string]string{file: policy, kubeconfig: fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://%s"}}]
contexts: [{name: c, context: {cluster: c}}]
`, f.api.Listen)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	probes := freeAddress(t)
	d := &daemon{done: make(chan struct{})}
	d.cmd = exec.Command(bin, append([]string{"controller", "--namespace", g.Namespace, "--policy", file, "--verify-after", "1s", "--poll-interval", "1s",
		"--metrics-bind-address", "0", "--health-probe-bind-address", probes, "--start-spread", "0s", "--creation-grace", "1s"}, args...)...)
	d.cmd.Env = append(g.Environ(), "KUBECONFIG="+kubeconfig, "AWS_ENDPOINT_URL=http://"+f.aws.Listen)
	d.cmd.Stdout, d.cmd.Stderr = d, d
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = d.cmd.Wait() // tests kill it
		close(d.done)
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGCONT)
		d.kill()
		if t.Failed() {
			out := d.output()
			t.Logf("holdfast controller:\n%s", out[max(0, len(out)-8000):])
		}
	})
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if r, err := http.Get("http://" + probes + "/readyz"); err == nil { //nolint:noctx // it ends with the process
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return d
			}
		}
		if d.dead() {
			return d // killed on its way
		}
		if time.Since(begun) > 2*time.Minute {
			t.Fatal("holdfast controller is not ready")
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// sweepNow asks for a sweep, past the front.
func sweepNow(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	c.Get(ctx, c.Name, cluster)
	base := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AnnotationSweepNow, time.Now().Format(time.RFC3339Nano))
	if err := g.Client.Patch(ctx, cluster, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

func recordsOf(ctx context.Context, t *testing.T, g *management.Ground) []v1alpha1.Remediation {
	t.Helper()
	list := &v1alpha1.RemediationList{}
	if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// forget takes all records away: the next drift is a first one.
func forget(ctx context.Context, t *testing.T, g *management.Ground) {
	t.Helper()
	if err := g.Client.DeleteAllOf(ctx, &v1alpha1.Remediation{}, client.InNamespace(g.Namespace)); err != nil {
		t.Fatal(err)
	}
}

// repaired says why there is not exactly one record, that has succeeded, of a
// Machine, and no drift any more.
func repaired(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) error {
	t.Helper()
	rs := recordsOf(ctx, t, g)
	switch {
	case len(rs) != 1:
		return fmt.Errorf("there are %d records", len(rs))
	case rs[0].Spec.Machine == nil || rs[0].Spec.Machine.UID != m.UID:
		return fmt.Errorf("the record is about %+v", rs[0].Spec.Machine)
	case rs[0].Status.Phase != v1alpha1.PhaseSucceeded:
		return fmt.Errorf("the record is %s (%s): %s", rs[0].Status.Phase, rs[0].Status.Reason, rs[0].Status.Message)
	}
	for _, now := range c.Machines(ctx) {
		if have := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionDriftDetected); have == nil || have.Status != metav1.ConditionFalse {
			return fmt.Errorf("%s has %+v", now.Name, have)
		}
	}
	return nil
}

// missing finds whoever says that something is missing.
func missing(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) []string {
	t.Helper()
	var out []string
	says := func(who, text string) {
		if strings.Contains(text, "Missing") || strings.Contains(text, "is missing") {
			out = append(out, who+" says "+text)
		}
	}
	for _, m := range c.Machines(ctx) {
		for _, k := range m.Status.Conditions {
			if k.Type == v1alpha1.ConditionDriftDetected || k.Type == v1alpha1.ConditionInfrastructureDrifted {
				says(m.Name, k.Reason+": "+k.Message)
			}
		}
	}
	for _, r := range recordsOf(ctx, t, g) {
		if r.Spec.Action != "patch" {
			out = append(out, fmt.Sprintf("record %s wants to %s", r.Name, r.Spec.Action))
		}
	}
	list := &eventsv1.EventList{}
	if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.ReportingController == v1alpha1.FieldManager {
			says("an event", e.Reason+": "+e.Note)
		}
	}
	return out
}
