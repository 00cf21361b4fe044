//go:build browser

// The tests in this file open the page in a real browser: go test -tags
// browser ./report. They have a tag of their own since a browser is not part
// of a Go installation.

package report

import (
	"context"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
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

// chromium finds the browser: the one that HOLDFAST_CHROMIUM names, as
// hack/test.sh sets it, or one in PATH. Without one the tests fail: a skipped
// test is an untested page.
func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("HOLDFAST_CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium found: run the tests by hack/test.sh, or install it, on Debian with apt-get update && apt-get install -y chromium")
	return ""
}

// browse runs the browser on a page and gives what it prints.
func browse(t *testing.T, file, fragment string, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--no-first-run", "--hide-scrollbars", "--virtual-time-budget=5000",
		"--user-data-dir=" + t.TempDir(),
	}, flags...)
	cmd := exec.CommandContext(ctx, chromium(t), append(args, (&url.URL{Scheme: "file", Path: file}).String()+fragment)...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, errors.String())
	}
	return string(out)
}

// dump gives the page's document after its scripts have run.
func dump(t *testing.T, page string, fragment ...string) *html.Node {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(strings.NewReader(browse(t, file, strings.Join(fragment, ""), "--dump-dom")))
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
	if !strings.Contains(said(doc), "findings") {
		t.Errorf("the page's own script did not run: it says %q", said(doc))
	}
}

// said is what the page's own script says about the filter: empty where it did
// not run.
func said(doc *html.Node) string {
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "id" && a.Val == "shown" && n.FirstChild != nil {
				return n.FirstChild.Data
			}
		}
	}
	return ""
}

// visible counts the entries that are not hidden.
func visible(doc *html.Node) (shown int, severities map[string]int) {
	severities = map[string]int{}
	for n := range doc.Descendants() {
		if n.Data != "article" {
			continue
		}
		hidden, severity := false, ""
		for _, a := range n.Attr {
			hidden = hidden || a.Key == "hidden"
			if a.Key == "data-severity" {
				severity = a.Val
			}
		}
		if !hidden {
			shown++
			severities[severity]++
		}
	}
	return shown, severities
}

func TestBrowserFilters(t *testing.T) {
	page := string(render(t, Build(sample()), FormatHTML, Style{}))
	everything, _ := visible(dump(t, page))
	for fragment, want := range map[string]int{
		"#severity=critical":                     2,
		"#severity=high&kind=Instance":           2,
		"#status=not+checked":                    1,
		"#status=not+checked&kind=Volume":        1,
		"#cluster=edge%2Fplant-7":                3,
		"#text=eu-1-md-0-9qq1r":                  2,
		"#text=M5.4XLARGE+instance-type":         1,
		"#text=no+such+thing":                    0,
		"#cluster-1":                             everything,
		"#text=&severity=&status=&cluster=&kind": everything,
	} {
		t.Run(fragment, func(t *testing.T) {
			doc := dump(t, page, fragment)
			if got, bySeverity := visible(doc); got != want || said(doc) == "" {
				t.Errorf("%d entries are shown, want %d (by severity: %v); the page says %q", got, want, bySeverity, said(doc))
			}
		})
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

// TestBrowserScreenshots draws the attacked page at every width. To look at the
// pictures: go test -tags browser ./report -run Screenshots -screens DIR.
func TestBrowserScreenshots(t *testing.T) {
	folder := t.TempDir()
	if *screens != "" {
		var err error
		if folder, err = filepath.Abs(*screens); err != nil {
			t.Fatal(err)
		}
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
		picture := filepath.Join(folder, name+".png")
		browse(t, file, "", append(flags, "--screenshot="+picture)...)
		drawn(t, picture, flags[0])
	}
	browse(t, file, "", "--no-pdf-header-footer", "--print-to-pdf="+filepath.Join(folder, "report.pdf"))
}

// drawn checks that a picture has the window's size and is not of one colour.
func drawn(t *testing.T, picture, window string) {
	t.Helper()
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", picture, err)
	}
	size := img.Bounds().Size()
	if want := fmt.Sprintf("--window-size=%d,%d", size.X, size.Y); want != window {
		t.Errorf("%s is of %v, want %s", picture, size, window)
	}
	colours := map[color.Color]bool{}
	for y := range size.Y {
		colours[img.At(size.X/4, y)] = true
	}
	if len(colours) < 3 {
		t.Errorf("%s shows %d colours down a quarter of its width: an empty page", picture, len(colours))
	}
}

// Where there is much, only owners with something urgent start open; a filter
// shows all that it finds, and few findings start open altogether.
func TestBrowserStartsWithWhatIsUrgent(t *testing.T) {
	open := func(doc *html.Node) (open, urgent, all int) {
		for n := range doc.Descendants() {
			if n.Data != "details" {
				continue
			}
			all++
			isUrgent, isOpen := false, false
			for _, a := range n.Attr {
				isOpen = isOpen || a.Key == "open"
			}
			for d := range n.Descendants() {
				for _, a := range d.Attr {
					isUrgent = isUrgent || d.Data == "article" && a.Key == "class" && (strings.Contains(a.Val, "critical") || strings.Contains(a.Val, "high"))
				}
			}
			if isOpen {
				open++
			}
			if isUrgent {
				urgent++
			}
			if isOpen != isUrgent {
				open = -1000
			}
		}
		return open, urgent, all
	}
	many := string(render(t, Build(showcase()), FormatHTML, Style{}))
	if got, urgent, all := open(dump(t, many)); got != urgent || urgent == all || urgent == 0 {
		t.Errorf("%d of %d owners start open, want the %d with something urgent", got, all, urgent)
	}
	doc := dump(t, many, "#severity=low")
	for n := range doc.Descendants() {
		if n.Data == "article" && attributeOf(n, "data-severity") == "low" && attributeOf(n.Parent, "open") == "none" {
			t.Errorf("a finding that the filter shows is in a closed owner")
		}
	}
	few := dump(t, string(render(t, Build(sample()), FormatHTML, Style{})))
	for n := range few.Descendants() {
		if n.Data == "details" && attributeOf(n, "open") == "none" {
			t.Error("an owner of few findings starts closed")
		}
	}
	if got, want := said(few), "13 findings · 2 not checked · 1 unknown · 2 problems; what drifted alike shares an entry"; got != want {
		t.Errorf("the page says %q, want %q", got, want)
	}
}

// attributeOf gives "none" where the attribute is not there: open is empty.
func attributeOf(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return "none"
}
