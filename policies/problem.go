package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a policy.
type Problem struct {
	Position
	// Warning problems do not keep a policy from being used.
	Warning bool `json:"warning,omitempty"`
	// Code is a stable CamelCase word for the kind of problem.
	Code string `json:"code"`
	// Message says what is wrong, Hint what to do.
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String gives file:line:column: what; what to do.
func (p Problem) String() string {
	var b strings.Builder
	_, _ = b.WriteString(p.Position.String())
	if p.Warning {
		_, _ = b.WriteString(": warning")
	}
	_, _ = b.WriteString(": " + p.Message)
	if p.Hint != "" {
		_, _ = b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// String gives file:line:column, without what is not known.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// Problems are all problems of a load, ordered by file and place.
type Problems []Problem

// Err gives an [*InvalidError] if a problem is more than a warning, else nil.
func (ps Problems) Err() error {
	errs := ps.Errors()
	if len(errs) == 0 {
		return nil
	}
	return &InvalidError{Problems: errs}
}

// Errors gives the problems that are more than warnings.
func (ps Problems) Errors() Problems {
	var out Problems
	for _, p := range ps {
		if !p.Warning {
			out = append(out, p)
		}
	}
	return out
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
}

// InvalidError says that policies cannot be used. A command that meets it
// exits with status 4.
type InvalidError struct{ Problems Problems }

func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
