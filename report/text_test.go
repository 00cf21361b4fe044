package report

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

func TestClean(t *testing.T) {
	cases := map[string]struct {
		in   string
		with cleaner
		want string
	}{
		"plain":                    {in: "i-0abc prod/eu-1", want: "i-0abc prod/eu-1"},
		"letters of the world":     {in: "Fertigung-Süd 検査 🙂", want: "Fertigung-Süd 検査 🙂"},
		"in ASCII":                 {in: "Süd 検 🙂", with: cleaner{ascii: true}, want: `S\u00fcd \u691c \U0001f642`},
		"lines":                    {in: "a\nb\r\n\tc", want: `a\nb\r\n\tc`},
		"terminal control":         {in: "\x1b[31mred\x1b[0m\a", want: `\x1b[31mred\x1b[0m\x07`},
		"C1 control":               {in: "\u009b2J", want: `\u009b2J`},
		"C1 control as a raw byte": {in: "\x9b2J", want: `\x9b2J`},
		"reading order":            {in: "user\u202egnp.exe\u2066", want: `user\u202egnp.exe\u2066`},
		"zero width":               {in: "pr\u200bod\ufeff\u00ad", want: `pr\u200bod\ufeff\u00ad`},
		"tag characters":           {in: "x\U000e0041", want: `x\U000e0041`},
		"variation selectors":      {in: "x\ufe0f\U000e0100", want: `x\ufe0f\U000e0100`},
		"spaces that look alike":   {in: "a\u00a0b\u3000c\u2028d", want: `a\u00a0b\u3000c\u2028d`},
		"blank letters":            {in: "\u3164\u115f\u2800\uffa0", want: `\u3164\u115f\u2800\uffa0`},
		"not UTF-8":                {in: "a\xff\xc3(b", want: `a\xff\xc3(b`},
		"the replacement itself":   {in: "a\ufffdb", want: "a\ufffdb"},
		"not characters":           {in: "\ufffe\uffff\U0001ffff", want: `\ufffe\uffff\U0001ffff`},
		"private use":              {in: "\ue000", want: `\ue000`},
		"few marks":                {in: "e\u0301\u0302\u0303x", want: "e\u0301\u0302\u0303x"},
		"too many marks":           {in: "e\u0301\u0302\u0303\u0304\u0305x\u0301", want: "e\u0301\u0302\u0303\\u0304\\u0305x\u0301"},
		"empty":                    {in: "", want: ""},
		"bounded":                  {in: strings.Repeat("ab", 10), with: cleaner{max: 5}, want: "ababa… [15 more bytes]"},
		"bounded, just fits":       {in: "ababa", with: cleaner{max: 5}, want: "ababa"},
		"bounded, wide characters": {in: "検検検", with: cleaner{max: 3}, want: "検検検"},
		"bounded, no half escape":  {in: "abc\x1b", with: cleaner{max: 5}, want: "abc… [1 more bytes]"},
		"bounded, ASCII":           {in: "abcdef", with: cleaner{max: 5, ascii: true}, want: "abcde... [1 more bytes]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.with.clean(c.in); got != c.want {
				t.Errorf("clean(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	for _, p := range shortPayloads() {
		f.Add(p, uint16(40), true)
		f.Add(p, uint16(0), false)
	}
	f.Fuzz(func(t *testing.T, in string, limit uint16, ascii bool) {
		c := cleaner{max: int(limit), ascii: ascii}
		out := c.clean(in)
		if !utf8.ValidString(out) {
			t.Fatalf("%q is not UTF-8", out)
		}
		for _, r := range out {
			if hidden(r) || ascii && r > 0x7f {
				t.Fatalf("%q holds %U", out, r)
			}
		}
		if note := len("… [18446744073709551615 more bytes]"); limit > 0 && utf8.RuneCountInString(out) > int(limit)+note {
			t.Fatalf("%d characters, more than %d and the note", utf8.RuneCountInString(out), limit)
		}
		free := cleaner{ascii: ascii}
		if once := free.clean(in); free.clean(once) != once {
			t.Fatalf("cleaning %q twice gives %q", once, free.clean(once))
		}
	})
}

func FuzzEscapeHidden(f *testing.F) {
	notText := []string{"yes", "No", "ON", "off", "y", "N", "true", "null", "~", "0x1f", "0o7", "1e3", ".5", "1:30", "2026-11-30", "<<", "=", "", " ", ".nan", "-.inf"}
	for _, p := range append(shortPayloads(), notText...) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, in string) {
		plain, err := json.Marshal(map[string]string{"text": in})
		if err != nil {
			t.Fatal(err)
		}
		asJSON := escapeHidden(plain, surrogates)
		asYAML, err := yamlOf(map[string]string{"text": in})
		if err != nil {
			t.Fatal(err)
		}
		inert(t, FormatJSON, asJSON)
		inert(t, FormatYAML, asYAML)
		var fromJSON, fromYAML, fromOldYAML map[string]any
		if err := errors.Join(json.Unmarshal(asJSON, &fromJSON), yaml.Unmarshal(asYAML, &fromYAML), kubeyaml.Unmarshal(asYAML, &fromOldYAML)); err != nil {
			t.Fatalf("%v in %q and %q", err, asJSON, asYAML)
		}
		for _, got := range []map[string]any{fromJSON, fromYAML, fromOldYAML} {
			if got["text"] != validText(in) {
				t.Errorf("%q came back as %q", in, got["text"])
			}
		}
	})
}

// shortPayloads leaves out the huge ones, which slow a fuzzer down.
func shortPayloads() []string {
	return slices.DeleteFunc(payloads(80), func(p string) bool { return len(p) > 1000 })
}

func TestWrapKeepsEveryCharacter(t *testing.T) {
	for _, p := range append(payloads(60), "a b", " a", "a ", "", "x  y", strings.Repeat("word ", 40)) {
		clean := cleaner{max: 500}.clean(p)
		for _, width := range []int{2, 3, 20, 61} {
			l := line{spans: []span{{clean, plainInk}}, hang: 1}
			var got strings.Builder
			for i, row := range l.wrap(width) {
				limit, used := width, 0
				if i > 0 {
					limit--
				}
				for _, c := range row {
					got.WriteString(c.text)
					used += c.width
				}
				if used > limit && len(row) > 1 {
					t.Fatalf("row %d of %q is %d wide, more than %d", i, clean, used, limit)
				}
			}
			squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
			if squeeze(got.String()) != squeeze(clean) {
				t.Fatalf("width %d: %q became %q", width, clean, got.String())
			}
		}
	}
}
