package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// leaf is one text in a record, with the names that lead to it.
type leaf struct{ path, value string }

// Bounds on the JSON that is looked through.
const (
	maxDepth  = 24
	maxLeaves = 50_000
)

var errTooMuch = errors.New("its parameters are nested too deeply, or too many")

// leavesOf lists the texts in request or response parameters. CloudTrail
// spells one thing in many ways, which all come out alike: names are in lower
// case; lists add nothing to a path, be they arrays, {"items": [...]} or
// {"content": ..., "tag": 1}; and the single wrapper, with a capital, that
// newer actions have around everything ({"ModifyVolumeRequest": {...}}) is
// left out.
func leavesOf(raw json.RawMessage) ([]leaf, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("read its parameters: %w", err)
	}
	if o, ok := root.(map[string]any); ok && len(o) == 1 {
		for name, inner := range o {
			if _, isObject := inner.(map[string]any); isObject && name != "" && name[0] >= 'A' && name[0] <= 'Z' {
				root = inner
			}
		}
	}
	w := walk{}
	if err := w.visit(root, "", 0); err != nil {
		return nil, err
	}
	return w.out, nil
}

type walk struct{ out []leaf }

func (w *walk) visit(node any, path string, depth int) error {
	if depth > maxDepth || len(w.out) > maxLeaves {
		return errTooMuch
	}
	switch node := node.(type) {
	case string:
		w.out = append(w.out, leaf{path, node})
	case []any:
		for _, inner := range node {
			if err := w.visit(inner, path, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, inner := range node {
			if err := w.visit(inner, extended(path, name), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func extended(path, name string) string {
	name = strings.ToLower(name)
	switch {
	case name == "items" || name == "item" || name == "member" || name == "content":
		return path
	case path == "":
		return name
	default:
		return path + "." + name
	}
}
