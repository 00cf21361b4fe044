package inventory

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// child gives the value under a key of a mapping, or nil.
func child(node *yaml.Node, key string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// maxDepth bounds walks over nodes; Kubernetes objects are far flatter.
const maxDepth = 200

// duplicateKey finds a key that stands twice in one mapping, which Go's YAML
// decoders would settle silently.
func duplicateKey(node *yaml.Node, depth int) *yaml.Node {
	if depth > maxDepth {
		return nil
	}
	if node.Kind == yaml.MappingNode {
		seen := make(map[string]bool, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Tag == "!!merge" {
				continue
			}
			if seen[key.Value] {
				return key
			}
			seen[key.Value] = true
		}
	}
	for _, c := range node.Content {
		if dup := duplicateKey(c, depth+1); dup != nil {
			return dup
		}
	}
	return nil
}

// variable is how clusterctl and envsubst templates name a variable.
var variable = regexp.MustCompile(`\$\{[A-Z_][A-Z0-9_]*(:?[=+?-][^}]*)?\}`)

// scripts are the fields that hold shell text, in which ${NAME} is no template
// variable but the shell's own.
var scripts = []string{"kubeadmConfigSpec", "preKubeadmCommands", "postKubeadmCommands", "files", "data", "stringData", "annotations"}

// unfilled finds a scalar that still holds a template variable.
func unfilled(node *yaml.Node, path []string) *yaml.Node {
	if len(path) > maxDepth {
		return nil
	}
	switch node.Kind {
	case yaml.ScalarNode:
		if variable.MatchString(node.Value) {
			return node
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if slices.Contains(scripts, node.Content[i].Value) {
				continue
			}
			if v := unfilled(node.Content[i+1], append(path, node.Content[i].Value)); v != nil {
				return v
			}
		}
	case yaml.SequenceNode:
		for _, c := range node.Content {
			if v := unfilled(c, append(path, "")); v != nil {
				return v
			}
		}
	}
	return nil
}

var indexed = regexp.MustCompile(`^([^\[]*)((?:\[\d+\])*)$`)

// find gives the node at a dotted path with [i] indexes, as decoders write
// them, or the deepest node on the way to it. A key's own node is returned,
// so that its line is the line of the key.
func find(node *yaml.Node, path string) *yaml.Node {
	at := node
	for _, part := range strings.Split(path, ".") {
		m := indexed.FindStringSubmatch(part)
		if m == nil {
			return at
		}
		if m[1] != "" {
			key, value := entry(node, m[1])
			if key == nil {
				return at
			}
			at, node = key, value
		}
		for _, index := range strings.FieldsFunc(m[2], func(r rune) bool { return r == '[' || r == ']' }) {
			i, err := strconv.Atoi(index)
			if err != nil || node == nil || node.Kind != yaml.SequenceNode || i >= len(node.Content) {
				return at
			}
			node = node.Content[i]
			at = node
		}
	}
	return at
}

func entry(node *yaml.Node, key string) (*yaml.Node, *yaml.Node) {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}
