package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const config = `{"config":{"scanner_name":"govulncheck","db":"https://vuln.go.dev","go_version":"go1.26.8","scan_level":"symbol"}}
`

const called = `{"osv":{"id":"GO-1","summary":"Bad things"}}
{"finding":{"osv":"GO-1","fixed_version":"v1.2.4","trace":[{"module":"example.com/m","version":"v1.2.3","package":"example.com/m/p","function":"F","receiver":"*T"},{"module":"a","package":"a","function":"main"}]}}
{"finding":{"osv":"GO-1","fixed_version":"v1.2.4","trace":[{"module":"example.com/m","version":"v1.2.3","package":"example.com/m/p","function":"G"}]}}
`

const linked = `{"osv":{"id":"GO-2","summary":"Worse things"}}
{"finding":{"osv":"GO-2","fixed_version":"v1.2.4","trace":[{"module":"example.com/m","version":"v1.2.3","package":"example.com/m/q"}]}}
`

func TestAudit(t *testing.T) {
	explain := func(id, module string) string {
		return "- id: " + id + "\n  module: " + module + "\n  reason: never with what a user sends\n"
	}
	for name, c := range map[string]struct {
		found, allow string
		code         int
		says         string
	}{
		"nothing found":                     {config, "[]", 0, "0 explained, 0 not explained"},
		"called":                            {config + called, "[]", 1, "NOT EXPLAINED GO-1 example.com/m@v1.2.3\n  Bad things\n  fixed in v1.2.4; called as example.com/m/p.*T.F"},
		"once for two ways":                 {config + called, "[]", 1, "0 explained, 1 not explained"},
		"linked only":                       {config + linked, "[]", 0, "0 explained, 0 not explained"},
		"explained":                         {config + called, explain("GO-1", "example.com/m@v1.2.3"), 0, "1 explained, 0 not explained"},
		"explained for another version":     {config + called, explain("GO-1", "example.com/m@v1.2.2"), 1, "NOT EXPLAINED"},
		"explained and gone":                {config, explain("GO-1", "example.com/m@v1.2.3"), 1, "NOT FOUND     GO-1"},
		"explained for another Go":          {config, explain("GO-3", "stdlib@v1.26.7"), 0, "0 explanations of nothing"},
		"explained for this Go and gone":    {config, explain("GO-3", "stdlib@v1.26.8"), 1, "NOT FOUND     GO-3"},
		"linked only, and explained for it": {config + linked, explain("GO-2", "example.com/m@v1.2.3"), 1, "NOT FOUND     GO-2"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code, err := run([]string{"-found", write(t, c.found), "-allow", write(t, c.allow)}, &out)
			if err != nil || code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit %d, %v:\n%s\nwant %d and %q", code, err, out.String(), c.code, c.says)
			}
		})
	}
}

// TestNothingIsNotGood: what did not run, or is not explained, is no pass.
func TestNothingIsNotGood(t *testing.T) {
	for name, c := range map[string]struct{ found, allow string }{
		"empty":             {"", "[]"},
		"modules only":      {strings.Replace(config, "symbol", "module", 1), "[]"},
		"cut off":           {config + called[:40], "[]"},
		"without a reason":  {config, "- {id: GO-1, module: m@v1, reason: ' '}"},
		"without a version": {config, "- {id: GO-1, module: m, reason: so}"},
		"unknown field":     {config, "- {id: GO-1, module: m@v1, reason: so, until: then}"},
	} {
		if code, err := run([]string{"-found", write(t, c.found), "-allow", write(t, c.allow)}, &bytes.Buffer{}); err == nil {
			t.Errorf("%s: exit %d without an error", name, code)
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
