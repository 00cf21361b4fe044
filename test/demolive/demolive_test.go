package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the output in docs/demo-live.md")

// built is the folder with the program, once there is one.
var built string

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-demolive-test-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/holdfast").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// watched takes the demo's output, and calls a function when it has a text in it.
type watched struct {
	mu   sync.Mutex
	b    bytes.Buffer
	text string
	then func()
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(p)
	if w.then != nil && strings.Contains(w.b.String(), w.text) {
		w.then()
		w.then = nil
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// show runs the demo.
func show(t *testing.T, ctx context.Context, out *watched, args ...string) (code int, stderr string) {
	t.Helper()
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	before := children(t)
	var errs bytes.Buffer
	code = run(ctx, append([]string{"--holdfast", binary}, args...), out, &errs)
	for pid, what := range children(t) {
		if _, old := before[pid]; !old {
			t.Errorf("process %d is left running: %s", pid, what)
		}
	}
	return code, errs.String()
}

// children are this process's, by what /proc says.
func children(t *testing.T) map[int]string {
	t.Helper()
	out := map[int]string{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// PID (NAME) STATE PPID …, proc(5); the name may hold anything.
		end := bytes.LastIndexByte(data, ')')
		fields := strings.Fields(string(data[end+1:]))
		if ppid, _ := strconv.Atoi(fields[1]); ppid == os.Getpid() {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			out[pid] = string(data[:end+1])
		}
	}
	return out
}

// TestDemoLive runs the whole demo, which checks by itself that all that it tells
// is so, and holds docs/demo-live.md to it.
func TestDemoLive(t *testing.T) {
	out := &watched{}
	code, stderr := show(t, t.Context(), out)
	text := out.String()
	if code != exitOK {
		t.Fatalf("exit %d\n%s\n%s", code, text, stderr)
	}
	if strings.Contains(text, "\x1b") {
		t.Error("there is colour, and this is no terminal")
	}
	const begin, end = "```text\n", "```\n"
	file := filepath.Join("..", "..", "docs", "demo-live.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(data), begin)
	shown, foot, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no block that begins with %q", file, begin)
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+text+end+foot), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(gist(shown), gist(text)); d != "" {
		t.Errorf("%s tells another story (run this test with -update) (-shown +told):\n%s", file, d)
	}
}

var (
	told = regexp.MustCompile(`^ *[0-9.]+s  ([a-z]+) +(.*)$`)
	// names are those that are others in every run.
	names = regexp.MustCompile(`-[a-z0-9]{5}-[a-z0-9]{5}(-[0-9a-f]{10})?\b|\b(i|sg)-[0-9a-f]{17}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|-[0-9a-f]{10}\b`)
)

// gist is what a run tells whatever the machine's pace: its steps, and of each what
// was done, decided and found in the end. How long things took, and what was
// caught on the way, is left out.
func gist(text string) []string {
	var out []string
	for _, line := range strings.Split(strings.ReplaceAll(text, "\n"+strings.Repeat(" ", margin), " "), "\n") {
		m := told.FindStringSubmatch(line)
		switch {
		case m == nil:
			if regexp.MustCompile(`^[0-9]+\. `).MatchString(line) {
				out = append(out, line)
			}
			continue
		case slices.Contains([]string{held, replace, repair, verify}, m[1]):
			continue
		case m[1] == condition || m[1] == event:
			// What else was seen of a machine is a matter of the moment.
			m[2], _, _ = strings.Cut(m[2], ": ")
		}
		out = append(out, m[1]+" "+names.ReplaceAllString(m[2], "-#"))
	}
	return out
}

// TestInterrupted: Ctrl-C in the middle of it ends everything, and says so.
func TestInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watched{text: "DriftDetected=True", then: cancel}
	code, stderr := show(t, ctx, out)
	if code != exitInterrupted || !strings.Contains(out.String(), "Interrupted. Nothing is left running.") || stderr != "" {
		t.Errorf("exit %d\n%s\n%s", code, out, stderr)
	}
}

// TestNothingIsAssumed: where the daemon does not do what the story tells, the
// demo fails, and says what it saw.
func TestNothingIsAssumed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute")
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	tame := bytes.Replace(ownPolicy, []byte("mode: enforce"), []byte("mode: dryRun"), 1)
	if err := os.WriteFile(policy, tame, 0o600); err != nil {
		t.Fatal(err)
	}
	out := &watched{}
	code, stderr := show(t, t.Context(), out, "--policy", policy, "--patience", "20s")
	if code != exitFailed {
		t.Fatalf("exit %d\n%s\n%s", code, out, stderr)
	}
	for _, want := range []string{"a Remediation of prod-eu-general-", "not within 20s: there is none", "What there is:", "DriftDetected=True Drifted", "the end of its log:"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not say %q:\n%s", want, stderr)
		}
	}
}
