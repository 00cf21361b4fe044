package report

import "github.com/holdfast-io/holdfast/providers"

// Every text in a report may come from a cloud or from a file that somebody
// else wrote, and is hostile until it has passed through a cleaner: it may
// steer a terminal, forge lines, change the reading order, hide or pretend to
// be something else, or be huge.

// Limits of one text, in characters as shown.
const (
	maxValue = 240  // a value or a name, in formats for people
	maxLine  = 600  // a sentence
	maxWide  = 4096 // a value in wide output and in formats for programs
)

// cleaner makes hostile text inert and visible: see [providers.Cleaner].
type cleaner struct {
	max   int
	ascii bool
}

func (c cleaner) clean(s string) string {
	return providers.Cleaner{Max: c.max, ASCII: c.ascii}.Clean(s)
}

func hidden(r rune) bool { return providers.Hidden(r) }
