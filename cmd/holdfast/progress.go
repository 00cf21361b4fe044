package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// progress shows on a terminal, in one line that is written over, what is
// being done. Elsewhere it is silent, so that logs hold no half lines.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

func newProgress(w io.Writer) *progress {
	if f := fileOf(w); f == nil || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return &progress{}
	}
	return &progress{out: w}
}

const clearLine = "\r\x1b[2K"

func (p *progress) say(text string) { p.write(clearLine + legible(text) + " …") }

func (p *progress) clear() { p.write(clearLine) }

func (p *progress) write(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil {
		_, _ = fmt.Fprint(p.out, text)
	}
}

// fileOf gives the file behind a writer, or nil.
func fileOf(w io.Writer) *os.File {
	f, _ := w.(*os.File)
	return f
}
