package policies

import (
	"fmt"
	"math"
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

// scalar gives the text of a scalar node, if it is one of the tags.
func (d *decoder) scalar(n *yaml.Node, path, wanted string, tags ...string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.problem(n, "WrongType", fmt.Sprintf("%s is %s, not %s", path, kindNames[n.Kind], wanted), "")
	case n.Tag == "!!null":
		d.problem(n, "WrongType", fmt.Sprintf("%s has no value", path), "give one, or remove the key")
	case !slices.Contains(tags, n.Tag):
		d.problem(n, "WrongType", fmt.Sprintf("%s is %s, not %s", path, strings.TrimPrefix(n.Tag, "!!"), wanted), rewritten(n, wanted, tags[0]))
	default:
		return n.Value, true
	}
	return "", false
}

// rewritten says how to write a scalar of another type so that it is what is
// wanted; nothing if that cannot be told.
func rewritten(n *yaml.Node, wanted, tag string) string {
	switch p := percentOf(n.Value); {
	case p != "" && (wanted == aPercentage || wanted == numberOrPercentage):
		return fmt.Sprintf("write it as %q", p)
	case wanted == aPercentage:
		return percentageHint
	case wanted == numberOrPercentage:
		return numberOrPercentageHint
	case wanted == aDuration && n.Tag == "!!int":
		return fmt.Sprintf("give it a unit: write %ss for seconds, %sm for minutes", n.Value, n.Value)
	case wanted == aDuration:
		return durationHint
	case tag == "!!str":
		return fmt.Sprintf("put it in quotes: %q", n.Value)
	case n.Tag == "!!str":
		if _, err := strconv.ParseInt(n.Value, 0, 32); err == nil {
			return "write it without quotes: " + n.Value
		}
	}
	return ""
}

// percentOf gives the percentage that a number stands for: 30 for 30%, and 0.3,
// which is a ratio, too. It is empty where that is no whole one.
func percentOf(number string) string {
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return ""
	}
	if x > 0 && x < 1 {
		x = math.Round(x*1e6) / 1e4 // 0.07 times 100 is a little more than 7
	}
	if x < 0 || x > 100 || x != math.Trunc(x) {
		return ""
	}
	return strconv.Itoa(int(x)) + "%"
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, path string) {
	tags := []string{"!!str"}
	if v.Type() == reflect.TypeFor[v1alpha1.Expiry]() {
		tags = append(tags, "!!timestamp")
	}
	wanted := "text"
	if v.Type() == reflect.TypeFor[v1alpha1.Percent]() {
		wanted = aPercentage
	}
	e, isEnum := v.Interface().(enum)
	if isEnum && n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		d.problem(n, "WrongType", fmt.Sprintf("%s is bool, not text", path), boolHint(e.Values()))
		return
	}
	s, ok := d.scalar(n, path, wanted, tags...)
	if !ok {
		return
	}
	if isEnum && !slices.Contains(e.Values(), s) {
		hint := "known are " + strings.Join(e.Values(), ", ")
		if near := nearest(s, e.Values()); near != "" {
			hint = fmt.Sprintf("did you mean %q? %s", near, hint)
		}
		d.problem(n, "BadValue", fmt.Sprintf("%s cannot be %q", path, s), hint)
		return
	}
	v.SetString(s)
}

// boolHint is for a word of a closed list that came as true or false: most tools
// that write YAML again make that of an off without quotes.
func boolHint(words []string) string {
	hint := "known are " + strings.Join(words, ", ")
	if slices.Contains(words, "off") {
		return `write "off" in quotes if that was meant: without them many tools read it as false; ` + hint
	}
	return hint
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
	s, ok := d.scalar(n, path, aDuration, "!!str")
	if !ok {
		return
	}
	x, err := time.ParseDuration(s)
	switch {
	case err != nil:
		hint := durationHint
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
	aPercentage            = "a percentage"
	percentageHint         = `give a whole percentage such as "30%"`
	aDuration              = "a duration"
	durationHint           = "write it like 90s, 30m, 10h or 1h30m"
	numberOrPercentage     = "a number or a percentage"
	numberOrPercentageHint = `give a whole number such as 3, or a percentage such as "10%"`
)

func (d *decoder) intOrString(n *yaml.Node, target *intstr.IntOrString, path string) {
	hint := numberOrPercentageHint
	s, ok := d.scalar(n, path, numberOrPercentage, "!!int", "!!str")
	if !ok {
		return
	}
	if n.Tag == "!!str" {
		if _, err := parsePercent(s); err != nil {
			if p := percentOf(s); p != "" {
				hint = fmt.Sprintf("write it as %q", p)
				if whole, err := strconv.Atoi(s); err == nil {
					hint += fmt.Sprintf(", or without quotes if %d of them are meant", whole)
				}
			}
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
