package policies

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
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
	fields := map[string]reflect.Value{}
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
		fields[tag] = v.Field(i)
		names = append(names, tag)
		if options != "omitempty" {
			required = append(required, tag)
		}
	}
	given := map[string]bool{}
	for _, p := range d.pairs(n, depth) {
		field, known := fields[p.key.Value]
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

// scalar gives the text of a scalar node, if it is one of the tags.
func (d *decoder) scalar(n *yaml.Node, path, wanted string, tags ...string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.problem(n, "WrongType", fmt.Sprintf("%s is %s, not %s", path, kindNames[n.Kind], wanted), "")
	case n.Tag == "!!null":
		d.problem(n, "WrongType", fmt.Sprintf("%s has no value", path), "give one, or remove the key")
	case !slices.Contains(tags, n.Tag):
		hint := ""
		if wanted == "a percentage" {
			hint = fmt.Sprintf("write it as %q", n.Value+"%")
		} else if wanted == numberOrPercentage {
			hint = numberOrPercentageHint
		} else if tags[0] == "!!str" {
			hint = fmt.Sprintf("put it in quotes: %q", n.Value)
		}
		d.problem(n, "WrongType", fmt.Sprintf("%s is %s, not %s", path, strings.TrimPrefix(n.Tag, "!!"), wanted), hint)
	default:
		return n.Value, true
	}
	return "", false
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, path string) {
	tags := []string{"!!str"}
	if v.Type() == reflect.TypeFor[v1alpha1.Expiry]() {
		tags = append(tags, "!!timestamp")
	}
	wanted := "text"
	if v.Type() == reflect.TypeFor[v1alpha1.Percent]() {
		wanted = "a percentage"
	}
	s, ok := d.scalar(n, path, wanted, tags...)
	if !ok {
		return
	}
	if e, isEnum := v.Interface().(enum); isEnum && !slices.Contains(e.Values(), s) {
		hint := "known are " + strings.Join(e.Values(), ", ")
		if near := nearest(s, e.Values()); near != "" {
			hint = fmt.Sprintf("did you mean %q? %s", near, hint)
		}
		d.problem(n, "BadValue", fmt.Sprintf("%s cannot be %q", path, s), hint)
		return
	}
	v.SetString(s)
}

func (d *decoder) number(n *yaml.Node, v reflect.Value, path string) {
	s, ok := d.scalar(n, path, "a number", "!!int")
	if !ok {
		return
	}
	x, err := strconv.ParseInt(s, 0, 32)
	if err != nil || x < 1 {
		d.problem(n, "BadValue", fmt.Sprintf("%s cannot be %s", path, s), "give a whole number from 1 to 2147483647")
		return
	}
	v.SetInt(x)
}

func (d *decoder) duration(n *yaml.Node, target *metav1.Duration, path string) {
	s, ok := d.scalar(n, path, "a duration", "!!str")
	if !ok {
		return
	}
	x, err := time.ParseDuration(s)
	switch {
	case err != nil:
		hint := "write it like 90s, 30m, 10h or 1h30m"
		if days, isDays := strings.CutSuffix(s, "d"); isDays {
			if k, err := strconv.Atoi(days); err == nil && k > 0 && k < 10_000 {
				hint = fmt.Sprintf("days are not a unit: write %dh", k*24)
			}
		}
		d.problem(n, "BadDuration", fmt.Sprintf("%s cannot be %q", path, s), hint)
	case x < 0:
		d.problem(n, "BadDuration", fmt.Sprintf("%s cannot be negative", path), "give a duration of 0s or more")
	default:
		target.Duration = x
	}
}

const (
	numberOrPercentage     = "a number or a percentage"
	numberOrPercentageHint = `give a whole number such as 3, or a percentage such as "10%"`
)

func (d *decoder) intOrString(n *yaml.Node, target *intstr.IntOrString, path string) {
	const hint = numberOrPercentageHint
	s, ok := d.scalar(n, path, numberOrPercentage, "!!int", "!!str")
	if !ok {
		return
	}
	if n.Tag == "!!str" {
		if _, err := parsePercent(s); err != nil {
			d.problem(n, "BadPercentage", fmt.Sprintf("%s cannot be %q: %s", path, s, err), hint)
			return
		}
		*target = intstr.FromString(s)
		return
	}
	x, err := strconv.ParseInt(s, 0, 32)
	if err != nil || x < 0 {
		d.problem(n, "BadValue", fmt.Sprintf("%s cannot be %s", path, s), hint)
		return
	}
	*target = intstr.FromInt32(int32(x))
}

// metadata reads the keys that a policy uses, and accepts the others that an
// API server adds.
func (d *decoder) metadata(n *yaml.Node, target *metav1.ObjectMeta, path string, depth int) {
	if !d.want(n, yaml.MappingNode, path) {
		return
	}
	read := []string{"name", "namespace", "labels", "annotations"}
	served := []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "ownerReferences", "finalizers", "selfLink", "generateName"}
	for _, p := range d.pairs(n, depth) {
		at := join(path, p.key.Value)
		switch p.key.Value {
		case "name":
			d.decode(p.value, reflect.ValueOf(&target.Name).Elem(), at, depth+1)
		case "namespace":
			d.decode(p.value, reflect.ValueOf(&target.Namespace).Elem(), at, depth+1)
		case "labels":
			d.decode(p.value, reflect.ValueOf(&target.Labels).Elem(), at, depth+1)
		case "annotations":
			d.decode(p.value, reflect.ValueOf(&target.Annotations).Elem(), at, depth+1)
		default:
			if !slices.Contains(served, p.key.Value) {
				d.unknownKey(p.key, path, read)
			}
		}
	}
	switch at := d.at[join(path, "name")]; {
	case at == nil:
		d.problem(n, "MissingKey", "metadata needs the key \"name\"", "add it")
	case target.Name == "" && at.Kind == yaml.ScalarNode && at.Tag == "!!str":
		d.problem(at, "BadValue", "metadata.name is empty", "give the policy a name")
	}
}

// parsePercent reads a whole percentage from 0% to 100%.
func parsePercent(s string) (int, error) {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, fmt.Errorf("no percentage: the sign %% is not there")
	}
	x, err := strconv.ParseUint(digits, 10, 8)
	if err != nil || x > 100 || digits != strconv.FormatUint(x, 10) {
		return 0, fmt.Errorf("no whole percentage from 0%% to 100%%")
	}
	return int(x), nil
}
