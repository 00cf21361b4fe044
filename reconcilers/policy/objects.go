package policy

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
)

// document is what of an object is policy.
func document(p *v1alpha1.DriftPolicy) ([]byte, error) {
	return kubeyaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindDriftPolicy,
		"metadata": map[string]any{"name": p.Name}, "spec": p.Spec,
	})
}

// sentences tells problems for people. An object's lines are nobody's, so their
// places are told as field paths.
func sentences(r *result) []string {
	paths := map[[2]int]string{}
	if isObject(r.Name) {
		var root yaml.Node
		if yaml.Unmarshal(r.Data, &root) == nil {
			fieldPaths(&root, "", paths)
		}
	}
	out := make([]string, 0, len(r.problems))
	for _, p := range r.problems {
		if p.Warning {
			continue
		}
		path := pathAt(paths, p.Position)
		if path == "" {
			out = append(out, strings.TrimPrefix(p.String(), r.Name+": "))
			continue
		}
		text := path + ": " + p.Message
		if p.Hint != "" {
			text += "; " + p.Hint
		}
		out = append(out, text)
	}
	return out
}

// pathAt gives the field that a place is in: what begins last before it. A place
// may lie within a value, such as an expression.
func pathAt(paths map[[2]int]string, at policies.Position) string {
	best, found := [2]int{}, ""
	for place, path := range paths {
		before := place[0] < at.Line || place[0] == at.Line && place[1] <= at.Column
		if before && (place[0] > best[0] || place[0] == best[0] && place[1] >= best[1]) {
			best, found = place, path
		}
	}
	return found
}

// fieldPaths tells which field stands at which line and column: a key and its
// value both stand for it.
func fieldPaths(n *yaml.Node, path string, out map[[2]int]string) {
	at := [2]int{n.Line, n.Column}
	if _, taken := out[at]; !taken || path != "" {
		out[at] = path
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			fieldPaths(c, path, out)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			child := key.Value
			if path != "" {
				child = path + "." + key.Value
			}
			fieldPaths(n.Content[i+1], child, out)
			out[[2]int{key.Line, key.Column}] = child
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			fieldPaths(c, fmt.Sprintf("%s[%d]", path, i), out)
		}
	}
}

// candidateOf makes a source of an object.
func candidateOf(p *v1alpha1.DriftPolicy) (candidate, error) {
	data, err := document(p)
	if err != nil {
		return candidate{}, fmt.Errorf("read DriftPolicy %s: %w", p.Name, err)
	}
	return candidate{Source: policies.Source{Name: objectPrefix + p.Name, Data: data}, generation: p.Generation}, nil
}
