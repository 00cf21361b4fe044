package policytest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/policies"
)

// TestDocumentedCase runs the case that the reference shows, as a reader would
// who copies its files, and makes it fail as the reference says it does.
func TestDocumentedCase(t *testing.T) {
	data, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n## Test cases\n")
	section, _, _ = strings.Cut(section, "\n## ")
	files := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n# ([a-z.]+): (.*?)```").FindAllStringSubmatch(section, -1) {
		files[block[1]] = "# " + block[2]
	}
	if diff := cmp.Diff([]string{"expected.yaml", "input.yaml", "policy.yaml"}, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Fatalf("files (-want +shown):\n%s", diff)
	}
	results, err := Run(writeCase(t, files), policies.Options{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Err != nil || r.Failure != "" {
		t.Errorf("the case does not pass: %v\n%s", r.Err, r.Failure)
	}
	files["expected.yaml"] = strings.Replace(files["expected.yaml"], "blocked: [Window]", "blocked: []", 1)
	if results, err = Run(writeCase(t, files), policies.Options{}, false); err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Failure == "" || !strings.Contains(section, strings.TrimSpace(r.Failure)) {
		t.Errorf("the reference does not show this failure: %v\n%s", r.Err, r.Failure)
	}
}
