// Package moto runs moto's server, a simulation of AWS's APIs in Python, for
// tests that need an implementation of EC2 and Elastic Load Balancing which
// this project did not write.
//
// It is pinned to the version in hack/moto/requirements.txt. moto changes states at
// once, never throttles and counts reservations rather than instances in a
// page; test/ec2sim covers what it cannot express.
package moto

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// What a new server holds and answers to.
const (
	// Account is the account of every caller whose access key is not one that
	// moto itself handed out.
	Account = "123456789012"
	// Image is the only machine image there is, in every region.
	Image = "ami-0abcdef1234567890"
)

// BinaryVariable names the environment variable with the path of moto_server.
const BinaryVariable = "HOLDFAST_MOTO"

// startTime bounds the start: Python imports most of moto first.
const startTime = 60 * time.Second

//go:embed images.json
var images []byte

// Server is a running moto with nothing in it.
type Server struct {
	// URL is the endpoint of every service.
	URL string

	cmd    *exec.Cmd
	dir    string
	output *tail
	done   chan struct{}
}

// Find gives the path of moto_server, which the variable names. One in PATH
// would do, and nobody would have pinned its version.
func Find() (string, error) {
	path := os.Getenv(BinaryVariable)
	if path == "" {
		return "", fmt.Errorf("%s is not set: run the tests by hack/test.sh, or set it to the output of hack/moto/install.sh", BinaryVariable)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s: %w", BinaryVariable, err)
	}
	return path, nil
}

// Start starts a server on a free port of the loopback interface and returns
// when it answers. Callers must Close it.
func Start(ctx context.Context) (*Server, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-moto-")
	if err != nil {
		return nil, fmt.Errorf("start moto: %w", err)
	}
	s := &Server{dir: dir, output: &tail{}, done: make(chan struct{})}
	if err := s.start(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("start moto: %w\n%s", err, s.output), s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	file := filepath.Join(s.dir, "images.json")
	if err := os.WriteFile(file, images, 0o600); err != nil {
		return err
	}
	read, write := io.Pipe()
	s.cmd = exec.Command(path, "-H", "127.0.0.1", "-p", "0")
	s.cmd.Env = append(environment(), "MOTO_AMIS_PATH="+file, "PYTHONUNBUFFERED=1")
	s.cmd.Stdout, s.cmd.Stderr = write, write
	s.cmd.SysProcAttr = dieWithParent()
	if err := s.cmd.Start(); err != nil {
		close(s.done)
		return err
	}
	url, scanned := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(scanned)
		s.scan(read, url)
	}()
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // it ends by being killed
		_ = write.Close()
		<-scanned
	}()
	select {
	case s.URL = <-url:
	case <-s.done:
		return errors.New("it ended at once")
	case <-ctx.Done():
		return fmt.Errorf("it names no port: %w", ctx.Err())
	}
	return s.await(ctx)
}

// environment is the process's own without what configures AWS clients: a test
// may have pointed those at another server, and moto is one of their users.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
}

var announcement = regexp.MustCompile(`Running on (http://127\.0\.0\.1:\d+)`)

// scan reads the output for the port that the server was given, and the rest
// of it so that the server never blocks.
func (s *Server) scan(from io.Reader, url chan<- string) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		s.output.add(lines.Text())
		if m := announcement.FindStringSubmatch(lines.Text()); m != nil {
			select {
			case url <- m[1]:
			default:
			}
		}
	}
	_, _ = io.Copy(io.Discard, from) // after an overlong line
}

// await polls until the server answers.
func (s *Server) await(ctx context.Context) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.get(ctx, http.MethodGet, "/moto-api/")
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-s.done:
			return errors.New("it ended before it answered")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		}
	}
}

// Reset removes everything from the server, in all accounts and regions.
func (s *Server) Reset(ctx context.Context) error {
	if err := s.get(ctx, http.MethodPost, "/moto-api/reset"); err != nil {
		return fmt.Errorf("reset moto: %w", err)
	}
	return nil
}

func (s *Server) get(ctx context.Context, method, path string) error {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return nil
}

// Environment gives the variables that lead an AWS SDK, and nothing else of
// the caller's own configuration, to the server.
func (s *Server) Environment() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL":            s.URL,
		"AWS_REGION":                  "eu-central-1",
		"AWS_ACCESS_KEY_ID":           "AKIAIOSFODNN7EXAMPLE",
		"AWS_SECRET_ACCESS_KEY":       "moto-takes-any",
		"AWS_SESSION_TOKEN":           "",
		"AWS_PROFILE":                 "",
		"AWS_CONFIG_FILE":             filepath.Join(s.dir, "no-config"),
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(s.dir, "no-credentials"),
		"AWS_EC2_METADATA_DISABLED":   "true",
	}
}

// Output gives the last lines that the server wrote, to explain a failure.
func (s *Server) Output() string { return s.output.String() }

// Close ends the server. It may be called again.
func (s *Server) Close() error {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill() // it may have ended already
		<-s.done
	}
	return os.RemoveAll(s.dir)
}

// tail keeps the last lines of the output for error messages.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	if len(t.lines) > 40 {
		t.lines = t.lines[1:]
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	for _, l := range t.lines {
		b.WriteString("  moto: " + l + "\n")
	}
	return b.String()
}
