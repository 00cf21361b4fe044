package policies

import (
	"testing"
	"time"
)

func TestExpressions(t *testing.T) {
	vars := map[string]any{
		"want": map[string]any{}, "have": map[string]any{"state": "running", "tags": map[string]any{"a/b": "x"}, "securityGroups": []string{"sg-1"}},
		"owner":   map[string]any{"namespace": "ns", "labels": map[string]string{"a": "b"}, "controlPlane": true},
		"cluster": map[string]any{"namespace": "prod"},
		"finding": map[string]any{"resource": map[string]any{"id": "i-1"}, "observations": 3},
		"diff":    map[string]any{"have": "tcp 22-22 from 0.0.0.0/0", "want": nil, "type": "added"},
		"now":     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	tests := map[string]struct {
		expr    string
		invalid bool
		want    bool
		err     bool
	}{
		"field of a map":       {expr: "have.state == 'running'", want: true},
		"key with slash":       {expr: "have.tags['a/b'] == 'x'", want: true},
		"reserved word":        {expr: "cluster.namespace == 'prod' && owner.namespace == 'ns'", want: true},
		"list":                 {expr: "have.securityGroups.exists(s, s == 'sg-1')", want: true},
		"nested":               {expr: "finding.resource.id.startsWith('i-') && finding.observations >= 3", want: true},
		"labels":               {expr: "'a' in owner.labels && owner.controlPlane", want: true},
		"text of dyn":          {expr: "diff.have.contains('from 0.0.0.0/0')", want: true},
		"null":                 {expr: "diff.want == null", want: true},
		"time":                 {expr: "now > timestamp('2025-01-01T00:00:00Z')", want: true},
		"optional":             {expr: "have.?nothing.orValue('x') == 'x'", want: true},
		"missing key":          {expr: "have.nothing == 'x'", err: true},
		"has":                  {expr: "has(have.nothing)"},
		"unknown variable":     {expr: "hve.state == 'x'", invalid: true},
		"unknown member":       {expr: "owner.poool == 'x'", invalid: true},
		"no truth value":       {expr: "have.state", invalid: true},
		"syntax":               {expr: "have.state ==", invalid: true},
		"too costly":           {expr: "have.a.all(x, have.a.all(y, have.a.all(z, x == y && y == z)))", invalid: true},
		"two deep is accepted": {expr: "have.securityGroups.all(x, have.securityGroups.exists(y, x == y))", want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e, errs := compileExpression(tc.expr)
			if (len(errs) > 0) != tc.invalid {
				t.Fatalf("compile %q: %+v", tc.expr, errs)
			}
			if tc.invalid {
				return
			}
			got, err := e.holds(vars)
			if (err != nil) != tc.err || got != tc.want {
				t.Errorf("%q = %v, %v; want %v", tc.expr, got, err, tc.want)
			}
		})
	}
}
