package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/html"
	kubeyaml "sigs.k8s.io/yaml"
)

const payloadCount = 220

// validText is what JSON makes of a text: each byte that is no UTF-8 becomes
// the replacement character.
func validText(s string) string { return string([]rune(s)) }

// inert fails where a text holds a character that acts or hides.
func inert(t *testing.T, format Format, out []byte) {
	t.Helper()
	for at, c := range string(out) {
		if c != '\n' && c != '\t' && hidden(c) {
			t.Fatalf("%s holds the hidden character %U at byte %d", format, c, at)
		}
	}
	if !utf8.Valid(out) {
		t.Fatalf("%s is not UTF-8", format)
	}
}

func TestHostileJSONAndYAML(t *testing.T) {
	t.Parallel()
	r := Build(hostileInput(payloads(payloadCount)...))
	asJSON := render(t, r, FormatJSON, Style{})
	inert(t, FormatJSON, asJSON)
	back, err := Read(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Findings {
		if want, got := validText(r.Findings[i].Diffs[0].Have.Text()), back.Findings[i].Diffs[0].Have.Text(); want != got {
			t.Errorf("value %q came back as %q", want, got)
		}
	}
	asYAML := render(t, r, FormatYAML, Style{})
	inert(t, FormatYAML, asYAML)
	var want, got, old any
	if err := json.Unmarshal(asJSON, &want); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(asYAML, &got); err != nil {
		t.Fatal(err)
	}
	if err := kubeyaml.Unmarshal(asYAML, &old); err != nil {
		t.Fatal(err)
	}
	// Through JSON once more, so that numbers have one type.
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var same any
	if err := json.Unmarshal(again, &same); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, same); diff != "" {
		t.Errorf("YAML says something else than JSON (-json +yaml):\n%s", diff)
	}
	if diff := cmp.Diff(want, old); diff != "" {
		t.Errorf("YAML 1.1 says something else than JSON (-json +yaml):\n%s", diff)
	}
}

var colors = regexp.MustCompile(`\x1b\[(0|1|2|1;31|3[1-6])m`)

func TestHostileTable(t *testing.T) {
	t.Parallel()
	for i, p := range payloads(payloadCount) {
		r := Build(hostileInput(p))
		plainLines := 0
		for _, style := range []Style{{Width: 60}, {Width: 60, Color: true}, {Width: 100, ASCII: true}, {Width: 140, Color: true}} {
			for _, format := range []Format{FormatTable, FormatWide} {
				out := colors.ReplaceAll(render(t, r, format, style), nil)
				inert(t, format, out)
				for _, l := range strings.Split(string(out), "\n") {
					if w := (&runewidth.Condition{}).StringWidth(l); w > style.width() {
						t.Fatalf("payload %d %.40q: a line is %d wide, wider than %d: %q", i, p, w, style.width(), l)
					}
				}
				if style.ASCII && !isASCII(out) {
					t.Fatalf("payload %d %.40q: the ASCII table is not ASCII", i, p)
				}
				if format == FormatTable && style.Width == 60 {
					lines := bytes.Count(out, []byte("\n"))
					if plainLines != 0 && lines != plainLines {
						t.Fatalf("payload %d %.40q: colour changes the lines", i, p)
					}
					plainLines = lines
				}
			}
		}
	}
}

func isASCII(b []byte) bool {
	return bytes.IndexFunc(b, func(r rune) bool { return r > 0x7f }) < 0
}

// benign is a harmless text as long as the payload once it is clean, so that
// both take the same room.
func benign(payload string) string {
	return strings.Repeat("x", len(cleanWide.clean(payload)))
}

