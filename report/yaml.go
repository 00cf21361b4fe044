package report

import (
	"io"

	"sigs.k8s.io/yaml"
)

// writeYAML writes the same document as writeJSON.
func writeYAML(w io.Writer, r *Report, _ Style) error {
	out, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}
