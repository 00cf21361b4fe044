package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"
)

// Style says what a table may use of the terminal that it goes to.
type Style struct {
	// Width in columns; 0 is 100. Less than 60 counts as 60.
	Width int
	// Color allows ANSI colours.
	Color bool
	// ASCII keeps to ASCII characters.
	ASCII bool
}

// Widths of a table.
const (
	defaultWidth = 100
	minWidth     = 60
	maxWidth     = 140 // longer lines are hard to read
)

func (s Style) width() int {
	if s.Width == 0 {
		return defaultWidth
	}
	return min(max(s.Width, minWidth), maxWidth)
}

// forFile drops what suits a terminal only.
func (s Style) forFile() Style {
	return Style{Width: defaultWidth, ASCII: s.ASCII}
}

// ColorWhen is the value of --color.
type ColorWhen string

// When to use colour.
const (
	ColorAuto   ColorWhen = "auto"
	ColorAlways ColorWhen = "always"
	ColorNever  ColorWhen = "never"
)

// ParseColor reads the value of --color; empty is auto.
func ParseColor(s string) (ColorWhen, error) {
	switch w := ColorWhen(s); w {
	case "":
		return ColorAuto, nil
	case ColorAuto, ColorAlways, ColorNever:
		return w, nil
	}
	return "", fmt.Errorf("--color=%s is not known: want auto, always or never", s)
}

// DetectStyle finds the style for a file that may be a terminal. Colour in
// auto mode needs a terminal, no NO_COLOR (https://no-color.org) and a TERM
// other than dumb. Characters beyond ASCII need a UTF-8 locale (the first of
// LC_ALL, LC_CTYPE and LANG that is set decides, as POSIX says); none set is
// POSIX's own locale, which is ASCII. Windows has no such variables and shows
// UTF-8.
func DetectStyle(out *os.File, when ColorWhen, getenv func(string) string) Style {
	isTerminal := out != nil && term.IsTerminal(int(out.Fd()))
	width := 0
	if isTerminal {
		if columns, _, err := term.GetSize(int(out.Fd())); err == nil {
			width = columns
		}
	}
	return detectStyle(isTerminal, width, when, getenv)
}

func detectStyle(isTerminal bool, width int, when ColorWhen, getenv func(string) string) Style {
	s := Style{Width: width}
	switch when {
	case ColorAlways:
		s.Color = true
	case ColorNever:
	default:
		s.Color = isTerminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	}
	locale := firstOf(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	l := strings.ToLower(locale)
	s.ASCII = !strings.Contains(l, "utf-8") && !strings.Contains(l, "utf8") && runtime.GOOS != "windows"
	return s
}
