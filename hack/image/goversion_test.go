package main

import (
	"os"
	"regexp"
	"testing"
)

// TestOneGo: the digest depends on the Go that builds, so all that build with one
// name the same.
func TestOneGo(t *testing.T) {
	named := regexp.MustCompile(`(?:golang:|go-version: |GOTOOLCHAIN=go)(1\.\d+(?:\.\d+)?)`)
	want := ""
	for _, file := range []string{"../../.github/workflows/ci.yml", "../../.github/workflows/release.yml", "../../Dockerfile", "../../docs/release.md"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := named.FindAllStringSubmatch(string(data), -1)
		if len(all) == 0 {
			t.Errorf("%s names no Go", file)
		}
		for _, m := range all {
			if want == "" {
				want = m[1]
			}
			if m[1] != want {
				t.Errorf("%s names Go %s, and others %s", file, m[1], want)
			}
		}
	}
}
