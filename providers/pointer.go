package providers

import "strings"

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")
var pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")

// Pointer joins segments to a JSON pointer (RFC 6901), escaping each.
func Pointer(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		_, _ = pointerEscaper.WriteString(&b, s)
	}
	return b.String()
}

// Segments splits a JSON pointer into its unescaped segments.
func Segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, p := range parts {
		parts[i] = pointerUnescaper.Replace(p)
	}
	return parts
}
