package vspherecluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Write puts the objects into a folder, which it makes if needed, as one YAML
// file for each kind: what a user gets by exporting the namespace.
func (e *Environment) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	files := map[string]*bytes.Buffer{}
	for _, o := range e.Objects() {
		kind := strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind)
		data, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("write %s %s: %w", kind, o.GetName(), err)
		}
		buf, ok := files[kind]
		if ok {
			buf.WriteString("---\n")
		} else {
			buf = &bytes.Buffer{}
			files[kind] = buf
		}
		buf.Write(data)
	}
	for kind, buf := range files {
		if err := os.WriteFile(filepath.Join(dir, kind+"s.yaml"), buf.Bytes(), 0o600); err != nil {
			return fmt.Errorf("write objects: %w", err)
		}
	}
	return nil
}
