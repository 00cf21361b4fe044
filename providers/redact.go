package providers

import "regexp"

// userinfo is the part of a URL that may hold a name and a password (RFC 3986,
// section 3.2.1), as it stands in a text. A password may hold an @ itself.
var userinfo = regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*@`)

// Redact takes the credentials out of the URLs in a text. Clients quote the
// addresses that they cannot use, such as an endpoint or a proxy of the
// environment; what quotes an error passes it through this.
func Redact(s string) string { return userinfo.ReplaceAllString(s, "${1}***@") }
