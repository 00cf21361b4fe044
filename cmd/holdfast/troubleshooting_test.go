package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTroubleshootingIsOfTheCode: what docs/troubleshooting.md has in its headings
// is said by the program, or by the chart. An ellipsis stands for what varies.
func TestTroubleshootingIsOfTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	data, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := sources(t, root)
	symptoms := regexp.MustCompile("(?m)^### `(.+)`$").FindAllStringSubmatch(string(data), -1)
	if len(symptoms) < 15 {
		t.Fatalf("only %d symptoms were found", len(symptoms))
	}
	for _, m := range symptoms {
		for part := range strings.SplitSeq(m[1], "…") {
			if part = strings.TrimSpace(part); !strings.Contains(said, part) {
				t.Errorf("nothing says %q of %q", part, m[1])
			}
		}
	}
}

// sources are the program's without tests, and the chart's checks.
func sources(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"cmd", "policies", "providers", "reconcilers", "remediator", "inventory", "detector", "charts"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			program := filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go")
			if !program && filepath.Base(path) != "checks.yaml" {
				return nil
			}
			data, err := os.ReadFile(path)
			b.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}
