package providers

import "regexp"

// userinfo is the part of a URL that may hold a name and a password (RFC 3986,
// section 3.2.1), as it stands in a text. A password may hold an @ itself.
var userinfo = regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*@`)

// Redact takes the credentials out of the URLs in a text. Clients quote the
// addresses that they cannot use, such as an endpoint or a proxy of the
// environment; what quotes an error passes it through this.
func Redact(s string) string { return userinfo.ReplaceAllString(s, "${1}***@") }

// begun is a userinfo that the end of a text may have cut in half.
var begun = regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*$`)

// RedactWithin is [Redact] of the first bytes of a text that may be long. What
// could be the half of a credential that the cut goes through is taken out too:
// the half alone would not be recognised.
func RedactWithin(s string, most int) string {
	if len(s) <= most {
		return Redact(s)
	}
	return begun.ReplaceAllString(Redact(s[:most]), "${1}***")
}
