package canonical_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

func TestParseRule(t *testing.T) {
	const in, out, none = canonical.Ingress, canonical.Egress, canonical.NoPort
	tests := map[string]canonical.ParsedRule{
		"tcp 443-443 from 0.0.0.0/0":          {in, "tcp", 443, 443, "0.0.0.0/0"},
		"udp 0-65535 to pl-1":                 {out, "udp", 0, 65535, "pl-1"},
		"all from 111122223333/sg-1":          {in, "-1", none, none, "111122223333/sg-1"},
		"icmp all from ::/0":                  {in, "icmp", none, none, "::/0"},
		"icmp type 8 from 10.0.0.0/8":         {in, "icmp", 8, none, "10.0.0.0/8"},
		"icmpv6 type 3 code 4 from 2001::/16": {in, "icmpv6", 3, 4, "2001::/16"},
		"ipip from sg-1":                      {in, "4", none, none, "sg-1"},
		"200 to sg-1":                         {out, "200", none, none, "sg-1"},
	}
	for words, want := range tests {
		t.Run(words, func(t *testing.T) {
			got, err := canonical.ParseRule(words)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRuleRefuses(t *testing.T) {
	for _, words := range []string{
		"", "tcp", "tcp from sg-1", "tcp 1 from sg-1", "tcp 2-1 from sg-1", "tcp 01-1 from sg-1", "tcp 1-1 at sg-1",
		"all 1-1 from sg-1", "icmp from sg-1", "icmp type from sg-1", "icmp type x from sg-1", "icmp type 1 code from sg-1",
		"TCP 1-1 from sg-1", "6 1-1 from sg-1", "-1 from sg-1", "tcp 1-1 from 10.0.0.1/8", "tcp 1-1 from sg-1\n", "all  from sg-1",
		"tcp 1-1 from nobody",
	} {
		if got, err := canonical.ParseRule(words); err == nil || !strings.Contains(err.Error(), "rule ") {
			t.Errorf("%q: %+v, %v", words, got, err)
		}
	}
}

// FuzzParseRule: whatever Rule says is taken apart to something that Rule says
// in the same words.
func FuzzParseRule(f *testing.F) {
	f.Add(canonical.Ingress, "tcp", int64(1), int64(2), "10.0.0.0/8")
	f.Add(canonical.Egress, "58", int64(3), int64(-1), "::/0")
	f.Add(canonical.Ingress, "-1", int64(-1), int64(-1), "sg-1")
	f.Add(canonical.Ingress, "icmp", int64(-1), int64(4), "111122223333/sg-1")
	f.Add(canonical.Egress, "50", int64(500), int64(500), "pl-1")
	f.Fuzz(func(t *testing.T, direction, protocol string, from, to int64, peer string) {
		words, _, err := canonical.Rule(direction, protocol, from, to, peer)
		if err != nil || strings.ContainsAny(canonical.Protocol(protocol), " \t\n") {
			t.Skip()
		}
		r, err := canonical.ParseRule(words)
		if err != nil {
			t.Fatalf("Rule(%q, %q, %d, %d, %q) says %q, which ParseRule refuses: %v", direction, protocol, from, to, peer, words, err)
		}
		again, _, err := canonical.Rule(r.Direction, r.Protocol, r.From, r.To, r.Peer)
		if err != nil || again != words {
			t.Errorf("%q became %q, %v", words, again, err)
		}
	})
}
