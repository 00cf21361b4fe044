package running

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ProgramVariable names a holdfast that is built already.
const ProgramVariable = "HOLDFAST_PROGRAM"

var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(ProgramVariable); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "holdfast-running-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/holdfast-io/holdfast/cmd/holdfast").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holdfast: %w\n%s", err, out)
	}
	return path, nil
})

// Program is the path of holdfast, built once in a process unless
// [ProgramVariable] names one.
func Program(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Daemon is a running holdfast controller.
type Daemon struct {
	// PolicyFile is the file of policies that it reads; see [Daemon.SetPolicy].
	PolicyFile string

	cmd             *exec.Cmd
	output          *output
	metrics, probes string
	done            chan struct{}
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

const (
	startTime = 3 * time.Minute // on a machine that does much else
	stopTime  = 10 * time.Second
	pause     = 50 * time.Millisecond
)

// Options say how the program runs.
type Options struct {
	Kubeconfig string
	// Environ is added to the process's own.
	Environ map[string]string
	// Policy is the text of the policy file; empty is the built-in ones alone.
	Policy string
	// Args come after those that every test has.
	Args []string
}

// Start runs the program until the test ends. It has leader election, all sinks
// and a policy file; /metrics is open. It returns when the process says that it
// is ready, which is after the first cloud has answered.
func Start(t testing.TB, o Options) *Daemon {
	t.Helper()
	d := &Daemon{PolicyFile: filepath.Join(t.TempDir(), "policy.yaml"), output: &output{}, done: make(chan struct{}),
		metrics: freeAddress(t), probes: freeAddress(t)}
	args := []string{"controller", "--kubeconfig", o.Kubeconfig, "--leader-election-namespace", "default",
		"--metrics-bind-address", d.metrics, "--metrics-secure=false", "--health-probe-bind-address", d.probes, "--start-spread", "0s",
		"--creation-grace", "1s", // the objects have been made just now
		"--nodes=false"} // their clusters have no API servers
	if o.Policy != "" {
		d.SetPolicy(t, o.Policy)
		args = append(args, "--policy", d.PolicyFile)
	}
	d.cmd = exec.Command(Program(t), append(args, o.Args...)...)
	d.cmd.Env = os.Environ()
	for key, value := range o.Environ {
		d.cmd.Env = append(d.cmd.Env, key+"="+value)
	}
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	d.cmd.SysProcAttr = dieWithParent()
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait() // its state says how it ended
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("holdfast controller's metrics:\n%s", d.ownSeries())
		}
		d.Stop(t)
		if t.Failed() {
			t.Logf("the end of holdfast controller's log:\n%s", tail(d.Log(), 20_000))
		}
	})
	Eventually(t, startTime, "ready", func() error {
		select {
		case <-d.done:
			t.Fatalf("holdfast controller ended: %s\n%s", d.cmd.ProcessState, tail(d.Log(), 5000))
		default:
		}
		_, err := d.get(d.probes, "/readyz")
		return err
	})
	return d
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// SetPolicy changes the policy file as a ConfigMap's mount does: at once.
func (d *Daemon) SetPolicy(t testing.TB, text string) {
	t.Helper()
	next := d.PolicyFile + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, d.PolicyFile); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the program as Kubernetes does. A second call does nothing.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	select {
	case <-d.done:
		return
	default:
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may end this moment
	select {
	case <-d.done:
		if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("holdfast controller ended with %d", code)
		}
	case <-time.After(stopTime):
		_ = d.cmd.Process.Kill()
		<-d.done
		t.Errorf("holdfast controller did not end within %s", stopTime)
	}
}

// Log is all that the program has written.
func (d *Daemon) Log() string { return d.output.String() }

// PID is the process's.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

func (d *Daemon) get(address, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", path, r.Status, body)
	}
	return body, err
}

// Page is /metrics as it is served.
func (d *Daemon) Page(t testing.TB) string {
	t.Helper()
	page, err := d.get(d.metrics, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// Series are the values of /metrics by name and labels, as in
// `holdfast_reads_total{provider="aws",reason="Start"}`.
func (d *Daemon) Series(t testing.TB) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for line := range strings.Lines(d.Page(t)) { // a label's line breaks are escaped
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			t.Fatalf("/metrics has the line %q", line)
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("/metrics has the line %q: %v", line, err)
		}
		out[line[:at]] = value
	}
	return out
}

// ownSeries are the lines of /metrics that are Holdfast's, for a failed test.
func (d *Daemon) ownSeries() string {
	page, err := d.get(d.metrics, "/metrics")
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "holdfast_") && !strings.Contains(line, "_bucket") && !strings.Contains(line, "holdfast_resources") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// Reads are how many sweeps and targeted reads came to something, by cause.
func (d *Daemon) Reads(t testing.TB, cause string) int {
	t.Helper()
	n := 0.0
	for series, value := range d.Series(t) {
		if strings.HasPrefix(series, "holdfast_reads_total{") && strings.Contains(series, fmt.Sprintf("reason=%q", cause)) {
			n += value
		}
	}
	return int(n)
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Eventually waits for something, and says what is missing if it does not come.
func Eventually(t testing.TB, patience time.Duration, what string, ok func() error) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(pause) {
		err := ok()
		if err == nil {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("not %s after %s: %v", what, patience, err)
		}
	}
}
