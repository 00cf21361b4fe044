package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	// link is [text](target), with a title or without; reference is [name]: target.
	link      = regexp.MustCompile(`\]\(\s*<?([^()\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	reference = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s+(\S+)`)
	heading   = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*#*$`)
	fenced    = regexp.MustCompile("(?ms)^ *(```|~~~).*?^ *(```|~~~) *$")
	inlined   = regexp.MustCompile("`[^`\n]*`")
)

// anchor is a heading's, as GitHub makes it: lower case, spaces to hyphens, and
// nothing but letters, digits, hyphens and underscores.
func anchor(text string) string {
	text = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// anchors of a document; a heading that comes again gets a number.
func anchors(text string) []string {
	var out []string
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		a := anchor(m[1])
		if n := seen[a]; n > 0 {
			out = append(out, fmt.Sprintf("%s-%d", a, n))
		} else {
			out = append(out, a)
		}
		seen[a]++
	}
	return out
}

// targets are where a document's links lead.
func targets(text string) []string {
	text = inlined.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
	var out []string
	for _, pattern := range []*regexp.Regexp{link, reference} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// broken says what is wrong with a link of the file; nothing is good. Whether other
// sites are there is not asked.
func broken(file, target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme == "https":
		return ""
	case u.Scheme != "" || strings.HasPrefix(u.Path, "/"):
		return "is neither relative nor https"
	}
	to := file
	if u.Path != "" {
		to = filepath.Join(filepath.Dir(file), filepath.FromSlash(u.Path))
	}
	info, err := os.Stat(to)
	if err != nil {
		return "leads to no file"
	}
	if u.Fragment == "" {
		return ""
	}
	if info.IsDir() || filepath.Ext(to) != ".md" {
		return "has an anchor, and leads to no Markdown"
	}
	data, err := os.ReadFile(to)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(string(data)), u.Fragment) {
		return "leads to no heading"
	}
	return ""
}

// TestLinks: every relative link and anchor of every Markdown file leads somewhere,
// and every page of docs is linked from another one.
func TestLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	linked, pages := map[string]bool{}, []string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || slices.Contains([]string{"testdata", "bin", "third_party"}, d.Name())) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(path, filepath.Join(root, "docs")) {
			pages = append(pages, path)
		}
		for _, target := range targets(string(data)) {
			if why := broken(path, target); why != "" {
				t.Errorf("%s: the link to %s %s", path, target, why)
			}
			if file, _, _ := strings.Cut(target, "#"); file != "" {
				linked[filepath.Join(filepath.Dir(path), filepath.FromSlash(file))] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 30 {
		t.Errorf("only %d pages were found in docs", len(pages))
	}
	for _, page := range pages {
		if !linked[page] {
			t.Errorf("nothing links to %s", page)
		}
	}
}

// TestLinksAreChecked: the checker finds what is wrong.
func TestLinksAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.md")
	text := "# One `thing`: here\n\n## Same\n\n## Same\n\n```\n# no heading [x](no.md)\n```\n[a](b.md) `[c](d.md)` [e](f.md \"title\")\n[g]: h.md\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(targets(text)); got != "[b.md f.md h.md]" {
		t.Errorf("the links are %s", got)
	}
	if got := fmt.Sprint(anchors(text)); got != "[one-thing-here same same-1]" {
		t.Errorf("the anchors are %s", got)
	}
	for target, want := range map[string]string{
		"a.md": "", "#same-1": "", "a.md#same": "", "https://example.com/#x": "",
		"b.md": "leads to no file", "#no-heading-x": "leads to no heading", ".#same": "has an anchor, and leads to no Markdown",
		"http://example.com": "is neither relative nor https", "/etc/passwd": "is neither relative nor https",
	} {
		if got := broken(file, target); got != want {
			t.Errorf("%s %q, want %q", target, got, want)
		}
	}
}
