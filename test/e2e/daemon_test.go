package e2e

import (
	"bytes"
	"errors"
	"flag"
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

func TestMain(m *testing.M) { os.Exit(management.Main(build{m})) }

// all runs the long tests too: each wants a quiet machine and ten minutes.
var all = flag.Bool("e2e.all", false, "run the long tests too")

func long(t *testing.T) {
	t.Helper()
	if !*all {
		t.Skip("runs with -e2e.all (make e2e)")
	}
}

// build makes the program once, before the tests.
type build struct{ m *testing.M }

// program is the path of holdfast.
var program string

func (b build) Run() int {
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/holdfast-io/holdfast/cmd/holdfast").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build holdfast: %v\n%s", err, out)
		return 1
	}
	return b.m.Run()
}

// daemon is a running holdfast controller.
type daemon struct {
	cmd *exec.Cmd
	// policy is the file of its policies, metrics the address of /metrics.
	policy, metrics string

	output *output
	done   chan error
}

// output takes what a process writes while a test reads it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// startTime and stopTime bound how long the program takes for either.
const (
	startTime = time.Minute
	stopTime  = 10 * time.Second
)

// start runs the program in the ground's namespace by a policy, until the test
// ends, and returns when it says that it is ready.
func start(t *testing.T, g *management.Ground, policy string, flags ...string) *daemon {
	t.Helper()
	return launch(t, g.Environ(), policy, append([]string{"--namespace", g.Namespace}, flags...)...)
}

// launch runs the program in an environment. Clouds that are simulated here show
// at once what is done to them, so that it need not wait long for them.
func launch(t *testing.T, environ []string, policy string, flags ...string) *daemon {
	t.Helper()
	probes := freeAddress(t)
	d := &daemon{policy: filepath.Join(t.TempDir(), "policy.yaml"), metrics: freeAddress(t), output: &output{}, done: make(chan error, 1)}
	d.follow(t, policy)
	d.cmd = exec.Command(program, append([]string{"controller", "--policy", d.policy,
		"--metrics-bind-address", d.metrics, "--metrics-secure=false", "--health-probe-bind-address", probes,
		"--start-spread", "0s", "--creation-grace", "1s", "--verify-after", "1s", "--poll-interval", "1s"}, flags...)...)
	d.cmd.Env = environ
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.done <- d.cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("its metrics:\n%s", d.series())
		}
		d.stop(t)
		if t.Failed() {
			t.Logf("holdfast controller:\n%s", d.output)
		}
	})
	for begun := time.Now(); ; {
		err := ready("http://" + probes + "/readyz")
		if err == nil {
			return d
		}
		if time.Since(begun) > startTime {
			t.Fatalf("holdfast controller is not ready: %v", err)
		}
		select {
		case err := <-d.done:
			d.done <- err
			t.Fatalf("holdfast controller ended: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// follow gives it another policy, which it reads by itself: whole, as a
// ConfigMap's mount changes.
func (d *daemon) follow(t *testing.T, policy string) {
	t.Helper()
	next := d.policy + ".next"
	if err := os.WriteFile(next, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, d.policy); err != nil {
		t.Fatal(err)
	}
}

func ready(url string) error {
	r, err := http.Get(url) //nolint:noctx // it ends with the process
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}

// stop ends it as Kubernetes does. A second call does nothing.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if d.cmd.ProcessState != nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-d.done:
		if err != nil {
			t.Errorf("holdfast controller ended with %v", err)
		}
	case <-time.After(stopTime):
		_ = d.cmd.Process.Kill()
		<-d.done
		t.Errorf("holdfast controller did not end within %s", stopTime)
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
