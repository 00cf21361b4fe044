package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-io/holdfast/detector"
)

func writeTable(w io.Writer, r *Report, s Style) error { return newTable(r, s, false).write(w) }

func writeWide(w io.Writer, r *Report, s Style) error { return newTable(r, s, true).write(w) }

// table writes a report as a tree for a terminal: only what needs a look,
// unless wide.
type table struct {
	*view
	canvas
	wide  bool
	value cleaner
	text  cleaner
}

func newTable(r *Report, s Style, wide bool) *table {
	t := &table{
		view:   newView(r),
		canvas: canvas{width: s.width(), color: s.Color, sym: &unicodeSymbols},
		wide:   wide,
		value:  cleaner{max: maxValue, ascii: s.ASCII},
		text:   cleaner{max: maxLine, ascii: s.ASCII},
	}
	if s.ASCII {
		t.sym = &asciiSymbols
	}
	if wide {
		t.value.max, t.text.max = maxWide, maxWide
	}
	return t
}

func (t *table) write(w io.Writer) error {
	for i := range t.clusters {
		if i > 0 {
			t.blank("")
		}
		t.cluster(&t.clusters[i])
	}
	if len(t.clusters) == 0 {
		t.say(span{"No cluster was found.", bold})
	}
	if len(t.problems) > 0 {
		t.blank("")
		t.say(span{"Problems", bold})
		t.tree("", t.problemNodes(t.problems))
	}
	t.comparison()
	t.summary()
	t.blank("")
	t.say(span{lastLine, bold})
	_, err := io.WriteString(w, t.b.String())
	return err
}

// say draws one line without a branch.
func (t *table) say(spans ...span) { t.draw("", "", line{spans, 2}) }

func (t *table) clean(s string) string { return t.text.clean(s) }

func (t *table) cluster(c *clusterView) {
	head := []span{{"Cluster ", plainInk}, {t.value.clean(c.Namespace + "/" + c.Name), bold}}
	if place := firstOf(c.Scope, c.Provider); place != "" {
		head = append(head, span{"  " + t.value.clean(place), cyan})
	}
	t.say(head...)
	t.say(span{t.coverageLine(c), dim})

	root := &node{}
	for i := range c.groups {
		root.add(t.group(c, &c.groups[i]))
	}
	if t.wide {
		t.inSync(root, c)
	}
	t.unread(root, c)
	if len(c.problems) > 0 {
		n := root.add(&node{airy: true})
		n.line(0, span{"Problems", bold})
		n.kids = t.problemNodes(c.problems)
	}
	t.gateLegend(root, c)
	switch text, inSync := c.quiet(); {
	case text == "":
	case inSync:
		t.say(span{t.sym.check + " ", green}, span{text, plainInk})
	case c.uncompared():
		t.say(span{t.sym.query + " ", yellow}, span{text, plainInk})
	default:
		t.say(span{t.sym.dot + " " + text, plainInk})
	}
	t.tree("", root.kids)
}

func (t *table) coverageLine(c *clusterView) string {
	parts := []string{plural(len(c.Owners), "object"), coverageText(c.Coverage)}
	if c.SnapshotTime == nil {
		parts = append(parts, "the cloud was not read")
	} else {
		parts = append(parts, fmt.Sprintf("read %s (%s ago)", stamp(*c.SnapshotTime), age(t.Generated, *c.SnapshotTime)))
	}
	return strings.Join(parts, " "+t.sym.dot+" ")
}

// namesShown is how many names a line lists before it counts the others.
const namesShown = 6

func (t *table) some(texts []string) string {
	for i := range texts {
		texts[i] = t.value.clean(texts[i])
	}
	if t.wide {
		return some(texts, 0)
	}
	return some(texts, namesShown)
}

