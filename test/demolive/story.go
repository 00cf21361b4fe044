package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/report"
)

// story writes what happens, a line each.
type story struct {
	style report.Style
	begun time.Time
	// lost is called when nobody reads any more.
	lost func()

	mu  sync.Mutex
	out io.Writer
	n   int
}

// Who or what a line is about: the first word of it.
const (
	byOperator = "operator"
	byCloud    = "cloud"
	condition  = "condition"
	event      = "event"
	decision   = "decision"
	held       = "held"
	approval   = "approval"
	repair     = "repair"
	replace    = "replace"
	verify     = "verify"
	verified   = "verified"
)

// colours of the first words (ECMA-48 SGR).
var colours = map[string]string{
	byOperator: "35", byCloud: "35", condition: "33", event: "33", decision: "36", held: "33",
	approval: "35", repair: "36", replace: "36", verify: "36", verified: "32",
}

const (
	// margin is what stands before a line's text: time and first word.
	margin = 20
	// maxLine and maxText bound what one value and one line may take up.
	maxText      = 600
	defaultWidth = 110
)

// clean makes what clouds and objects say inert; see [providers.Cleaner].
func clean(s string) string { return providers.Cleaner{Max: maxText}.Clean(s) }

// lines cleans a text and keeps its lines.
func lines(s string) string {
	parts := strings.Split(s, "\n")
	for i := range parts {
		parts[i] = providers.Cleaner{Max: 4 * maxText}.Clean(strings.ReplaceAll(parts[i], "\t", "    "))
	}
	return strings.Join(parts, "\n")
}

// say writes a line as it is, cleaned.
func (s *story) say(format string, args ...any) {
	s.write(lines(fmt.Sprintf(format, args...)) + "\n")
}

func (s *story) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := io.WriteString(s.out, text); err != nil {
		s.lost()
	}
}

func (s *story) paint(code, text string) string {
	if !s.style.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// chapter begins the next step.
func (s *story) chapter(format string, args ...any) {
	s.n++
	s.write("\n" + s.paint("1", clean(fmt.Sprintf("%d. ", s.n)+fmt.Sprintf(format, args...))) + "\n\n")
}

// tell writes one line of the story, folded to the width of the terminal.
func (s *story) tell(word, format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	width := s.style.Width
	if width == 0 {
		width = defaultWidth
	}
	folded := fold(text, max(width-margin, 40))
	head := fmt.Sprintf("%6.1fs  ", time.Since(s.begun).Seconds()) + s.paint(colours[word], fmt.Sprintf("%-*s", margin-9, word))
	s.write(head + strings.Join(folded, "\n"+strings.Repeat(" ", margin)) + "\n")
}

// fold breaks a text at spaces. A word that is longer than a line stands alone.
func fold(text string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(out, line)
}

func (s *story) end() {
	s.say("")
	s.say("Done in %.0f s. Everything that was started has been stopped.", time.Since(s.begun).Seconds())
}
