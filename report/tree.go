package report

import "strings"

// node is one branch of the tree: its first line stands at the branch, the
// others under it, then its children.
type node struct {
	lines []line
	kids  []*node
	// airy puts an empty line before the node.
	airy bool
}

func (n *node) add(kid *node) *node {
	n.kids = append(n.kids, kid)
	return kid
}

func (n *node) line(hang int, spans ...span) {
	n.lines = append(n.lines, line{spans, hang})
}

// canvas draws lines no wider than its width.
type canvas struct {
	b     strings.Builder
	width int
	color bool
	sym   *symbols
}

// draw writes a line under a prefix. lead replaces the prefix on the first
// row, where a branch begins.
func (c *canvas) draw(lead, prefix string, l line) {
	rows := l.wrap(c.width - cells.StringWidth(prefix))
	for i, row := range rows {
		at, indent := prefix, l.hang
		if i == 0 {
			at, indent = lead, 0
		}
		if strings.TrimSpace(at) == "" {
			c.b.WriteString(at)
		} else {
			paint(&c.b, cellsOf([]span{{at, dim}}), c.color)
		}
		c.b.WriteString(strings.Repeat(" ", indent))
		paint(&c.b, row, c.color)
		c.b.WriteByte('\n')
	}
}

func (c *canvas) blank(prefix string) {
	prefix = strings.TrimRight(prefix, " ")
	if prefix != "" {
		paint(&c.b, cellsOf([]span{{prefix, dim}}), c.color)
	}
	c.b.WriteByte('\n')
}

// tree draws a node's children below its prefix.
func (c *canvas) tree(prefix string, kids []*node) {
	for i, kid := range kids {
		lead, under := c.sym.branch, c.sym.pipe
		if i == len(kids)-1 {
			lead, under = c.sym.last, c.sym.blank
		}
		if kid.airy {
			c.blank(prefix + c.sym.pipe)
		}
		own := prefix + under
		if len(kid.kids) > 0 {
			own += c.sym.pipe
		}
		for j, l := range kid.lines {
			if j == 0 {
				c.draw(prefix+lead, own, l)
			} else {
				c.draw(own, own, l)
			}
		}
		c.tree(prefix+under, kid.kids)
	}
}
