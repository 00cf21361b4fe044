package canonical_test

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

func TestCIDR(t *testing.T) {
	checkCanon(t, canonical.CIDR, map[string]string{
		"10.0.0.0/16":         "10.0.0.0/16",
		"10.0.3.4/16":         "10.0.0.0/16",
		" 10.0.0.0/16\n":      "10.0.0.0/16",
		"0.0.0.0/0":           "0.0.0.0/0",
		"2001:DB8::/32":       "2001:db8::/32",
		"2001:db8:0:0::1/64":  "2001:db8::/64",
		"::ffff:10.1.2.3/112": "10.1.0.0/16",
		"::/0":                "::/0",
		"10.0.0.1":            "",
		"10.0.0.0/33":         "",
		"10.0.0.0/08":         "",
		"010.0.0.0/8":         "",
		"":                    "",
		"fe80::1%eth0/64":     "",
	})
}

func TestIP(t *testing.T) {
	checkCanon(t, canonical.IP, map[string]string{
		"192.168.4.21":    "192.168.4.21",
		"192.168.4.21/24": "192.168.4.21",
		"2001:DB8:0:0::1": "2001:db8::1",
		"2001:db8::1/64":  "2001:db8::1",
		"fe80::1%eth0":    "fe80::1",
		"::ffff:10.0.0.1": "10.0.0.1",
		"localhost":       "",
		"":                "",
		"10.0.0":          "",
	})
}

func TestMAC(t *testing.T) {
	checkCanon(t, canonical.MAC, map[string]string{
		"00:50:56:9A:01:02":       "00:50:56:9a:01:02",
		"00-50-56-9a-01-02":       "00:50:56:9a:01:02",
		"0050.569a.0102":          "00:50:56:9a:01:02",
		"00:50:56:9a:01":          "",
		"00:00:00:00:fe:80:00:01": "",
		"":                        "",
	})
}

func FuzzCIDR(f *testing.F) {
	f.Add("10.0.0.1/8")
	f.Add("::ffff:1.2.3.4/120")
	f.Fuzz(func(t *testing.T, s string) { idempotent(t, canonical.CIDR, s) })
}

func FuzzIP(f *testing.F) {
	f.Add("10.0.0.1/8")
	f.Add("fe80::1%eth0")
	f.Fuzz(func(t *testing.T, s string) { idempotent(t, canonical.IP, s) })
}

func FuzzMAC(f *testing.F) {
	f.Add("0050.569a.0102")
	f.Fuzz(func(t *testing.T, s string) { idempotent(t, canonical.MAC, s) })
}

// checkCanon runs a table of spellings; an empty wanted value is an error that
// must name the input.
func checkCanon(t *testing.T, canon func(string) (string, error), table map[string]string) {
	t.Helper()
	for in, want := range table {
		t.Run(in, func(t *testing.T) {
			got, err := canon(in)
			if want == "" {
				if err == nil {
					t.Fatalf("got %q, want an error", got)
				}
				if in != "" && !strings.Contains(err.Error(), in) {
					t.Errorf("error %q does not name the input", err)
				}
				return
			}
			if err != nil || got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
			idempotent(t, canon, in)
		})
	}
}
