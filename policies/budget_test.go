package policies

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestAllowance: a percentage is rounded down, and one above 0% allows at
// least one.
func TestAllowance(t *testing.T) {
	tests := map[string]struct {
		limit intstr.IntOrString
		total int
		want  int
	}{
		"number":               {intstr.FromInt32(3), 1, 3},
		"none":                 {intstr.FromInt32(0), 100, 0},
		"rounded down":         {intstr.FromString("10%"), 29, 2},
		"at least one":         {intstr.FromString("10%"), 5, 1},
		"all":                  {intstr.FromString("100%"), 7, 7},
		"no share":             {intstr.FromString("0%"), 100, 0},
		"a share of not known": {intstr.FromString("10%"), 0, 0},
		"no percentage":        {intstr.FromString("x"), 100, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := allowance(tc.limit, tc.total); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

// TestMinimum: a percentage is rounded up, and a number asks for no more than
// there are.
func TestMinimum(t *testing.T) {
	for in, want := range map[string]int{"90% of 9": 9, "80% of 9": 8, "50% of 3": 2, "0% of 9": 0, "100% of 0": 0, "2 of 9": 2, "2 of 1": 1} {
		var text string
		var n int
		if _, err := fmt.Sscanf(in, "%s of %d", &text, &n); err != nil {
			t.Fatal(err)
		}
		m := minimum{IntOrString: intstr.Parse(text)}
		if got := m.of(n); got != want {
			t.Errorf("%s is %d, want %d", in, got, want)
		}
	}
}
