package policies

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
)

// syntaxError begins the message of every error of the parser.
const syntaxError = "Syntax error: "

// issueErrors rewords what the compiler says. Of the parser's errors only the
// first counts: it trips over the same place again and again.
func issueErrors(issues *cel.Issues) []expressionError {
	var out []expressionError
	for _, e := range issues.Errors() {
		x := expressionError{line: max(e.Location.Line(), 1), column: max(e.Location.Column(), 0),
			message: firstLine(e.Message), hint: expressionHint(e.Message)}
		if text, parsing := strings.CutPrefix(x.message, syntaxError); parsing {
			at := fmt.Sprintf("column %d", x.column+1)
			if x.line > 1 {
				at = fmt.Sprintf("line %d, %s", x.line, at)
			}
			x.message, x.hint = reworded(text)
			x.message = fmt.Sprintf("syntax error at %s of the expression: %s", at, x.message)
			return []expressionError{x}
		}
		out = append(out, x)
	}
	return out
}

var (
	expectedSet  = regexp.MustCompile(` expecting (\{.*|'.*'|<EOF>)$`)
	unrecognised = regexp.MustCompile(`^token recognition error at: '(.*)'$`)
	notExpected  = regexp.MustCompile(`^(?:extraneous input|mismatched input|no viable alternative at input) '(.*)'$`)
)

// reworded says in plain words what the generated parser says, without the set
// of tokens that it could have gone on with.
func reworded(text string) (message, hint string) {
	text = expectedSet.ReplaceAllString(text, "")
	if m := unrecognised.FindStringSubmatch(text); m != nil {
		switch bad := strings.TrimSpace(m[1]); {
		case strings.HasPrefix(bad, "'") || strings.HasPrefix(bad, `"`):
			return fmt.Sprintf("the text that begins with %s is not closed, or has an escape that does not exist", bad), `write a backslash as \\`
		case bad == "=":
			return "there is no operator =", "compare with =="
		default:
			return fmt.Sprintf("%s has no meaning here", bad), ""
		}
	}
	if m := notExpected.FindStringSubmatch(text); m != nil {
		if m[1] == "<EOF>" {
			return "it ends too early", "complete it: an operand or a closing bracket is missing"
		}
		return fmt.Sprintf("%s is not expected here", m[1]), ""
	}
	return text, ""
}

// expressionHint names the nearest variable for an unknown one.
func expressionHint(message string) string {
	_, rest, found := strings.Cut(message, "undeclared reference to '")
	if !found {
		return ""
	}
	word, _, _ := strings.Cut(rest, "'")
	if n := nearest(word, celVariables); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return "an expression sees " + strings.Join(celVariables, ", ")
}
