package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// writeJSON writes the contract of `-o json`. Values stay exact, since scripts
// compare them, but the text is inert: whatever would steer a terminal, change
// the reading order or hide is written as a \u escape.
func writeJSON(w io.Writer, r *Report, _ Style) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	_, err := w.Write(escapeHidden(b.Bytes(), surrogates))
	return err
}

// escapeHidden replaces hidden characters by \u escapes. Everything outside of
// the quoted strings of JSON is plain ASCII, so that only strings change, and
// only in their spelling; the control characters below the space are escapes there
// already. beyond spells characters beyond the basic plane;
// where it is nil they stay.
func escapeHidden(text []byte, beyond func(rune) string) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		ascii := 0
		for ascii < len(text) && text[ascii] < 0x7f {
			ascii++
		}
		out = append(out, text[:ascii]...)
		if text = text[ascii:]; len(text) == 0 {
			break
		}
		c, size := utf8.DecodeRune(text)
		switch {
		case !hidden(c), c > 0xffff && beyond == nil:
			out = append(out, text[:size]...)
		case c > 0xffff:
			out = append(out, beyond(c)...)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
		text = text[size:]
	}
	return out
}

// surrogates spells a character beyond the basic plane as JSON does.
func surrogates(c rune) string {
	high, low := utf16.EncodeRune(c)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

// MaxReportBytes bounds what Read takes.
const MaxReportBytes = 512 << 20

// Read reads a report in its JSON form, for --compare. Fields that it does not
// know are passed over: a newer Holdfast may have written them.
func Read(in io.Reader) (*Report, error) {
	data, err := io.ReadAll(io.LimitReader(in, MaxReportBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the previous report: %w", err)
	}
	if len(data) > MaxReportBytes {
		return nil, fmt.Errorf("read the previous report: it is larger than %d bytes", MaxReportBytes)
	}
	r := &Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("read the previous report: it is not the JSON that `-o json` writes: %w", err)
	}
	if r.APIVersion != APIVersion {
		return nil, fmt.Errorf("read the previous report: apiVersion is %q, want %q: compare with a file that `-o json` wrote", r.APIVersion, APIVersion)
	}
	return r, nil
}
