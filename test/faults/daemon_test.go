package faults

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/test/management"
)

// policyOf acts by rules on what is seen, as soon as it is seen.
func policyOf(rules ...string) string {
	text := `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: at-once}
spec:
  mode: enforce
  safety: {maxDriftRatio: 100%, minHealthy: 50%}
  rules:
`
	for _, r := range rules {
		text += "  - {id: " + r + ", grace: {for: 0s, observations: 1}, attempts: {max: 10, per: 1h}}\n"
	}
	return text
}

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

// run starts the program on a ground and waits until it is ready.
func run(t *testing.T, g *management.Ground, f *front, policy string, args ...string) *daemon {
	t.Helper()
	return launch(t, g.Namespace, g.Environ(), f, policy, args...)
}

// launch starts the program for a namespace.
func launch(t *testing.T, namespace string, environ []string, f *front, policy string, args ...string) *daemon {
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
	d.cmd = exec.Command(bin, append([]string{"controller", "--namespace", namespace, "--policy", file, "--verify-after", "1s", "--poll-interval", "1s",
		"--metrics-bind-address", "0", "--health-probe-bind-address", probes, "--start-spread", "0s", "--creation-grace", "1s"}, args...)...)
	d.cmd.Env = append(environ, "KUBECONFIG="+kubeconfig)
	if f.aws != nil {
		d.cmd.Env = append(d.cmd.Env, "AWS_ENDPOINT_URL=http://"+f.aws.Listen)
	}
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
