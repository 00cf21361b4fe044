package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file in testdata, or rewrites it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run go test ./report -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got): look at it, then run go test ./report -update\n%s", path, diff)
	}
}

func render(t testing.TB, r *Report, f Format, s Style) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, r, f, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withIgnored lists the silenced findings too.
func withIgnored(in BuildInput) BuildInput {
	in.ShowIgnored = true
	return in
}

// compared is the sample against a report of the day before, in which one
// finding was not yet, and another still was.
func compared() BuildInput {
	in := sample()
	before := sample()
	before.Now = at.Add(-24 * time.Hour)
	before.Decisions = append(before.Decisions[2:len(before.Decisions):len(before.Decisions)],
		decision("eu-1", awsMachine("eu-1", "cp-0"), resource("aws", "Instance", "i-cp-0", "eu-1-cp-0"), with(removed("/tags/env", "prod"))),
		decision("eu-1", awsMachine("eu-1", "cp-0"), resource("aws", "Volume", "vol-1", ""), with(removed("/tags/env", "prod"))))
	in.Previous = Build(before)
	return in
}

func TestGolden(t *testing.T) {
	extension := map[Format]string{
		FormatTable: "table.txt", FormatWide: "wide.txt", FormatJSON: "json", FormatYAML: "yaml", FormatMarkdown: "md",
		FormatHTML: "html", FormatSARIF: "sarif", FormatJUnit: "xml", FormatOpenReports: "openreports.yaml",
	}
	inputs := map[string]BuildInput{
		"sample":   sample(),
		"ignored":  withIgnored(sample()),
		"compared": compared(),
		"in-sync":  {Version: "v0.1.0", Now: at, Clusters: sample().Clusters[1:2]},
		"empty":    {Version: "v0.1.0", Now: at},
	}
	for name, in := range inputs {
		r := Build(in)
		for format, ext := range extension {
			t.Run(name+"/"+string(format), func(t *testing.T) {
				golden(t, name+"."+ext, render(t, r, format, Style{}))
			})
		}
	}
}

func TestGoldenTableStyles(t *testing.T) {
	styles := map[string]Style{
		"ascii-60": {Width: 60, ASCII: true},
		"color":    {Width: 120, Color: true},
	}
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			golden(t, "sample."+name+".txt", render(t, Build(sample()), FormatTable, style))
		})
	}
}
