package providers_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

func TestValueEqual(t *testing.T) {
	values := map[string]providers.Value{
		"absent": {}, "empty string": providers.String(""), "a": providers.String("a"), "1 as text": providers.String("1"),
		"0": providers.Int(0), "1": providers.Int(1), "false": providers.Bool(false), "true": providers.Bool(true),
		"empty set": providers.Set(), "set of a": providers.Set("a"), "set of a, b": providers.Set("b", "a", "b"),
	}
	for i, a := range values {
		for j, b := range values {
			if a.Equal(b) != (i == j) {
				t.Errorf("%s equal to %s: %v", i, j, a.Equal(b))
			}
		}
	}
	a, b := providers.Set("x", "y"), providers.Set("y", "x", "y")
	if n := testing.AllocsPerRun(100, func() {
		if !a.Equal(b) {
			t.Error("sets differ")
		}
	}); n != 0 {
		t.Errorf("comparing allocates %v times", n)
	}
}

func TestValueForms(t *testing.T) {
	tests := map[string]struct {
		value providers.Value
		text  string
		json  string
		any   any
	}{
		"absent":    {providers.Value{}, "", "null", nil},
		"string":    {providers.String("a"), "a", `"a"`, "a"},
		"number":    {providers.Int(-3), "-3", "-3", int64(-3)},
		"true":      {providers.Bool(true), "true", "true", true},
		"false":     {providers.Bool(false), "false", "false", false},
		"set":       {providers.Set("b", "a"), "a, b", `["a","b"]`, []string{"a", "b"}},
		"empty set": {providers.Set(), "", "[]", []string(nil)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.value.Text(); got != tt.text {
				t.Errorf("text %q", got)
			}
			if diff := cmp.Diff(tt.any, tt.value.Any()); diff != "" {
				t.Error(diff)
			}
			data, err := json.Marshal(tt.value)
			if err != nil || string(data) != tt.json {
				t.Errorf("JSON %s, %v", data, err)
			}
			var back providers.Value
			if err := json.Unmarshal(data, &back); err != nil || !back.Equal(tt.value) {
				t.Errorf("back from %s: %q, %v", data, back.Text(), err)
			}
		})
	}
}

func TestSetOwnsItsElements(t *testing.T) {
	elements := []string{"b", "a"}
	v := providers.Set(elements...)
	elements[0] = "z"
	if !slices.Equal(v.Elements(), []string{"a", "b"}) || !v.Has("b") || v.Has("z") {
		t.Errorf("elements: %v", v.Elements())
	}
}

func FuzzValueJSON(f *testing.F) {
	for _, s := range []string{"null", `"a"`, "1", "true", `["b","a"]`, "1.5", "{}", "[1]", "1e3", "9223372036854775808"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v providers.Value
		if json.Unmarshal(data, &v) != nil {
			return
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back providers.Value
		if err := json.Unmarshal(out, &back); err != nil || !back.Equal(v) {
			t.Errorf("%s became %s, then %q, %v", data, out, back.Text(), err)
		}
	})
}

func TestPointer(t *testing.T) {
	tests := map[string][]string{
		"":                       nil,
		"/tags/a":                {"tags", "a"},
		"/tags/kubernetes.io~1a": {"tags", "kubernetes.io/a"},
		"/tags/a~0b~01":          {"tags", "a~b~1"},
		"/tags/":                 {"tags", ""},
	}
	for want, segments := range tests {
		if got := providers.Pointer(segments...); got != want {
			t.Errorf("Pointer(%q) = %q, want %q", segments, got, want)
		}
		if diff := cmp.Diff(segments, providers.Segments(want)); diff != "" {
			t.Errorf("Segments(%q): %s", want, diff)
		}
	}
}

func FuzzPointer(f *testing.F) {
	f.Add("tags", "a~1/b")
	f.Fuzz(func(t *testing.T, a, b string) {
		p := providers.Pointer(a, b)
		if got := providers.Segments(p); len(got) != 2 || got[0] != a || got[1] != b {
			t.Errorf("%q, %q became %q, then %q", a, b, p, got)
		}
		if strings.Count(p, "/") != 2 {
			t.Errorf("%q is not two segments", p)
		}
	})
}
