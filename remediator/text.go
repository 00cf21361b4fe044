package remediator

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/providers"
)

// Bounds of texts in a record, in characters.
const (
	maxValue   = 240
	maxMessage = 512
	maxName    = 120
)

// marksInARow is how many combining marks may follow one character; more of
// them paint over neighbouring lines.
const marksInARow = 3

// Line makes hostile text fit for a record, a condition or an event: one line
// of at most limit characters, without credentials in URLs, and without
// characters that a reader could not see for what they are, which become
// U+FFFD.
func Line(s string, limit int) string {
	s = providers.RedactWithin(s, 8*limit) // what is searched is bounded
	var b strings.Builder
	n, marks, space := 0, 0, false
	for _, r := range s {
		if unicode.IsSpace(r) {
			space = n > 0
			continue
		}
		if unicode.Is(unicode.M, r) {
			if marks++; marks > marksInARow {
				continue
			}
		} else {
			marks = 0
		}
		if hidden(r) {
			r = utf8.RuneError
		}
		if n+2 > limit {
			b.WriteRune('…')
			return b.String()
		}
		if space {
			b.WriteByte(' ')
			n, space = n+1, false
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// hidden reports characters that steer a terminal, turn the reading order or
// do not show.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) || r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0'
}
