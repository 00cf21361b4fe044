package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func parsePage(t *testing.T, in BuildInput) *html.Node {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(render(t, Build(in), FormatHTML, Style{})))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// The page's policy names its one style and its one script by their hashes,
// and allows nothing else.
func TestPagePolicy(t *testing.T) {
	policy, scripts, styles := "", []string{}, []string{}
	for n := range parsePage(t, sample()).Descendants() {
		switch n.Data {
		case "meta":
			if attribute(n, "http-equiv") == "Content-Security-Policy" {
				policy = attribute(n, "content")
			}
		case "script":
			scripts = append(scripts, textOf(n))
		case "style":
			styles = append(styles, textOf(n))
		}
	}
	if len(scripts) != 1 || len(styles) != 1 {
		t.Fatalf("%d scripts and %d styles, want one of each", len(scripts), len(styles))
	}
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	for _, want := range []string{"default-src 'none'", "script-src " + hash(scripts[0]), "style-src " + hash(styles[0]), "base-uri 'none'", "form-action 'none'"} {
		if !slices.Contains(strings.Split(policy, "; "), want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is unsafe: %s", policy)
	}
}

// The page needs nothing else and asks for nothing: links stay in it, and no
// element loads anything or carries a handler or a style of its own.
func TestPageIsSelfContained(t *testing.T) {
	for n := range parsePage(t, hostileInput(payloads(payloadCount)...)).Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"img", "iframe", "object", "embed", "link", "base", "audio", "video", "source", "image", "use"}, n.Data) {
			t.Errorf("the page has a %s", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "href" && !strings.HasPrefix(a.Val, "#"), a.Key == "src", a.Key == "style", a.Key == "srcdoc", a.Key == "action",
				strings.HasPrefix(a.Key, "on"):
				t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
}

// What a reader without sight or without scripts needs.
func TestPageIsAccessible(t *testing.T) {
	doc := parsePage(t, showcase())
	level, ids := 0, map[string]bool{}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if id := attribute(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("the id %s is there twice", id)
			}
			ids[id] = true
		}
		switch n.Data {
		case "html":
			if attribute(n, "lang") == "" {
				t.Error("the page has no language")
			}
		case "h1", "h2", "h3", "h4":
			now := int(n.Data[1] - '0')
			if now > level+1 {
				t.Errorf("heading %q is of level %d after one of level %d", textOf(n), now, level)
			}
			level = now
		case "table":
			if n.FirstChild == nil || firstElement(n).Data != "caption" {
				t.Error("a table has no caption")
			}
		case "th":
			if attribute(n, "scope") == "" {
				t.Errorf("heading cell %q has no scope", textOf(n))
			}
		case "input", "select":
			if n.Parent.Data != "label" {
				t.Errorf("field %s has no label", attribute(n, "id"))
			}
		case "details":
			if !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "open" }) {
				t.Error("an owner is closed, and stays so in print")
			}
		case "form":
			if !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "hidden" }) {
				t.Error("the filter shows where no script runs that could filter")
			}
		}
	}
	for n := range doc.Descendants() {
		if href := attribute(n, "href"); n.Data == "a" && !ids[strings.TrimPrefix(href, "#")] {
			t.Errorf("link %s leads nowhere", href)
		}
	}
}

func firstElement(n *html.Node) *html.Node {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode {
			return c
		}
	}
	return n
}

func TestPageEndsWithTheLastLine(t *testing.T) {
	for name, in := range map[string]BuildInput{"sample": sample(), "empty": {Now: at}} {
		t.Run(name, func(t *testing.T) {
			for n := range parsePage(t, in).Descendants() {
				if n.Data == "footer" && strings.TrimSpace(textOf(n)) != lastLine {
					t.Errorf("the page ends with %q", textOf(n))
				}
			}
			for _, f := range []Format{FormatTable, FormatWide, FormatMarkdown} {
				out := strings.TrimSpace(string(render(t, Build(in), f, Style{})))
				if last := out[strings.LastIndex(out, "\n")+1:]; strings.Trim(last, "_") != lastLine {
					t.Errorf("%s ends with %q", f, last)
				}
			}
		})
	}
}

// Text and its background differ by 4.5 to 1 at least (WCAG 2.2, 1.4.3), in
// the light and in the dark page.
func TestPageContrast(t *testing.T) {
	variable := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6})`)
	light, dark, found := strings.Cut(pageStyle, "@media screen and (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("the page has no dark colours")
	}
	dark, _, _ = strings.Cut(dark, "\n}\n")
	for name, css := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(css, -1) {
			colors[m[1]] = m[2]
		}
		pairs := map[string][]string{
			"ink":    {"bg", "card", "code", "want-bg", "have-bg"},
			"soft":   {"bg", "card", "want-bg", "have-bg"},
			"accent": {"card", "bg"},
		}
		for _, word := range []string{"critical", "high", "medium", "low", "info", "ok"} {
			pairs[word] = []string{word + "-bg", "card"}
		}
		for _, front := range slices.Sorted(maps.Keys(pairs)) {
			for _, back := range pairs[front] {
				if c := contrast(t, colors[front], colors[back]); c < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", name, front, back, c)
				}
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance is WCAG's relative luminance.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 32)
	if err != nil {
		t.Fatalf("colour %q: %v", hex, err)
	}
	linear := func(shift uint) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(16) + 0.7152*linear(8) + 0.0722*linear(0)
}
