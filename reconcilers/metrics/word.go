package metrics

import (
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// maxWord bounds a label's value. Names of Kubernetes objects have at most 253
// characters.
const maxWord = 253

// word makes a text fit to be a label's value: Prometheus takes UTF-8 alone.
// The text is a name of ours or of the API server; no cloud's text comes here.
func word(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxWord {
		return s
	}
	return strings.ToValidUTF8(s[:maxWord], "")
}

// sinkName gives the package of a sink: status, remediation, notify.
func sinkName(s sweep.Sink) string {
	name := strings.TrimLeft(fmt.Sprintf("%T", s), "*")
	pkg, _, _ := strings.Cut(name, ".")
	return word(pkg)
}

// other stands for codes that are not in order, or too many.
const other = "Other"

// maxCodes bounds the error codes of one cloud. They come from the cloud's
// answers, and an endpoint may be anybody's.
const maxCodes = 100

// codes keeps a cloud's error codes to a bounded number of plain words.
type codes map[string]bool

func (c codes) word(code string) string {
	switch {
	case code == "" || c[code]:
		return code
	case len(code) > 64 || strings.ContainsFunc(code, notInCode) || len(c) >= maxCodes:
		return other
	}
	c[code] = true
	return code
}

func notInCode(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}
