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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var live = flag.Bool("firsthour.live", false, "run docs/first-hour.md block by block (five minutes)")

// page is docs/first-hour.md.
var page = filepath.Join("..", "..", "docs", "first-hour.md")

// block is something that the page has the reader run, and what it says that comes
// of it: shown is nil where it says nothing.
type block struct {
	run   string
	shown *string
	// begin and end are where shown stands in the page.
	begin, end int
}

var fence = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")

func blocks(t *testing.T, text string) []block {
	t.Helper()
	var out []block
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		body := text[m[4]:m[5]]
		switch {
		case text[m[2]:m[3]] == "sh":
			out = append(out, block{run: body})
		case len(out) == 0 || out[len(out)-1].shown != nil:
			t.Fatalf("%s shows what nothing gives: %s", page, body)
		default:
			b := &out[len(out)-1]
			b.shown, b.begin, b.end = &body, m[4], m[5]
		}
	}
	return out
}

// TestFirstHour does what docs/first-hour.md says, as a reader would: in one shell,
// beside the world that hack/first-hour.sh puts up, and holds what the page shows to
// what comes of it. -update rewrites what it shows.
func TestFirstHour(t *testing.T) {
	if !*live {
		t.Skip("takes some minutes: -firsthour.live")
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	all := blocks(t, text)
	if len(all) < 10 || all[0].run != "make first-hour\n" {
		t.Fatalf("%s has %d blocks, and begins with %q", page, len(all), all[0].run)
	}
	dir := t.TempDir()
	world := filepath.Join(dir, "world")
	putUp(t, world)
	outputs := follow(t, dir, world, all[1:])
	for i := len(outputs) - 1; i >= 0; i-- {
		b := all[i+1]
		if b.shown == nil {
			continue
		}
		got := strings.ReplaceAll(outputs[i], world, "~/.cache/holdfast/first-hour")
		if *update {
			text = text[:b.begin] + got + text[b.end:]
			continue
		}
		if d := cmp.Diff(essence(*b.shown), essence(got)); d != "" {
			t.Errorf("%s shows something else than %q gives (run this test with -update) (-shown +got):\n%s", page, b.run, d)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// putUp runs what `make first-hour` runs, until the test ends.
func putUp(t *testing.T, world string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command("../../hack/first-hour.sh", "--dir", world)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = alone()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil || !strings.Contains(log.String(), "Everything that this has started has been stopped.") {
			t.Errorf("hack/first-hour.sh did not end in order: %v\n%s", err, log.String())
		}
		if _, err := os.Stat(world); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", world, err)
		}
	})
	for deadline := time.Now().Add(20 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(world, environmentFile)); err == nil {
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("hack/first-hour.sh has ended: %v\n%s", err, log.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("hack/first-hour.sh is not ready")
		}
	}
}

// follow runs the blocks in one shell, and gives what each has printed.
func follow(t *testing.T, dir, world string, all []block) []string {
	t.Helper()
	var script strings.Builder
	script.WriteString("set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n")
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("block-%d", i)) }
	for i, b := range all {
		if i == len(all)-1 {
			script.WriteString(anew)
		}
		run := strings.ReplaceAll(b.run, "~/.cache/holdfast/first-hour", world)
		fmt.Fprintf(&script, "{\n%s} > %s 2>&1\n", run, name(i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-s")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stdin = strings.NewReader(script.String())
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = alone()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	said, err := cmd.CombinedOutput()
	var out []string
	for i := range all {
		data, missing := os.ReadFile(name(i))
		if missing != nil {
			break
		}
		out = append(out, string(data))
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(world, "pod.log")) // there is none before the installation
		t.Fatalf("%s: block %d: %v\n%s\n%s\n%s\npod.log:\n%s", page, len(out)+1, err, said, all[len(out)-1].run, out[len(out)-1], log[max(0, len(log)-5000):])
	}
	return out
}

// anew goes beyond the page: a reader who changes a value finds it in effect.
const anew = `helm upgrade holdfast charts/holdfast -n holdfast-system --reuse-values --set logLevel=debug > /dev/null
until grep -q 'starting anew' "$FIRST_HOUR/pod.log"; do sleep 1; done
until curl -fs "http://$PROBES/readyz" > /dev/null && [ "$(grep -c '"msg":"Ready"' "$FIRST_HOUR/pod.log")" -ge 2 ]; do sleep 1; done
`

var passing = regexp.MustCompile(`LAST DEPLOYED: .*|[0-9a-f]{17}|\b([0-9]+(\.[0-9]+)?(ms|s|m|h|d)?)+\b`)

// essence is what an output says whatever the machine's pace and the run's names.
func essence(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(names.ReplaceAllString(line, "-#")), " ")
		out = append(out, passing.ReplaceAllString(line, "#"))
	}
	return out
}
