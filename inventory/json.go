package inventory

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// plainJSON makes YAML of JSON. YAML takes nearly all JSON as it is; not the
// escapes \/ and those of surrogate pairs, nor several values in a row, all of
// which kubectl reads. Lines stay where they are. What is no JSON throughout is
// given back as it is, for the YAML parser to judge.
func plainJSON(data []byte) []byte {
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return data
	}
	var out bytes.Buffer
	dec := json.NewDecoder(bytes.NewReader(data))
	end := int64(0)
	for {
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			if rest := bytes.TrimSpace(data[end:]); len(rest) == 0 && end > 0 {
				return out.Bytes()
			}
			return data
		}
		start := dec.InputOffset() - int64(len(value))
		between := data[end:start]
		out.Write(between)
		if end > 0 && !bytes.ContainsRune(between, '\n') {
			out.WriteByte('\n') // a marker must begin a line
		}
		if end > 0 {
			out.WriteString("--- ")
		}
		out.Write(plainEscapes(value))
		end = dec.InputOffset()
	}
}

// plainEscapes replaces the escapes that YAML does not know. A valid JSON value
// holds backslashes in strings only.
func plainEscapes(value []byte) []byte {
	if !bytes.Contains(value, []byte(`\/`)) && !bytes.Contains(value, []byte(`\u`)) {
		return value
	}
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); {
		switch {
		case value[i] != '\\':
			out = append(out, value[i])
			i++
		case value[i+1] == '/':
			out = append(out, '/')
			i += 2
		case value[i+1] == 'u' && utf16.IsSurrogate(unit(value, i)):
			r := utf8.RuneError
			if pair := utf16.DecodeRune(unit(value, i), unit(value, i+6)); pair != utf8.RuneError {
				r = pair
				i += 6
			}
			out = utf8.AppendRune(out, r)
			i += 6
		default:
			out = append(out, value[i], value[i+1])
			i += 2
		}
	}
	return out
}

// unit gives the code unit of an escape \uXXXX at an index, 0 if there is none.
func unit(value []byte, at int) rune {
	if at+6 > len(value) || value[at] != '\\' || value[at+1] != 'u' {
		return 0
	}
	var r rune
	for _, c := range value[at+2 : at+6] {
		digit := rune(c - '0')
		if c >= 'A' {
			digit = rune(c|0x20) - 'a' + 10
		}
		r = r<<4 | digit
	}
	return r
}