func (t *table) group(c *clusterView, g *group) *node {
	n := &node{airy: true}
	switch {
	case len(g.owners) > 1:
		names := make([]string, len(g.owners))
		for i := range g.owners {
			names[i] = g.owners[i].Name
		}
		n.line(2, span{fmt.Sprintf("%d machines of %s", len(g.owners), t.value.clean(g.pool)), bold},
			span{": " + t.some(names), plainInk})
	case g.pool != "":
		n.line(2, span{t.value.clean(ownerText(&g.owners[0], c.Namespace)), bold}, span{" of " + t.value.clean(g.pool), dim})
	default:
		n.line(2, span{t.value.clean(ownerText(&g.owners[0], c.Namespace)), bold})
	}
	for i := range g.findings {
		n.add(t.finding(c, &g.findings[i]))
	}
	return n
}

func (t *table) unread(root *node, c *clusterView) {
	for _, u := range c.unread {
		n := root.add(&node{airy: true})
		n.line(2, span{t.sym.query + " " + capital(statusWord(u.status)) + ": ", yellow}, span{t.clean(u.reason), plainInk})
		for _, kind := range kindsOf(u.findings) {
			n.add(&node{}).line(2, span{kind.count() + ": ", plainInk}, span{t.some(kind.names), dim})
		}
	}
}

// kindNames are the resources of one kind, or the objects where nothing of
// them was compared.
type kindNames struct {
	kind  string
	names []string
}

func (k *kindNames) count() string { return plural(len(k.names), k.kind) }

func kindsOf(findings []*Finding) []*kindNames {
	var out []*kindNames
	at := map[string]*kindNames{}
	for _, f := range findings {
		kind, name := f.Resource.Kind, resourceText(&f.Resource)
		if kind == "" {
			kind, name = f.Owner.Kind, f.Owner.Name
		} else if f.Resource.ID == "" && f.Resource.Name == "" {
			name = "of " + f.Owner.Name
		}
		if len(f.Diffs) > 0 {
			paths := make([]string, len(f.Diffs))
			for i := range f.Diffs {
				paths[i] = shownPath(f.Diffs[i].Path)
			}
			name += " " + strings.Join(paths, " ")
		}
		if at[kind] == nil {
			at[kind] = &kindNames{kind: kind}
			out = append(out, at[kind])
		}
		at[kind].names = append(at[kind].names, name)
	}
	return out
}

func (t *table) problemNodes(problems []Problem) []*node {
	nodes := make([]*node, 0, len(problems))
	for _, p := range problems {
		n := &node{}
		spans := []span{{"! " + t.clean(p.Reason) + ": ", yellow}, {t.clean(p.Message), plainInk}}
		if p.Object != "" {
			spans = append(spans, span{" (" + t.value.clean(p.Object) + ")", dim})
		}
		n.line(2, spans...)
		nodes = append(nodes, n)
	}
	return nodes
}

func (t *table) gateLegend(root *node, c *clusterView) {
	if len(c.gates) == 0 {
		return
	}
	n := root.add(&node{airy: true})
	n.line(2, span{"Held back by", bold})
	for _, g := range c.gates {
		n.add(&node{}).line(2, span{t.clean(blockText(&g.Block)), plainInk}, span{" (" + plural(g.findings, "finding") + ")", dim})
	}
}

// inSync lists the resources that need no look.
func (t *table) inSync(root *node, c *clusterView) {
	for i := range c.Owners {
		o := &c.Owners[i]
		if len(o.InSync) == 0 {
			continue
		}
		n := root.add(&node{})
		n.line(2, span{t.sym.check + " In sync", green}, span{" of " + t.value.clean(ownerText(&o.OwnerRef, c.Namespace)), plainInk})
		for _, kind := range syncedKinds(o.InSync) {
			n.add(&node{}).line(2, span{kind.count() + ": ", plainInk}, span{t.some(kind.names), dim})
		}
	}
}

func syncedKinds(resources []detector.ResourceRef) []*kindNames {
	findings := make([]*Finding, len(resources))
	for i := range resources {
		findings[i] = &Finding{Resource: resources[i]}
	}
	return kindsOf(findings)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
