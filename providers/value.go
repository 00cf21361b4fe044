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
type Value struct {
	kind valueKind
	num  int64
	str  string
	set  []string
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

// Set is a set of strings: order and repetition are lost. It is never absent,
// also when empty.
func Set(elements ...string) Value {
	s := slices.Clone(elements)
	slices.Sort(s)
	return Value{kind: set, set: slices.Compact(s)}
}

// IsAbsent reports whether the value is the zero Value.
func (v Value) IsAbsent() bool { return v.kind == absent }

// IsSet reports whether the value is a set, also an empty one.
func (v Value) IsSet() bool { return v.kind == set }

// Elements gives a set's elements in order; callers must not change them. For
// a string it is that string alone.
func (v Value) Elements() []string {
	if v.kind == str {
		return []string{v.str}
	}
	return v.set
}

// Has reports whether a set has the element.
func (v Value) Has(element string) bool {
	_, ok := slices.BinarySearch(v.set, element)
	return ok
}

// Number gives the number, and whether the value is one.
func (v Value) Number() (int64, bool) { return v.num, v.kind == num }

// Equal reports whether two values are the same. It allocates nothing.
func (v Value) Equal(o Value) bool {
	return v.kind == o.kind && v.num == o.num && v.str == o.str && slices.Equal(v.set, o.set)
}

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
		return strings.Join(v.set, ", ")
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
		return v.set
	default:
		return nil
	}
}

// MarshalJSON gives null, a string, a number, a boolean or an array.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.kind == set && v.set == nil {
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