func TestHostileMarkdown(t *testing.T) {
	t.Parallel()
	shape := func(in BuildInput) []string {
		source := render(t, Build(in), FormatMarkdown, Style{})
		inert(t, FormatMarkdown, source)
		var out []string
		doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
		err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			switch n := n.(type) {
			case *ast.CodeSpan, *ast.FencedCodeBlock:
				out = append(out, n.Kind().String())
				return ast.WalkSkipChildren, nil
			case *ast.Text:
				out = append(out, "text "+string(n.Value(source)))
			default:
				out = append(out, n.Kind().String())
			}
			return ast.WalkContinue, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for i, p := range payloads(payloadCount) {
		if diff := cmp.Diff(shape(hostileInput(benign(p))), shape(hostileInput(p))); diff != "" {
			t.Errorf("payload %d %.60q changes the Markdown (-harmless +hostile):\n%.2000s", i, p, diff)
		}
	}
}

func TestHostileHTML(t *testing.T) {
	t.Parallel()
	shape := func(in BuildInput) []string {
		source := render(t, Build(in), FormatHTML, Style{})
		inert(t, FormatHTML, source)
		var out []string
		z := html.NewTokenizer(bytes.NewReader(source))
		for {
			switch z.Next() {
			case html.ErrorToken:
				if !errors.Is(z.Err(), io.EOF) {
					t.Fatal(z.Err())
				}
				return out
			case html.TextToken:
			default:
				token := z.Token()
				// Where a word may break depends on the word.
				if token.Data == "wbr" {
					continue
				}
				line := token.Type.String() + " " + token.Data
				for _, a := range token.Attr {
					line += " " + a.Key
					switch a.Key {
					case "data-cluster", "data-kind", "value", "content", "aria-label":
					default:
						line += "=" + a.Val
					}
				}
				out = append(out, line)
			}
		}
	}
	for i, p := range payloads(payloadCount) {
		if diff := cmp.Diff(shape(hostileInput(benign(p))), shape(hostileInput(p))); diff != "" {
			t.Errorf("payload %d %.60q changes the page (-harmless +hostile):\n%.2000s", i, p, diff)
		}
	}
}

func TestHostileJUnit(t *testing.T) {
	t.Parallel()
	shape := func(in BuildInput) []string {
		source := render(t, Build(in), FormatJUnit, Style{})
		inert(t, FormatJUnit, source)
		var out []string
		d := xml.NewDecoder(bytes.NewReader(source))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				line := token.Name.Local
				for _, a := range token.Attr {
					line += " " + a.Name.Local
				}
				out = append(out, line)
			case xml.EndElement:
				out = append(out, "/"+token.Name.Local)
			case xml.Comment, xml.ProcInst, xml.Directive:
				out = append(out, fmt.Sprintf("%T", token))
			}
		}
	}
	for i, p := range payloads(payloadCount) {
		if diff := cmp.Diff(shape(hostileInput(benign(p))), shape(hostileInput(p))); diff != "" {
			t.Errorf("payload %d %.60q changes the XML (-harmless +hostile):\n%.2000s", i, p, diff)
		}
	}
}

// What SARIF gives a meaning in a message: a bracket or a brace that is not
// escaped.
var sarifActs = regexp.MustCompile(`(^|[^\\])(\\\\)*[\[\]]|(^|[^{])({{)*{([^{]|$)|(^|[^}])(}})*}([^}]|$)`)

func TestHostileSARIF(t *testing.T) {
	t.Parallel()
	out := render(t, Build(hostileInput(payloads(payloadCount)...)), FormatSARIF, Style{})
	inert(t, FormatSARIF, out)
	validSARIF(t, out)
	doc, err := sarif.FromBytes(out)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(doc.Runs[0].Results), 2*payloadCount; got != want {
		t.Errorf("%d results, want %d", got, want)
	}
	for _, result := range doc.Runs[0].Results {
		if m := *result.Message.Text; sarifActs.MatchString(m) {
			t.Errorf("message could hold a link or a placeholder: %.200q", m)
		}
		uri := result.Locations[0].PhysicalLocation
		if uri != nil && !strings.HasPrefix(*uri.ArtifactLocation.URI, "clusters/") {
			t.Errorf("location is %q: it must stay below the folder it came from", *uri.ArtifactLocation.URI)
		}
	}
}
