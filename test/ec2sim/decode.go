package ec2sim

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxParameters bounds a request; EC2's own quotas are far below it.
const maxParameters = 20000

// param is a node of a request's parameters: Filter.1.Value.2=x is a tree.
type param struct {
	path     string
	value    string
	set      bool
	used     bool
	children map[string]*param
}

// parseParams builds the tree. A name given twice, an empty name segment or
// too many parameters are the caller's errors.
func parseParams(form url.Values) (*param, *apiError) {
	if len(form) > maxParameters {
		return nil, failf("InvalidParameterValue", "The request has %d parameters, more than %d", len(form), maxParameters)
	}
	root := &param{}
	for name, values := range form {
		if len(values) != 1 {
			return nil, failf("InvalidParameterCombination", "The parameter %s is given %d times", name, len(values))
		}
		segments := strings.Split(name, ".")
		if len(segments) > 12 || slices.Contains(segments, "") {
			return nil, failf("UnknownParameter", "The parameter %s is not recognized", name)
		}
		node := root
		for i, segment := range segments {
			if node.children == nil {
				node.children = map[string]*param{}
			}
			if node.children[segment] == nil {
				node.children[segment] = &param{path: strings.Join(segments[:i+1], ".")}
			}
			node = node.children[segment]
		}
		node.value, node.set = values[0], true
	}
	return root, nil
}

// decode fills a request struct and refuses what the struct does not name, so
// that nothing that a caller asks for is dropped silently.
func decode(root *param, into any) *apiError {
	if err := decodeStruct(root, reflect.ValueOf(into).Elem()); err != nil {
		return err
	}
	if unknown := root.unused(nil); len(unknown) > 0 {
		slices.Sort(unknown)
		return failf("UnknownParameter", "The parameter %s is not recognized", unknown[0])
	}
	return nil
}

func (p *param) unused(found []string) []string {
	if p.set && !p.used {
		found = append(found, p.path)
	}
	for _, child := range p.children {
		found = child.unused(found)
	}
	return found
}

func decodeStruct(p *param, v reflect.Value) *apiError {
	for _, field := range fieldsOf(v.Type()).fields {
		if field.embedded {
			if err := decodeStruct(p, v.Field(field.index)); err != nil {
				return err
			}
			continue
		}
		child := p.children[field.pascal]
		if child == nil {
			if field.required {
				return missing(field.pascal)
			}
			continue
		}
		if err := decodeValue(child, v.Field(field.index)); err != nil {
			return err
		}
	}
	return nil
}

func decodeValue(p *param, v reflect.Value) *apiError {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeValue(p, v.Elem())
	case reflect.Struct:
		if v.Type() == timeType {
			p.used = true
			t, err := time.Parse(time.RFC3339, p.value)
			if err != nil {
				return invalid(p.path, p.value, "Expecting a time")
			}
			v.Set(reflect.ValueOf(t))
			return nil
		}
		return decodeStruct(p, v)
	case reflect.Slice:
		return decodeSlice(p, v)
	}
	p.used = true
	if p.children != nil {
		return failf("UnknownParameter", "The parameter %s is not recognized", p.firstChild())
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(p.value)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(p.value, 10, 64)
		if err != nil {
			return invalid(p.path, p.value, "Expecting an integer")
		}
		v.SetInt(n)
	case reflect.Bool:
		switch p.value {
		case "true", "false":
			v.SetBool(p.value == "true")
		default:
			return invalid(p.path, p.value, "Expecting true or false")
		}
	default:
		panic(fmt.Sprintf("ec2sim cannot read a %s", v.Type()))
	}
	return nil
}

func (p *param) firstChild() string {
	found := p.unused(nil)
	if len(found) == 0 {
		return p.path
	}
	return slices.Min(found)
}

// decodeSlice reads Name.N and, in the query protocol, Name.member.N. Gaps in
// the numbering are allowed; order is the numbers' order.
func decodeSlice(p *param, v reflect.Value) *apiError {
	if member := p.children["member"]; member != nil && len(p.children) == 1 {
		p = member
	}
	if p.set && p.value == "" {
		p.used = true // an empty list in the query protocol
	}
	numbers := make([]int, 0, len(p.children))
	for name := range p.children {
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 || strconv.Itoa(n) != name {
			return failf("UnknownParameter", "The parameter %s is not recognized", p.children[name].path)
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	v.Set(reflect.MakeSlice(v.Type(), len(numbers), len(numbers)))
	for i, n := range numbers {
		if err := decodeValue(p.children[strconv.Itoa(n)], v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}
