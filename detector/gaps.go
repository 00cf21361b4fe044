package detector

import (
	"fmt"
	"slices"
	"strings"
)

// gaps are wanted fields that were not compared: path to reason.
type gaps map[string]string

func (g *gaps) add(path, reason string) {
	if *g == nil {
		*g = make(gaps)
	}
	(*g)[path] = reason
}

// shownPaths bounds how many paths a reason names; the count is always whole.
const shownPaths = 5

// reason says in one line how many of the wanted fields were not compared,
// which, and why; paths with one reason stand together.
func (g gaps) reason(wanted int) string {
	byReason := map[string][]string{}
	for path, reason := range g {
		byReason[reason] = append(byReason[reason], path)
	}
	var texts []string
	for reason, paths := range byReason {
		slices.Sort(paths)
		more := ""
		if n := len(paths) - shownPaths; n > 0 {
			paths, more = paths[:shownPaths], fmt.Sprintf(" and %d more", n)
		}
		texts = append(texts, strings.Join(paths, ", ")+more+" "+reason)
	}
	slices.Sort(texts)
	return fmt.Sprintf("%d of %d fields not checked: %s", len(g), wanted, strings.Join(texts, "; "))
}
