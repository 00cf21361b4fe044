package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestLicensed(t *testing.T) {
	const with, without = `{"name":"a","evidence":{"licenses":[{"license":{"id":"MIT"}}]}}`, `{"name":"b"}`
	for components, want := range map[string]string{
		with + `,{"name":"std"}`:                 "",
		with + "," + without:                     "b has 0 licences",
		strings.Replace(with, `"a"`, `"std"`, 1): "std has 1 licences",
		"":                                       "0 components",
	} {
		n, err := licensed(write(t, "bom.json", `{"specVersion":"1.6","components":[`+components+`]}`))
		switch {
		case want == "" && (err != nil || n != 2):
			t.Errorf("%s: %d, %v", components, n, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", components, err, want)
		}
	}
}

// TestSBOMNothing: without CycloneDX's schemas nothing is called good.
func TestSBOMNothing(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"sbom", t.TempDir(), "bom.json"}, &out); err == nil || !strings.Contains(err.Error(), ".schema") {
		t.Errorf("%v, %s", err, out.String())
	}
}
