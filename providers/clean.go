package providers

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// marksInARow is how many combining marks may follow one character; more of
// them paint over neighbouring lines.
const marksInARow = 3

// Cleaner makes hostile text inert and visible: what comes from a cloud, or from
// a file that somebody else wrote, passes one before anybody is shown it, in a
// report, a condition, an event or a message. The zero Cleaner bounds nothing
// and keeps what is not ASCII.
type Cleaner struct {
	// Max bounds the result in characters before the note of what was cut; 0
	// is no bound.
	Max int
	// ASCII escapes whatever is not ASCII.
	ASCII bool
}

// Clean gives s on one line, where each character that a reader could not see
// for what it is stands as an escape: \n, \x1b, \u202e, \U000e0041, and \xff
// for a byte that is no UTF-8. It looks at no more of s than it keeps.
func (c Cleaner) Clean(s string) string {
	if c.harmless(s) {
		return s
	}
	var b strings.Builder
	shown, marks := 0, 0
	for at := 0; at < len(s); {
		r, size := utf8.DecodeRuneInString(s[at:])
		var piece string
		switch {
		case r == utf8.RuneError && size <= 1:
			piece = fmt.Sprintf(`\x%02x`, s[at])
		case unicode.Is(unicode.M, r) && marks >= marksInARow, Hidden(r), c.ASCII && r > unicode.MaxASCII:
			piece = escape(r)
		default:
			piece = s[at : at+size]
		}
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		shown += utf8.RuneCountInString(piece)
		if c.Max > 0 && shown > c.Max {
			return b.String() + c.cut(len(s)-at)
		}
		b.WriteString(piece)
		at += size
	}
	return b.String()
}

// cut is the note on what was left out.
func (c Cleaner) cut(bytes int) string {
	dots := "…"
	if c.ASCII {
		dots = "..."
	}
	return fmt.Sprintf("%s [%d more bytes]", dots, bytes)
}

// harmless is the fast path for what nearly all texts are.
func (c Cleaner) harmless(s string) bool {
	if c.Max > 0 && len(s) > c.Max {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func escape(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}

// Hidden says whether a character shows nothing, shows like a space, or acts
// on its surroundings: controls, format characters (bidirectional controls,
// zero width, tags), separators and spaces other than the plain one, private
// use and unassigned code points, and the few letters, marks and symbols that
// are blank (Unicode's Default_Ignorable_Code_Point and the Braille blank).
func Hidden(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true
	case utf8.RuneError:
		return false
	}
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r)
}

// Shape is a text without its words that hold a digit. The reasons of failed
// reads quote errors, with request ids, ports and times that are others in every
// read: what differs in no more than those says the same.
func Shape(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}
