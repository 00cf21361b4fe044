package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// TestObservedFieldsAreKnownToExpressions: an expression may name every field
// that the clouds of the examples show, also those that nothing is compared
// with, and lint does not take them for misspelt.
func TestObservedFieldsAreKnownToExpressions(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "snapshot.json")
	worlds := map[string]func() output{
		"aws": func() output { w := newAWSWorld(t); w.use(t); return w.report(t, "--save-snapshot", saved) },
		"aws classic": func() output {
			w := newAWSWorldOf(t, "dev-classic.yaml")
			w.use(t)
			return w.report(t, "--save-snapshot", saved)
		},
		"vsphere": func() output { return newVSphereWorld(t).report(t, "--save-snapshot", saved) },
	}
	for name, scan := range worlds {
		t.Run(name, func(t *testing.T) {
			if o := scan(); o.code == exitError {
				t.Fatal(o.stderr)
			}
			file, err := os.Open(saved)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			snapshots, err := providers.ReadSnapshots(file)
			if err != nil || len(snapshots) == 0 {
				t.Fatalf("%d snapshots: %v", len(snapshots), err)
			}
			var policy strings.Builder
			policy.WriteString("apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: fields}\nspec:\n  rules:\n")
			rules := map[string]bool{}
			for _, s := range snapshots {
				for id, r := range s.Resources {
					for path := range r.Fields.All() {
						when := "have"
						for _, segment := range providers.Segments(path) {
							when += "[" + strconv.Quote(segment) + "]"
						}
						rule := fmt.Sprintf("target: {provider: %s, kind: %s}, action: observe, when: %q}\n", s.Scope.Provider, id.Kind, when+" == ''")
						if !rules[rule] {
							rules[rule] = true
							fmt.Fprintf(&policy, "  - {id: f-%d, %s", len(rules), rule)
						}
					}
				}
			}
			if len(rules) < 10 {
				t.Errorf("only %d fields were seen", len(rules))
			}
			_, problems := policies.LoadSources(policyOptions(), policies.Source{Name: "fields.yaml", Data: []byte(policy.String())})
			for _, p := range problems {
				// A kind that is only looked up is no kind of a finding.
				if p.Code != "ShadowedRule" && p.Code != "UnknownKind" {
					t.Error(p)
				}
			}
		})
	}
}
