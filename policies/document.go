package policies

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a policy file. They are far above what people write, and keep a
// hostile file from costing more than its size.
const (
	maxFileBytes = 1 << 20
	maxNodes     = 50_000
	maxDepth     = 64
	maxDocuments = 256
)

// parseDocuments splits a file into its documents' root nodes.
func parseDocuments(src Source) ([]*yaml.Node, Problems) {
	at := func(line, column int) Position {
		return Position{File: src.Name, Line: max(line, 1), Column: max(column, 1)}
	}
	if len(src.Data) > maxFileBytes {
		return nil, Problems{{Position: at(1, 1), Code: "FileTooLarge",
			Message: fmt.Sprintf("the file has %d bytes, more than %d", len(src.Data), maxFileBytes),
			Hint:    "split it into several files"}}
	}
	var docs []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(src.Data))
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, syntaxProblems(src, err, at)
		}
		if len(docs) == maxDocuments {
			return docs, Problems{{Position: at(n.Line, n.Column), Code: "FileTooLarge",
				Message: fmt.Sprintf("the file has more than %d documents", maxDocuments), Hint: "split it into several files"}}
		}
		if len(n.Content) > 0 && n.Content[0].Tag != "!!null" {
			docs = append(docs, n.Content[0])
		}
	}
}

var unknownAnchor = regexp.MustCompile(`unknown anchor '(.+)' referenced`)

var errorLine = regexp.MustCompile(`line (\d+)`)

// syntaxProblems places what the parser says. Tabs are named as such: the
// parser only says that a character cannot start a token.
func syntaxProblems(src Source, err error, at func(line, column int) Position) Problems {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := errorLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = strings.TrimPrefix(message, m[0]+": ")
		if strings.HasPrefix(message, "did not find expected") {
			line++ // the parser's own errors count lines from 0, the scanner's from 1
		}
	}
	if tabs := tabsInIndentation(src.Data); len(tabs) > 0 {
		var out Problems
		for _, t := range tabs {
			out = append(out, Problem{Position: at(t[0], t[1]), Code: "Tab",
				Message: "a tab is used for indentation", Hint: "use spaces"})
		}
		return out
	}
	hint := "check the indentation, the colons and the quotes around this line"
	column := 1
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		hint = "define the anchor before its use"
		if before, _, found := strings.Cut(string(src.Data), "*"+m[1]); found {
			line, column = strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n")
		}
	}
	return Problems{{Position: at(line, column), Code: "Syntax", Message: "not valid YAML: " + firstLine(message), Hint: hint}}
}

// tabsInIndentation gives line and column of tabs before the first other
// character of a line.
func tabsInIndentation(data []byte) [][2]int {
	var out [][2]int
	for i, line := range bytes.Split(data, []byte("\n")) {
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if tab := bytes.IndexByte(indent, '\t'); tab >= 0 && len(bytes.TrimSpace(line)) > 0 {
			out = append(out, [2]int{i + 1, tab + 1})
			if len(out) == 20 {
				return out
			}
		}
	}
	return out
}

// pair is one key of a mapping with its value.
type pair struct{ key, value *yaml.Node }

// pairs gives a mapping's keys, those merged by << included where the mapping
// does not set them itself (C67: an anchor that is merged and then overridden
// is fine, a key that is written twice is not).
func (d *decoder) pairs(n *yaml.Node, depth int) []pair {
	if depth > maxDepth {
		d.tooDeep(n)
		return nil
	}
	var own, merged []pair
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			merged = append(merged, d.mergedPairs(value, depth+1)...)
			continue
		}
		if key.Kind != yaml.ScalarNode {
			d.problem(key, "BadKey", "a key must be text", "")
			continue
		}
		if first := seen[key.Value]; first != nil {
			d.problem(key, "DuplicateKey", fmt.Sprintf("key %q is given twice, first in line %d", key.Value, first.Line), "remove one of them")
			continue
		}
		seen[key.Value] = key
		own = append(own, pair{key, value})
	}
	for _, p := range merged {
		if seen[p.key.Value] == nil {
			seen[p.key.Value] = p.key
			own = append(own, p)
		}
	}
	return own
}

func (d *decoder) mergedPairs(value *yaml.Node, depth int) []pair {
	value = d.resolve(value)
	switch {
	case value == nil || !d.visit(value, depth):
		return nil
	case value.Kind == yaml.MappingNode:
		return d.pairs(value, depth)
	case value.Kind == yaml.SequenceNode:
		var out []pair
		seen := map[string]bool{}
		for _, item := range value.Content {
			for _, p := range d.mergedPairs(item, depth+1) {
				if !seen[p.key.Value] {
					seen[p.key.Value] = true
					out = append(out, p)
				}
			}
		}
		return out
	default:
		d.problem(value, "BadMerge", "<< needs a mapping or a list of mappings", "refer to an anchor of a mapping: <<: *name")
		return nil
	}
}

// resolve follows an alias.
func (d *decoder) resolve(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// visit counts a node, each time an alias brings it up again. It gives up,
// once, where a document expands without bounds.
func (d *decoder) visit(n *yaml.Node, depth int) bool {
	if d.exhausted {
		return false
	}
	d.nodes++
	if d.nodes > maxNodes {
		d.exhausted = true
		d.problem(n, "TooManyNodes", fmt.Sprintf("the document expands to more than %d values", maxNodes), "use fewer aliases, or split the document")
		return false
	}
	if depth > maxDepth {
		d.tooDeep(n)
		return false
	}
	return true
}

func (d *decoder) tooDeep(n *yaml.Node) {
	d.exhausted = true
	d.problem(n, "TooDeep", fmt.Sprintf("the document is nested more than %d deep", maxDepth), "an alias may contain itself")
}
