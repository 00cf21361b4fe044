package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/metrics"
)

var update = flag.Bool("update", false, "rewrite golden files and generated documents")

// TestGeneratedDocs keeps the documents that are made from code equal to it.
func TestGeneratedDocs(t *testing.T) {
	for name, make := range map[string]func() ([]byte, error){
		"catalog.md": catalogDocument,
		"cli.md":     cliDocument,
		"metrics.md": metricsDocument,
	} {
		t.Run(name, func(t *testing.T) {
			want, err := make()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("..", "..", "docs", name)
			if *update {
				if err := os.WriteFile(path, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("docs/%s is not what the code says; run `make golden` (-code +document):\n%s", name, d)
			}
		})
	}
}

func catalogDocument() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`# What is compared

Generated from the providers' catalogs. A path's upper-case segment stands for
any one segment. *Change* says how the cloud lets the field change: in place, in
place after a stop, or only by a new resource. Default actions and severities are
in the [built-in policies](../policies/defaults).
`)
	all := catalogs()
	for _, r := range registrations(true) {
		kind := ""
		for _, row := range all[r.Name] {
			if row.Kind != kind {
				kind = row.Kind
				fmt.Fprintf(&b, "\n## %s: %s\n\n| path | wanted from | equal if | change | source |\n|---|---|---|---|---|\n", r.Name, kind)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", row.Path, cell(row.From), cell(row.Compare), change(row.Mutability), cell(row.Source))
		}
		fmt.Fprintf(&b, "\n## %s: known and not compared\n\n", r.Name)
		var lines []string
		for gk, reason := range r.Unmodelled {
			lines = append(lines, fmt.Sprintf("- `%s`: %s\n", gk.Kind, reason))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	return b.Bytes(), nil
}

// metricsDocument lists every series.
func metricsDocument() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`# Metrics

Generated from the table in reconcilers/metrics. ` + "`holdfast controller`" + ` serves these series
beside those of controller-runtime and Go at ` + "`/metrics`" + `: by HTTPS, to whoever may
` + "`get` the path `/metrics`" + ` (see [controller.md](controller.md)).

Labels hold names of clusters, pools, policies and rules, kinds, statuses, gates
and API operations: never a tag, an id or a message. The series of a cluster go
when it goes, or is switched off. A cloud that cannot be read leaves the values of
its clusters as they were until the policies call them stale; alert on
` + "`holdfast_sweep_last_success_timestamp_seconds`" + ` beside them.

| series | type | labels | what it is |
|---|---|---|---|
`)
	for _, s := range metrics.Table() {
		labels := make([]string, len(s.Labels))
		for i, l := range s.Labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, s.Type, strings.Join(labels, " "), cell(s.Help))
	}
	b.WriteString(`
Alerts and dashboards on them are described in [alerts.md](alerts.md).
`)
	return b.Bytes(), nil
}

func change(m providers.Mutability) string {
	switch m {
	case providers.InPlace:
		return "in place"
	case providers.InPlaceDisruptive:
		return "stopped first"
	case providers.Immutable:
		return "new resource"
	case providers.ReadOnly:
		return "–"
	}
	return string(m)
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// cliDocument is the reference of every command.
func cliDocument() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Command line\n\nGenerated from the commands' own help.\n")
	root := newRootCommand("holdfast")
	root.DisableAutoGenTag = true
	var walk func(*cobra.Command) error
	walk = func(c *cobra.Command) error {
		if !c.IsAvailableCommand() && c != root {
			return nil
		}
		var page bytes.Buffer
		if err := doc.GenMarkdownCustom(c, &page, func(s string) string { return "#" + strings.ReplaceAll(strings.TrimSuffix(s, ".md"), "_", "-") }); err != nil {
			return err
		}
		text, _, _ := strings.Cut(page.String(), "### SEE ALSO")
		b.WriteString("\n" + strings.TrimRight(text, "\n") + "\n")
		for _, sub := range c.Commands() {
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
