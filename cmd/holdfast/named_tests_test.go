package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	testMention  = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)\\w+)`")
	fileMention  = regexp.MustCompile(`\]\(\.\./([^)]+)\)`)
	caseTest     = regexp.MustCompile(`^Test(?:C\d\d|Platform)`)
	caseNumber   = regexp.MustCompile(`C\d\d`)
)

// TestNamedTestsExist keeps docs/cases.md and docs/invariants.md true: every
// test that they name is in the tree, in the file that stands beside it, and
// every test that is named after a case stands in its row.
func TestNamedTestsExist(t *testing.T) {
	tests := testsInTree(t)
	if len(tests) < 200 {
		t.Fatalf("only %d tests were found", len(tests))
	}
	listed := map[string]bool{}
	for _, line := range documentLines(t, "cases.md") {
		names, files := mentions(testMention, line), mentions(fileMention, line)
		if len(names) != len(files) {
			t.Errorf("cases.md: %d tests and %d files in %q", len(names), len(files), line)
			continue
		}
		row := caseNumber.FindString(strings.SplitN(strings.TrimPrefix(line, "| "), " |", 2)[0])
		for i, name := range names {
			listed[row+" "+name] = true
			if !slices.Contains(tests[name], files[i]) {
				t.Errorf("cases.md: %s is not in %s but in %v", name, files[i], tests[name])
			}
			if row != "" && !strings.Contains(name, row) {
				t.Errorf("cases.md: %s stands in the row of %s", name, row)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if !caseTest.MatchString(name) {
			continue
		}
		rows := caseNumber.FindAllString(name, -1)
		if rows == nil {
			rows = []string{""}
		}
		for _, row := range rows {
			if !listed[row+" "+name] {
				t.Errorf("cases.md: %s of %v is not in the row of %q", name, tests[name], row)
			}
		}
	}
	named := 0
	for _, line := range documentLines(t, "invariants.md") {
		for _, name := range mentions(testMention, line) {
			named++
			if tests[name] == nil {
				t.Errorf("invariants.md: there is no %s", name)
			}
		}
	}
	if named < 50 {
		t.Errorf("invariants.md names only %d tests", named)
	}
}

// testsInTree gives the files of each test by its name.
func testsInTree(t *testing.T) map[string][]string {
	t.Helper()
	root := filepath.Join("..", "..")
	out := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "third_party") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, m := range testFunction.FindAllSubmatch(data, -1) {
			out[string(m[1])] = append(out[string(m[1])], filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func documentLines(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}

func mentions(what *regexp.Regexp, line string) []string {
	var out []string
	for _, m := range what.FindAllStringSubmatch(line, -1) {
		out = append(out, m[1])
	}
	return out
}
