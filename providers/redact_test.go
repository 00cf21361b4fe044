package providers

import "testing"

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
