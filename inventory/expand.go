package inventory

import (
	"errors"
	"fmt"

	yaml "go.yaml.in/yaml/v3"
)

// maxExpanded bounds the nodes that aliases may add to a document: an export
// has none, and a handful of shared blocks stays far below.
const maxExpanded = 100_000

// expand puts what they stand for in place of a document's aliases, so that
// nothing below has to know of them: an item of a List may use an anchor of
// another item. It changes the node. What aliases add is bounded, and one that
// contains itself is refused.
func expand(node *yaml.Node) error {
	e := expander{left: maxExpanded, open: map[*yaml.Node]bool{}}
	_, err := e.node(node, false)
	return err
}

type expander struct {
	left int
	open map[*yaml.Node]bool
}

var errExpanded = fmt.Errorf("its aliases stand for more than %d values", maxExpanded)

// node gives the node to put in place: a copy below an alias, else itself.
func (e *expander) node(n *yaml.Node, copied bool) (*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil || e.open[n.Alias] {
			return nil, errors.New("the anchor " + n.Value + " contains itself")
		}
		return e.node(n.Alias, true)
	}
	if copied {
		if e.left--; e.left < 0 {
			return nil, errExpanded
		}
	}
	e.open[n] = true
	defer delete(e.open, n)
	out := n
	if copied {
		duplicate := *n
		out = &duplicate
		out.Content = make([]*yaml.Node, len(n.Content))
	}
	for i, c := range n.Content {
		child, err := e.node(c, copied)
		if err != nil {
			return nil, err
		}
		out.Content[i] = child
	}
	out.Anchor = ""
	return out, nil
}
