//go:build browser

// The tests in this file open the page in a real browser: go test -tags
// browser ./report. They have a tag of their own since a browser is not part
// of a Go installation.

package report

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"
)

var screens = flag.String("screens", "", "folder to write screenshots of the page to")

// chromium finds the browser. Without one the tests are skipped on a person's
// machine, and fail where CI is set: there a skipped test is an untested page.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	hint := "no Chromium found: install it, on Debian with apt-get update && apt-get install -y chromium"
	if os.Getenv("CI") == "true" {
		t.Fatal(hint)
	}
	t.Skip(hint)
	return ""
}

// browse runs the browser on a page and gives what it prints.
func browse(t *testing.T, file string, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--no-first-run", "--hide-scrollbars", "--virtual-time-budget=5000",
		"--user-data-dir=" + t.TempDir(),
	}, flags...)
	cmd := exec.CommandContext(ctx, chromium(t), append(args, "file://"+file)...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, errors.String())
	}
	return string(out)
}

// dump gives the page's document after its scripts have run.
func dump(t *testing.T, page string) *html.Node {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(strings.NewReader(browse(t, file, "--dump-dom")))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func attacked(doc *html.Node) bool {
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if n.Data == "html" && a.Key == "data-attacked" {
				return true
			}
		}
	}
	return false
}

// listen counts requests.
func listen(t *testing.T) (address string, hits *atomic.Int32) {
	hits = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(server.Close)
	return server.URL + "/", hits
}

func attackedReport(address string) *Report {
	in := showcase()
	for i, payload := range attacks(address) {
		d := &in.Decisions[len(in.Decisions)-1-i]
		*d = hostileDecision(i, payload)
	}
	in.ShowIgnored = true
	return Build(in)
}

func TestBrowserRunsNoPayload(t *testing.T) {
	address, hits := listen(t)
	doc := dump(t, string(render(t, attackedReport(address), FormatHTML, Style{})))
	if attacked(doc) {
		t.Error("a payload ran in the page")
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the page made %d requests", n)
	}
	// The page's own script did run: otherwise nothing was shown.
	shown := ""
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "id" && a.Val == "shown" && n.FirstChild != nil {
				shown = n.FirstChild.Data
			}
		}
	}
	if !strings.Contains(shown, "entries") {
		t.Errorf("the page's own script did not run: it says %q", shown)
	}
}

// The policy alone holds: markup that got into the page does not act.
func TestBrowserPolicyHolds(t *testing.T) {
	address, hits := listen(t)
	page := string(render(t, Build(sample()), FormatHTML, Style{}))
	page = strings.Replace(page, "<main", strings.Join(attacks(address)[:4], "")+"<main", 1)
	if attacked(dump(t, page)) {
		t.Error("injected markup ran in spite of the content security policy")
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("injected markup made %d requests", n)
	}
}

// The test can fail: without escaping and policy the same payloads act.
func TestBrowserSeesAnAttack(t *testing.T) {
	address, hits := listen(t)
	if !attacked(dump(t, "<!DOCTYPE html><title>x</title>"+strings.Join(attacks(address)[:3], ""))) {
		t.Error("the payloads do nothing in an unprotected page: the other tests prove nothing")
	}
	if hits.Load() == 0 {
		t.Error("an unprotected page made no request: the other tests prove nothing")
	}
}

// Screenshots are for looking at: go test -tags browser ./report -run
// Screenshots -screens DIR.
func TestBrowserScreenshots(t *testing.T) {
	if *screens == "" {
		t.Skip("no -screens folder given")
	}
	folder, err := filepath.Abs(*screens)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "report.html")
	if err := os.WriteFile(file, render(t, attackedReport("http://127.0.0.1:9/"), FormatHTML, Style{}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{
		"desktop":      {"--window-size=1280,844"},
		"desktop-long": {"--window-size=1280,4200"},
		"dark":         {"--window-size=1280,1400", "--blink-settings=preferredColorScheme=0"},
		"phone":        {"--window-size=390,844"},
		"phone-long":   {"--window-size=390,6000"},
	} {
		browse(t, file, append(flags, "--screenshot="+filepath.Join(folder, name+".png"))...)
	}
	browse(t, file, "--no-pdf-header-footer", "--print-to-pdf="+filepath.Join(folder, "report.pdf"))
}
