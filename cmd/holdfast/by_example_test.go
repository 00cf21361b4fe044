package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// example is a section of docs/policies-by-example.md that has a policy.
var example = regexp.MustCompile("(?ms)^## ([^\n]+)\n\n```yaml\n(.*?)^```$")

// TestPoliciesByExample lints each policy of docs/policies-by-example.md, and decides
// with it on the drift in testdata/by-example/SECTION/input.yaml: what the page says
// comes of it is in expected.yaml beside that, which -update writes.
func TestPoliciesByExample(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "policies-by-example.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Count(string(data), "\n## ")
	all := example.FindAllStringSubmatch(string(data), -1)
	if len(all) != sections || sections < 10 {
		t.Fatalf("%d sections have %d policies at their beginning, want at least ten", sections, len(all))
	}
	cases := t.TempDir()
	for _, m := range all {
		slug, policy := anchor(m[1]), m[2]
		t.Run(slug, func(t *testing.T) {
			if o := holdfastIn(t, policy, "policy", "lint", "-"); o.code != exitOK || strings.Contains(o.stdout+o.stderr, "warning") {
				t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
			}
			kept := filepath.Join("testdata", "by-example", slug)
			dir := filepath.Join(cases, slug)
			if err := os.CopyFS(dir, os.DirFS(kept)); err != nil {
				t.Fatalf("%s has no case: %v", m[1], err)
			}
			if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"policy", "test", dir}
			if *update {
				args = append(args, "--update")
			}
			if o := holdfast(t, args...); o.code != exitOK {
				t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
			}
			if *update {
				expected, err := os.ReadFile(filepath.Join(dir, "expected.yaml"))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(kept, "expected.yaml"), expected, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	cased, err := os.ReadDir(filepath.Join("testdata", "by-example"))
	if err != nil || len(cased) != len(all) {
		t.Errorf("there are %d cases for %d policies: %v", len(cased), len(all), err)
	}
}
