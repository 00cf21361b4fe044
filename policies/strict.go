package policies

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// decoder reads a node tree into the Go types, strictly, and remembers where
// each value stands. It does not stop at a problem: all are found at once.
type decoder struct {
	file     string
	lines    []string
	problems Problems
	// at has the node of each value by its path, such as spec.rules[0].when,
	// and keys the node of its key.
	at, keys  map[string]*yaml.Node
	nodes     int
	exhausted bool
}

func newDecoder(src Source) *decoder {
	return &decoder{file: src.Name, lines: strings.Split(string(src.Data), "\n"),
		at: map[string]*yaml.Node{}, keys: map[string]*yaml.Node{}}
}

func (d *decoder) problem(n *yaml.Node, code, message, hint string) {
	d.problems = append(d.problems, Problem{Position: d.position(n), Code: code, Message: message, Hint: hint})
}

func (d *decoder) position(n *yaml.Node) Position {
	return Position{File: d.file, Line: max(n.Line, 1), Column: max(n.Column, 1)}
}

// pos gives the place of a value, or of the nearest value around it.
func (d *decoder) pos(path string) Position {
	for path != "" {
		if n := d.at[path]; n != nil {
			return d.position(n)
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return Position{File: d.file, Line: 1, Column: 1}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// enum is a text type with a closed list of values.
type enum interface{ Values() []string }

// decode reads n into v. depth counts nesting, aliases included.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string, depth int) {
	d.at[path] = n
	n = d.resolve(n)
	if n == nil || !d.visit(n, depth) {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch target := v.Addr().Interface().(type) {
	case *metav1.ObjectMeta:
		d.metadata(n, target, path, depth)
		return
	case *metav1.Duration:
		d.duration(n, target, path)
		return
	case *intstr.IntOrString:
		d.intOrString(n, target, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path, depth)
	case reflect.Slice:
		d.list(n, v, path, depth)
	case reflect.Map:
		d.texts(n, v, path, depth)
	case reflect.Int32:
		d.number(n, v, path)
	default:
		d.text(n, v, path)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string, depth int) {
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	fields, written := map[string]reflect.Value{}, map[string]bool{}
	var names, required []string
	for i := range v.NumField() {
		tag, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if options == "inline" {
			for j := range v.Field(i).NumField() {
				inner, _, _ := strings.Cut(v.Field(i).Type().Field(j).Tag.Get("json"), ",")
				fields[inner] = v.Field(i).Field(j)
				names, required = append(names, inner), append(required, inner)
			}
			continue
		}
		if options == "omitzero" {
			written[tag] = true // by the daemon, and read by nobody here
			continue
		}
		fields[tag] = v.Field(i)
		names = append(names, tag)
		if options != "omitempty" {
			required = append(required, tag)
		}
	}
	given := map[string]bool{}
	for _, p := range d.pairs(n, depth) {
		field, known := fields[p.key.Value]
		if written[p.key.Value] {
			continue
		}
		if !known {
			d.unknownKey(p.key, path, names)
			continue
		}
		given[p.key.Value] = true
		d.keys[join(path, p.key.Value)] = p.key
		d.decode(p.value, field, join(path, p.key.Value), depth+1)
	}
	for _, name := range required {
		if !given[name] && !d.exhausted {
			d.problem(n, "MissingKey", fmt.Sprintf("%s needs the key %q", describe(path), name), "add it")
		}
	}
}

func describe(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

func (d *decoder) unknownKey(key *yaml.Node, path string, names []string) {
	hint := "known are " + strings.Join(names, ", ")
	if n := nearest(key.Value, names); n != "" {
		hint = fmt.Sprintf("did you mean %q?", n)
	}
	d.problem(key, "UnknownKey", fmt.Sprintf("unknown key %q in %s", key.Value, describe(path)), hint)
}

var kindNames = map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value"}

// want reports whether the node has the kind; a null list or mapping is empty.
func (d *decoder) want(n *yaml.Node, kind yaml.Kind, path string) bool {
	if n.Kind == kind {
		return true
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" && kind != yaml.ScalarNode {
		return path != "" // a null document cannot happen; its keys would be missed
	}
	d.problem(n, "WrongType", fmt.Sprintf("%s is %s, not %s", describe(path), kindNames[n.Kind], kindNames[kind]), hintForKind(kind))
	return false
}

func hintForKind(kind yaml.Kind) string {
	if kind == yaml.SequenceNode {
		return "write each entry on a line of its own that begins with \"- \", or use [ ]"
	}
	return ""
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, depth int) {
	if !d.want(n, yaml.SequenceNode, path) {
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.decode(item, out.Index(i), path+"["+strconv.Itoa(i)+"]", depth+1)
	}
	v.Set(out)
}

func (d *decoder) texts(n *yaml.Node, v reflect.Value, path string, depth int) {
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, p := range d.pairs(n, depth) {
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(p.value, value, join(path, p.key.Value), depth+1)
		out.SetMapIndex(reflect.ValueOf(p.key.Value).Convert(v.Type().Key()), value)
	}
	v.Set(out)
}
