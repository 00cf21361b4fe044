package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// bomSchemas are CycloneDX's, by the address that they refer to each other by, in the
// folder schema of github.com/CycloneDX/cyclonedx-go.
var bomSchemas = map[string]string{
	"http://cyclonedx.org/schema/bom-1.6.schema.json":  "bom-1.6.schema.json",
	"http://cyclonedx.org/schema/spdx.schema.json":     "spdx.schema.json",
	"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
}

// unlicensed are the components in which no licence is found, and why.
var unlicensed = map[string]string{
	"std":                                "Go's own: no module has it",
	"./third_party/capierrors":           "Holdfast's own",
	"github.com/openreports/reports-api": "its module has no file with a licence",
	"github.com/ajeddeloh/go-json":       "Go's encoding/json, changed: BSD-style as its files say, without the file with it",
}

// sbomCommand checks lists of what a program consists of: that they are CycloneDX by
// its schema, and that each component has a licence.
func sbomCommand(schemas string, files []string, out io.Writer) error {
	c := jsonschema.NewCompiler()
	for address, name := range bomSchemas {
		doc, err := readJSON(filepath.Join(schemas, name))
		if err != nil {
			return err
		}
		if err := c.AddResource(address, doc); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		return err
	}
	for _, file := range files {
		doc, err := readJSON(file)
		if err != nil {
			return err
		}
		if err := schema.Validate(doc); err != nil {
			return fmt.Errorf("%s is not CycloneDX 1.6: %w", file, err)
		}
		n, err := licensed(file)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s: CycloneDX 1.6, %d components\n", file, n); err != nil {
			return err
		}
	}
	return nil
}

func readJSON(file string) (any, error) {
	f, err := os.Open(file) //nolint:gosec // the caller names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return doc, nil
}

// licensed counts the components of a list, each of which has a licence, or is known
// to have none.
func licensed(file string) (int, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the same
	if err != nil {
		return 0, err
	}
	var bom struct {
		SpecVersion string `json:"specVersion"`
		Components  []struct {
			Name     string `json:"name"`
			Evidence struct {
				Licenses []any `json:"licenses"`
			} `json:"evidence"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &bom); err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	if bom.SpecVersion != "1.6" || len(bom.Components) == 0 {
		return 0, fmt.Errorf("%s: %d components by CycloneDX %q: want some, by 1.6", file, len(bom.Components), bom.SpecVersion)
	}
	var wrong []error
	for _, c := range bom.Components {
		if (len(c.Evidence.Licenses) == 0) != (unlicensed[c.Name] != "") {
			wrong = append(wrong, fmt.Errorf("%s: %s has %d licences: see `unlicensed` in hack/release/sbom.go", file, c.Name, len(c.Evidence.Licenses)))
		}
	}
	return len(bom.Components), errors.Join(wrong...)
}
