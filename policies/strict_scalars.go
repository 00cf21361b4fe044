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
