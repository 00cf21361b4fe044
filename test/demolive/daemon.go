package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/test/management"
)

// stopTime is what `holdfast controller` promises to end within.
const stopTime = 10 * time.Second

// daemon is the running `holdfast controller`.
type daemon struct {
	cmd    *exec.Cmd
	log    *tail
	probes string
	ended  chan struct{}
	err    error
}

// startDaemon runs the program as a process of its own, in a process group of
// its own so that Ctrl-C reaches it by way of this one.
func startDaemon(st *stage, s *settings, g *management.Ground, policy string, environ ...string) *daemon {
	probes, err := freeAddress()
	st.must(err)
	d := &daemon{log: &tail{}, probes: probes, ended: make(chan struct{})}
	var log io.Writer = d.log
	if s.log != "" {
		file, err := os.Create(s.log)
		st.must(err)
		st.Cleanup(func() { _ = file.Close() })
		log = io.MultiWriter(d.log, file)
	}
	d.cmd = exec.Command(s.binary, "controller", "--policy", policy, "--namespace", g.Namespace,
		"--leader-election-namespace", g.Namespace, "--metrics-bind-address", "0", "--health-probe-bind-address", probes,
		"--aws-event-queue", queue, "--creation-grace", "1s", "--start-spread", "0s",
		"--verify-after", "2s", "--poll-interval", "1s", "--log-format", "text")
	d.cmd.Env = append(g.Environ(), environ...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = alone()
	st.must(d.cmd.Start())
	go func() {
		d.err = d.cmd.Wait()
		close(d.ended)
	}()
	st.Cleanup(func() {
		if err := d.stop(); err != nil {
			st.Errorf("%w", err)
		}
	})
	return d
}

// stop ends it as Kubernetes does. It may be called again.
func (d *daemon) stop() error {
	select {
	case <-d.ended:
		return nil
	default:
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop holdfast controller: %w", err)
	}
	select {
	case <-d.ended:
		if d.err != nil {
			return fmt.Errorf("holdfast controller did not end in order: %w\n%s", d.err, d.log)
		}
		return nil
	case <-time.After(stopTime):
		_ = d.cmd.Process.Kill()
		<-d.ended
		return fmt.Errorf("holdfast controller had not ended %s after SIGTERM, and was killed\n%s", stopTime, d.log)
	}
}

// ready asks /readyz.
func (d *daemon) ready() string {
	c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + d.probes + "/readyz?verbose")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		return "it is not ready: " + strings.TrimSpace(string(body))
	}
	return ""
}

// broken says that it ended by itself.
func (d *daemon) broken() error {
	select {
	case <-d.ended:
		return fmt.Errorf("holdfast controller has ended: %w\n%s", d.err, d.log)
	default:
		return nil
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// tail keeps the last lines that were written.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// kept bounds what a tail holds.
const kept = 32 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - kept; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "the end of its log:\n" + string(bytes.TrimSpace(t.buf))
}

// kubectl is the real one beside the API server.
func kubectl() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl") }
