package report

import (
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/holdfast-io/holdfast/policies"
)

// ink is how a piece of a line is coloured, as the parameters of an ANSI SGR
// sequence (ECMA-48, 8.3.117).
type ink string

const (
	plainInk ink = ""
	bold     ink = "1"
	dim      ink = "2"
	red      ink = "31"
	green    ink = "32"
	yellow   ink = "33"
	blue     ink = "34"
	cyan     ink = "36"
	boldRed  ink = "1;31"
)

var severityInks = map[policies.Severity]ink{
	policies.Critical: boldRed, policies.High: red, policies.Medium: yellow, policies.Low: blue, policies.Info: dim,
}

// symbols come in two alphabets, so that a report reads the same where only
// ASCII can be shown.
type symbols struct {
	branch, last, pipe, blank string
	arrow, dot, check, query  string
	severity                  map[policies.Severity]string
}

var unicodeSymbols = symbols{
	branch: "├─ ", last: "└─ ", pipe: "│  ", blank: "   ",
	arrow: "→", dot: "·", check: "✓", query: "?",
	severity: map[policies.Severity]string{
		policies.Critical: "✖", policies.High: "▲", policies.Medium: "◆", policies.Low: "●", policies.Info: "○",
	},
}

var asciiSymbols = symbols{
	branch: "|- ", last: "`- ", pipe: "|  ", blank: "   ",
	arrow: "->", dot: "-", check: "ok", query: "?",
	severity: map[policies.Severity]string{
		policies.Critical: "X", policies.High: "!", policies.Medium: "*", policies.Low: "o", policies.Info: ".",
	},
}

// span is a piece of a line in one ink. Its text is clean.
type span struct {
	text string
	ink  ink
}

// line is one line before wrapping; its continuations are indented by hang.
type line struct {
	spans []span
	hang  int
}

// cells measures as terminals do outside of East Asian locales; the measure
// does not depend on the environment, so that output is the same everywhere.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// cell is one character with the marks on it.
type cell struct {
	text  string
	width int
	ink   ink
}

func cellsOf(spans []span) []cell {
	var out []cell
	for _, s := range spans {
		for _, r := range s.text {
			w := cells.RuneWidth(r)
			if w == 0 && len(out) > 0 {
				out[len(out)-1].text += string(r)
				continue
			}
			out = append(out, cell{string(r), w, s.ink})
		}
	}
	return out
}

// wrap breaks a line at spaces, or inside a word that is longer than a whole
// line, after a character that parts it where there is one, so that no part is
// wider than width.
func (l line) wrap(width int) [][]cell {
	rest := cellsOf(l.spans)
	var out [][]cell
	room := width
	for {
		end, used := 0, 0
		for end < len(rest) && used+rest[end].width <= room {
			used += rest[end].width
			end++
		}
		if end == len(rest) {
			return append(out, rest)
		}
		room = max(width-l.hang, 1)
		at := 1
		if end > 1 {
			at = breakAt(rest, end, room)
		}
		out = append(out, trimEnd(rest[:at]))
		for rest = rest[at:]; len(rest) > 0 && rest[0].text == " "; {
			rest = rest[1:]
		}
	}
}

// breakAt finds where to break cells of which no more than end fit; next is
// the room of the row below.
func breakAt(row []cell, end, next int) int {
	space, part := breaks(row, end)
	// A break far to the left wastes more than it keeps together, but no word
	// is torn that fits into a row.
	fits := wordWidth(row, space) <= next
	switch {
	case space > 0 && (space*3 >= end && fits || space+1 >= end):
		return space
	case part > space && part*3 >= end:
		return part
	case space > 0 && (space*3 >= end || fits && !blank(row[:space])):
		return space
	}
	return end
}

// breaks gives the last space up to end, and the last place inside a word.
func breaks(row []cell, end int) (space, part int) {
	space, part = -1, -1
	hyphen := -1
	for i := 1; i <= end; i++ {
		switch {
		case row[i].text == " ":
			space = i
		case i > 1 && parts(row, i-1, "/:,"):
			part = i
		case i > 1 && parts(row, i-1, "-"):
			hyphen = i
		}
	}
	// Names hold hyphens: between them is the last place to break.
	if part*2 < end {
		part = max(part, hyphen)
	}
	return space, part
}

// wordWidth is the width of the word behind a space.
func wordWidth(row []cell, space int) int {
	word, width := space+1, 0
	for word < len(row) && row[word].text == " " {
		word++
	}
	for ; word < len(row) && row[word].text != " "; word++ {
		width += row[word].width
	}
	return width
}

func blank(row []cell) bool { return len(trimEnd(row)) == 0 }

// parts says whether a word may break after a character of it that is one of
// these.
func parts(row []cell, i int, these string) bool {
	return strings.Contains(these, row[i].text) && row[i-1].text != " " && row[i+1].text != " "
}

func trimEnd(row []cell) []cell {
	for len(row) > 0 && row[len(row)-1].text == " " {
		row = row[:len(row)-1]
	}
	return row
}

// paint joins cells to text, switching colour only where it changes.
func paint(b *strings.Builder, row []cell, color bool) {
	now := plainInk
	for _, c := range row {
		if color && c.ink != now {
			if now != plainInk {
				b.WriteString("\x1b[0m")
			}
			if c.ink != plainInk {
				b.WriteString("\x1b[" + string(c.ink) + "m")
			}
			now = c.ink
		}
		b.WriteString(c.text)
	}
	if now != plainInk {
		b.WriteString("\x1b[0m")
	}
}
