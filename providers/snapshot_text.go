package providers

import (
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// inert writes JSON so that it does nothing to whoever looks at it: what would
// steer a terminal or change the order of reading becomes a \u escape, which
// JSON allows in strings, and nothing outside of strings needs it. A write has
// to end between two characters, as those of json.Encoder do.
type inert struct{ to io.Writer }

func (w inert) Write(text []byte) (int, error) {
	clean := true
	for _, c := range text {
		clean = clean && c < 0x7f
	}
	out := text
	if !clean {
		out = escapeUnprintable(text)
	}
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

func escapeUnprintable(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n', strconv.IsPrint(r):
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}
