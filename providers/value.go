package providers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Value is one canonical value: a string, a number, a truth value or a set of
// strings. The zero Value is absence. Build values with [String], [Int],
// [Bool] and [Set]; they are immutable.
//
// There are hundreds of thousands in a snapshot of ten thousand machines, so
// that a set is kept as one string, and a Value has 32 bytes.
type Value struct {
	kind valueKind
	// num is the number, 1 for true, or how many elements a set has.
	num int64
	// str is the string, or a set's elements in order with a NUL after each.
	str string
}

type valueKind uint8

const (
	absent valueKind = iota
	str
	num
	truth
	set
)

// String is a string value, compared byte for byte.
func String(s string) Value { return Value{kind: str, str: s} }

// Int is a whole number. The path says its unit: sizes are GiB, memory MiB.
func Int[T ~int | ~int32 | ~int64](n T) Value { return Value{kind: num, num: int64(n)} }

// Bool is a truth value.
func Bool(b bool) Value {
	v := Value{kind: truth}
	if b {
		v.num = 1
	}
	return v
}

// end closes an element of a set. No API gives a NUL; one that did would have
// it shown as U+FFFD.
const end = "\x00"

// Set is a set of strings: order and repetition are lost. It is never absent,
// also when empty.
func Set(elements ...string) Value {
	s := slices.Clone(elements)
	size := 0
	for i := range s {
		s[i] = strings.ReplaceAll(s[i], end, "\uFFFD")
		size += len(s[i]) + 1
	}
	slices.Sort(s)
	s = slices.Compact(s)
	var b strings.Builder
	b.Grow(size)
	for _, e := range s {
		b.WriteString(e)
		b.WriteString(end)
	}
	return Value{kind: set, num: int64(len(s)), str: b.String()}
}

// IsAbsent reports whether the value is the zero Value.
func (v Value) IsAbsent() bool { return v.kind == absent }

// IsSet reports whether the value is a set, also an empty one.
func (v Value) IsSet() bool { return v.kind == set }

// Elements gives a set's elements in order. For a string it is that string
// alone.
func (v Value) Elements() []string {
	switch {
	case v.kind == str:
		return []string{v.str}
	case v.kind != set || v.num == 0:
		return nil
	default:
		return strings.Split(strings.TrimSuffix(v.str, end), end)
	}
}

// Has reports whether a set has the element.
func (v Value) Has(element string) bool {
	if v.kind != set {
		return false
	}
	for rest := v.str; rest != ""; {
		e, after, _ := strings.Cut(rest, end)
		if e == element {
			return true
		}
		rest = after
	}
	return false
}

// HasAll reports whether a set has every element of another. It allocates
// nothing.
func (v Value) HasAll(o Value) bool {
	if v.kind != set || o.kind != set {
		return false
	}
	for rest := o.str; rest != ""; {
		e, after, _ := strings.Cut(rest, end)
		if !v.Has(e) {
			return false
		}
		rest = after
	}
	return true
}

// Number gives the number, and whether the value is one.
func (v Value) Number() (int64, bool) { return v.num, v.kind == num }

// Equal reports whether two values are the same. It allocates nothing.
func (v Value) Equal(o Value) bool { return v == o }

// Text gives the value for people; absence is empty.
func (v Value) Text() string {
	switch v.kind {
	case str:
		return v.str
	case num:
		return strconv.FormatInt(v.num, 10)
	case truth:
		return strconv.FormatBool(v.num == 1)
	case set:
		return strings.Join(v.Elements(), ", ")
	default:
		return ""
	}
}

// Any gives the value as nil, string, int64, bool or []string, for CEL and
// JSON.
func (v Value) Any() any {
	switch v.kind {
	case str:
		return v.str
	case num:
		return v.num
	case truth:
		return v.num == 1
	case set:
		return v.Elements()
	default:
		return nil
	}
}

// MarshalJSON gives null, a string, a number, a boolean or an array.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.kind == set && v.num == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal(v.Any())
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var x any
	if err := dec.Decode(&x); err != nil {
		return err
	}
	switch x := x.(type) {
	case nil:
		*v = Value{}
	case string:
		*v = String(x)
	case bool:
		*v = Bool(x)
	case json.Number:
		n, err := x.Int64()
		if err != nil {
			return fmt.Errorf("value %s is not a whole number", x)
		}
		*v = Int(n)
	case []any:
		elements := make([]string, len(x))
		for i, e := range x {
			s, ok := e.(string)
			if !ok {
				return fmt.Errorf("element %d of a set is %T, not a string", i, e)
			}
			elements[i] = s
		}
		*v = Set(elements...)
	default:
		return fmt.Errorf("value is %T: want null, a string, a whole number, a boolean or an array of strings", x)
	}
	return nil
}
