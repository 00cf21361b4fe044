package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// writeYAML writes the same document as writeJSON, with its keys in the same
// order.
func writeYAML(w io.Writer, r *Report, _ Style) error {
	out, err := yamlOf(r)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// yamlOf gives the YAML of a value by way of its JSON, so that both have the
// same names. Texts are as exact and as inert as in JSON, and mean the same in
// YAML 1.1 and 1.2.
func yamlOf(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	// JSON is YAML once its control characters are escapes; a pair of
	// surrogate escapes is the one thing that YAML would read differently, so
	// that characters beyond the basic plane stay as they are.
	var doc yaml.Node
	if err := yaml.Unmarshal(escapeHidden(text, nil), &doc); err != nil {
		return nil, err
	}
	quote(&doc)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return escapeHidden(b.Bytes(), func(c rune) string { return fmt.Sprintf(`\U%08X`, c) }), nil
}

// unquoted texts are those that every YAML parser takes for the text that
// they look like.
var unquoted = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`)

// notText are words that YAML 1.1 takes for something else.
var notText = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true,
	"true": true, "false": true, "null": true, "nan": true, "inf": true,
}

// quote turns flow style into block style, and double-quotes every text that
// is more than a plain word: only there can an escape stand.
func quote(n *yaml.Node) {
	n.Style = 0
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str" && (!unquoted.MatchString(n.Value) || notText[strings.ToLower(n.Value)]):
		n.Style = yaml.DoubleQuotedStyle
	case n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode:
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
	}
	for _, kid := range n.Content {
		quote(kid)
	}
}
