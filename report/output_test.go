package report

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseOutputs(t *testing.T) {
	cases := map[string]struct {
		in   []string
		want []Output
		err  string
	}{
		"none":                   {want: []Output{{Format: FormatTable}}},
		"one":                    {in: []string{"json"}, want: []Output{{Format: FormatJSON}}},
		"upper case":             {in: []string{"JSON"}, want: []Output{{Format: FormatJSON}}},
		"short name":             {in: []string{"md=x.md"}, want: []Output{{FormatMarkdown, "x.md"}}},
		"several":                {in: []string{"table", "json=f.json", "html=f.html"}, want: []Output{{Format: FormatTable}, {FormatJSON, "f.json"}, {FormatHTML, "f.html"}}},
		"a file with an =":       {in: []string{"json=a=b"}, want: []Output{{FormatJSON, "a=b"}}},
		"dash":                   {in: []string{"sarif=-"}, want: []Output{{Format: FormatSARIF}}},
		"unknown":                {in: []string{"cvs"}, err: `output format "cvs" is not known: want one of table, wide, json`},
		"empty":                  {in: []string{""}, err: "is not known"},
		"no file":                {in: []string{"html="}, err: `names no file: write html=FILE`},
		"two on standard output": {in: []string{"table", "json"}, err: "table and json both go to standard output"},
		"two in one file":        {in: []string{"json=f", "yaml=f"}, err: "json and yaml both go to the file f"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseOutputs(c.in)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error is %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryFormatHasAWriter(t *testing.T) {
	for _, f := range Formats() {
		if writers[Format(f)] == nil {
			t.Errorf("no writer for %s", f)
		}
	}
	if len(writers) != len(Formats()) {
		t.Errorf("%d writers for %d formats", len(writers), len(Formats()))
	}
}

func TestWriteSeveralAtOnce(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "f.json")
	if err := os.WriteFile(old, []byte(strings.Repeat("old", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := Build(sample())
	outputs, err := ParseOutputs([]string{"table", "json=" + old, "html=" + filepath.Join(dir, "f.html")})
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	if err := Write(r, outputs, &stdout, Style{Color: true}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{
		"f.json": render(t, r, FormatJSON, Style{}), "f.html": render(t, r, FormatHTML, Style{}),
	} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("%s: %v, %d bytes, want %d", file, err, len(got), len(want))
		}
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s has mode %v, %v", file, info.Mode(), err)
		}
	}
	if !bytes.Equal(stdout.Bytes(), render(t, r, FormatTable, Style{Color: true})) {
		t.Error("standard output is not the table in colour")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("the folder holds %v, %v: a temporary file was left", left, err)
	}
}

// A table in a file has no colour, whatever the terminal can.
func TestATableInAFileHasNoColor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.txt")
	if err := Write(Build(sample()), []Output{{FormatTable, file}}, nil, Style{Color: true, Width: 60}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(got, []byte("\x1b")) {
		t.Error("the file holds colours")
	}
}

func TestWriteErrorsNameFormatAndFile(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.json")
	var stdout bytes.Buffer
	err := Write(Build(sample()), []Output{
		{FormatHTML, filepath.Join(dir, "no", "such.html")}, {FormatJSON, good}, {FormatYAML, dir}, {Format: FormatTable},
	}, &stdout, Style{})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"write the html report to " + filepath.Join(dir, "no", "such.html") + ": its folder does not exist",
		"write the yaml report to " + dir + ": it is a folder",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error is %q, want one with %q", err, want)
		}
	}
	if _, err := os.Stat(good); err != nil || stdout.Len() == 0 {
		t.Errorf("one output that fails keeps others from being written: %v", err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestStandardOutputFails(t *testing.T) {
	err := Write(Build(sample()), []Output{{Format: FormatTable}}, brokenPipe{}, Style{})
	if err == nil || err.Error() != "write the table report to standard output: broken pipe" {
		t.Errorf("error is %v", err)
	}
}

// What was there stays whole if the new file cannot be written.
func TestReplaceFileKeepsTheOldOne(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "new" {
		t.Errorf("target holds %q, %v", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if err := replaceFile(os.DevNull, []byte("x")); err != nil {
		t.Errorf("a device: %v", err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("the device was replaced: %v", err)
	}
}

func TestDetectStyle(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(key string) string {
			if i := slices.Index(pairs, key); i >= 0 && i%2 == 0 {
				return pairs[i+1]
			}
			return ""
		}
	}
	utf8 := []string{"LANG", "en_GB.UTF-8", "TERM", "xterm-256color"}
	cases := map[string]struct {
		terminal bool
		when     ColorWhen
		env      []string
		want     Style
	}{
		"a terminal":           {true, ColorAuto, utf8, Style{Width: 87, Color: true}},
		"no terminal":          {false, ColorAuto, utf8, Style{Width: 87}},
		"NO_COLOR":             {true, ColorAuto, append(utf8, "NO_COLOR", "1"), Style{Width: 87}},
		"NO_COLOR empty":       {true, ColorAuto, append(utf8, "NO_COLOR", ""), Style{Width: 87, Color: true}},
		"TERM=dumb":            {true, ColorAuto, []string{"LANG", "C.UTF-8", "TERM", "dumb"}, Style{Width: 87}},
		"never":                {true, ColorNever, utf8, Style{Width: 87}},
		"always, piped":        {false, ColorAlways, append(utf8, "NO_COLOR", "1"), Style{Width: 87, Color: true}},
		"no locale":            {true, ColorAuto, nil, Style{Width: 87, Color: true, ASCII: true}},
		"C locale":             {true, ColorNever, []string{"LANG", "C"}, Style{Width: 87, ASCII: true}},
		"Latin-1":              {true, ColorNever, []string{"LANG", "de_DE.ISO-8859-1"}, Style{Width: 87, ASCII: true}},
		"LC_ALL decides":       {true, ColorNever, append(utf8, "LC_ALL", "C"), Style{Width: 87, ASCII: true}},
		"LC_CTYPE before LANG": {true, ColorNever, []string{"LANG", "C", "LC_CTYPE", "C.utf8"}, Style{Width: 87}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := detectStyle(c.terminal, 87, c.when, env(c.env...))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for width, want := range map[int]int{0: 100, 1: 60, 60: 60, 99: 99, 500: 140} {
		if got := (Style{Width: width}).width(); got != want {
			t.Errorf("width %d is taken as %d, want %d", width, got, want)
		}
	}
}
