package providers

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Fields are a resource's values by JSON pointer in the words of the spec, in
// the order of their paths. There are a million of them in the snapshot of ten
// thousand machines, which a map for each resource would keep in twice the
// memory. The zero Fields has none. Copies share what they hold, as maps do:
// change a [Fields.Clone].
type Fields []NamedField

// NamedField is a field and its path.
type NamedField struct {
	Path string
	Field
}

// FieldsOf gives the fields of a map.
func FieldsOf(m map[string]Field) Fields {
	out := make(Fields, 0, len(m))
	for path, f := range m {
		out = append(out, NamedField{path, f})
	}
	slices.SortFunc(out, func(a, b NamedField) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// Lookup gives the field at a path, and whether there is one.
func (f Fields) Lookup(path string) (Field, bool) {
	i, found := f.find(path)
	if !found {
		return Field{}, false
	}
	return f[i].Field, true
}

// Get gives the field at a path, or the zero Field, whose value is absent.
func (f Fields) Get(path string) Field {
	out, _ := f.Lookup(path)
	return out
}

// Set stores a field.
func (f *Fields) Set(path string, field Field) {
	if n := len(*f); n > 0 && (*f)[n-1].Path < path { // in order already
		*f = append(*f, NamedField{path, field})
		return
	}
	i, found := f.find(path)
	if found {
		(*f)[i].Field = field
		return
	}
	*f = slices.Insert(*f, i, NamedField{path, field})
}

// Delete removes the field at a path, if there is one.
func (f *Fields) Delete(path string) {
	if i, found := f.find(path); found {
		*f = slices.Delete(*f, i, i+1)
	}
}

// All gives each path and its field, in order.
func (f Fields) All() iter.Seq2[string, Field] {
	return func(yield func(string, Field) bool) {
		for i := range f {
			if !yield(f[i].Path, f[i].Field) {
				return
			}
		}
	}
}

// Clone gives a copy that shares nothing, and takes no more room than it needs.
func (f Fields) Clone() Fields {
	if f == nil {
		return nil
	}
	return append(make(Fields, 0, len(f)), f...)
}

func (f Fields) find(path string) (int, bool) {
	return slices.BinarySearchFunc(f, path, func(e NamedField, path string) int { return strings.Compare(e.Path, path) })
}
