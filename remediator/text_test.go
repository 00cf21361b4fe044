package remediator_test

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/remediator"
)

// TestLineOfLongText: where a long text is cut, no credential is cut in half
// and shown.
func TestLineOfLongText(t *testing.T) {
	const limit, url = 40, "https://user:secret-of-some-length@vcenter.example.com/sdk"
	for blanks := range 8 * limit {
		got := remediator.Line(strings.Repeat(" ", blanks)+url, limit)
		if strings.Contains(got, "user") || strings.Contains(got, "secret") {
			t.Fatalf("behind %d blanks: %q", blanks, got)
		}
	}
	if got := remediator.Line(strings.Repeat("x", 10*limit), limit); got != strings.Repeat("x", limit-1)+"…" {
		t.Errorf("a long word: %q", got)
	}
}
