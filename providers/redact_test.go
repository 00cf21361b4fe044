package providers

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "",
		"dial tcp 127.0.0.1:1: refused":        "dial tcp 127.0.0.1:1: refused",
		"parse https://u:p@h/sdk: no":          "parse https://***@h/sdk: no",
		`Post "HTTP://u:p%zz@h:8443/x": EOF`:   `Post "HTTP://***@h:8443/x": EOF`,
		"https://u:p@ss@h":                     "https://***@h",
		"https://h/mail?to=a@b":                "https://h/mail?to=a@b",
		"two: http://a:b@c and socks5://d:e@f": "two: http://***@c and socks5://***@f",
		"ops@example.com":                      "ops@example.com",
	} {
		if got := Redact(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestRedactWithin: wherever a text is cut, nothing of a credential stays.
func TestRedactWithin(t *testing.T) {
	const text = "read https://user:secret@vcenter.example.com:8443/sdk: refused by the proxy"
	for most := range len(text) + 2 {
		got := RedactWithin(text, most)
		for n := 1; n <= len("user:secret"); n++ {
			if part := "user:secret"[:n]; n > 1 && strings.Contains(got, "//"+part) {
				t.Errorf("cut at %d: %q", most, got)
			}
		}
		if len(got) > most+len("***") {
			t.Errorf("cut at %d: %d bytes", most, len(got))
		}
	}
	if got, want := RedactWithin(text, len(text)), Redact(text); got != want {
		t.Errorf("in full: %q, want %q", got, want)
	}
	if got, want := RedactWithin("see https://h/a path and no more", 20), "see https://h/a path"; got != want {
		t.Errorf("without a credential: %q, want %q", got, want)
	}
}
