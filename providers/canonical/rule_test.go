package canonical_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

func TestProtocol(t *testing.T) {
	tests := map[string]string{
		"6": "tcp", "TCP": "tcp", " tcp ": "tcp", "06": "tcp",
		"17": "udp", "Udp": "udp",
		"1": "icmp", "58": "icmpv6", "ICMPv6": "icmpv6",
		"-1": "all", "all": "all", "": "all", "ANY": "all",
		"4": "ipip", "50": "esp", "132": "sctp",
		"200": "200", "0200": "200",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			if got := canonical.Protocol(in); got != want {
				t.Errorf("Protocol(%q) = %q, want %q", in, got, want)
			}
		})
	}
}

func TestRule(t *testing.T) {
	const in, out, none = canonical.Ingress, canonical.Egress, canonical.NoPort
	type args struct {
		direction, protocol string
		from, to            int64
		peer                string
	}
	tests := map[string]struct {
		args   args
		want   string
		warned bool
		err    string
	}{
		"tcp port":                 {args{in, "tcp", 443, 443, "0.0.0.0/0"}, "tcp 443-443 from 0.0.0.0/0", false, ""},
		"number for tcp":           {args{in, "6", 443, 443, "0.0.0.0/0"}, "tcp 443-443 from 0.0.0.0/0", false, ""},
		"egress":                   {args{out, "udp", 53, 53, "10.0.0.0/8"}, "udp 53-53 to 10.0.0.0/8", false, ""},
		"host bits":                {args{out, "udp", 53, 53, "10.9.8.7/8"}, "udp 53-53 to 10.0.0.0/8", false, ""},
		"all from a group":         {args{in, "-1", none, none, "sg-1"}, "all from sg-1", false, ""},
		"group of another account": {args{in, "-1", none, none, "111122223333/sg-1"}, "all from 111122223333/sg-1", false, ""},
		"prefix list":              {args{out, "tcp", 0, 65535, "pl-63a5400a"}, "tcp 0-65535 to pl-63a5400a", false, ""},
		"IPv6":                     {args{in, "tcp", 22, 22, "2001:DB8:0::1/32"}, "tcp 22-22 from 2001:db8::/32", false, ""},
		"tcp without ports":        {args{in, "tcp", none, none, "sg-1"}, "tcp 0-65535 from sg-1", false, ""},
		"tcp port zero":            {args{in, "tcp", 0, 0, "sg-1"}, "tcp 0-0 from sg-1", false, ""},
		"icmp type and code":       {args{in, "icmp", 3, 4, "10.0.0.0/8"}, "icmp type 3 code 4 from 10.0.0.0/8", false, ""},
		"icmp type":                {args{in, "1", 8, none, "10.0.0.0/8"}, "icmp type 8 from 10.0.0.0/8", false, ""},
		"icmp":                     {args{in, "icmp", none, none, "10.0.0.0/8"}, "icmp all from 10.0.0.0/8", false, ""},
		"icmp code alone":          {args{in, "icmp", none, 4, "10.0.0.0/8"}, "icmp all from 10.0.0.0/8", true, ""},
		"icmpv6":                   {args{in, "58", none, none, "::/0"}, "icmpv6 all from ::/0", false, ""},
		"ip in ip":                 {args{in, "4", none, 65535, "sg-1"}, "ipip from sg-1", false, ""},
		"esp with a port":          {args{in, "50", 500, 500, "sg-1"}, "esp from sg-1", true, ""},
		"unknown protocol":         {args{in, "200", none, none, "sg-1"}, "200 from sg-1", false, ""},
		"no direction":             {args{"", "tcp", 1, 2, "sg-1"}, "", false, "direction"},
		"ports reversed":           {args{in, "tcp", 2, 1, "sg-1"}, "", false, "ports 2-1"},
		"port too high":            {args{in, "tcp", 1, 70000, "sg-1"}, "", false, "ports 1-70000"},
		"half a range":             {args{in, "tcp", none, 80, "sg-1"}, "", false, "ports -1-80"},
		"icmp type too high":       {args{in, "icmp", 300, 0, "sg-1"}, "", false, "type 300"},
		"bare address":             {args{in, "tcp", 1, 1, "10.0.0.1"}, "", false, `peer "10.0.0.1"`},
		"empty peer":               {args{in, "tcp", 1, 1, ""}, "", false, `peer ""`},
		"group without id":         {args{in, "tcp", 1, 1, "sg-"}, "", false, `peer "sg-"`},
		"group with words after":   {args{in, "tcp", 1, 1, "sg-1 from sg-2"}, "", false, "peer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := tt.args
			got, warning, err := canonical.Rule(a.direction, a.protocol, a.from, a.to, a.peer)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error = %v, want one with %q", err, tt.err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tt.want || (warning != "") != tt.warned {
				t.Errorf("got %q with warning %q, want %q, warned %v", got, warning, tt.want, tt.warned)
			}
		})
	}
}

// C02: protocol -1 has no ports, whatever the spec says.
func TestC02AllProtocolsHasNoPorts(t *testing.T) {
	live, _, err := canonical.Rule(canonical.Ingress, "-1", canonical.NoPort, canonical.NoPort, "10.0.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		from, to int64
		warned   bool
	}{
		"a port limit": {8080, 8080, true},
		"all ports":    {0, 65535, false},
		"unset":        {-1, -1, false},
		"zero":         {0, 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			words, warning, err := canonical.Rule(canonical.Ingress, "-1", tt.from, tt.to, "10.0.0.0/16")
			if err != nil {
				t.Fatal(err)
			}
			if words != live {
				t.Errorf("got %q, the cloud has %q", words, live)
			}
			if (warning != "") != tt.warned {
				t.Errorf("warning %q, want one: %v", warning, tt.warned)
			}
		})
	}
}

// C04: three tcp/443 rules with one CIDR each, one listed twice, against one
// permission that holds those CIDRs in another order.
func TestC04RulesExplodePerPeer(t *testing.T) {
	explode := func(protocol string, peers ...string) []string {
		var out []string
		for _, p := range peers {
			words, _, err := canonical.Rule(canonical.Ingress, protocol, 443, 443, p)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, words)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	want := explode("tcp", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.2.0.0/16")
	have := explode("6", "10.3.0.0/16", "10.1.0.0/16", "10.2.0.0/16")
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("equal rules differ (-want +have):\n%s", diff)
	}
}

// C05: a rule made again by hand with another description is the same rule:
// a description has no way into the words.
func TestC05DescriptionIsNoIdentity(t *testing.T) {
	seen := map[string]bool{}
	for _, description := range []string{"NFS", "made by hand", ""} {
		words, _, err := canonical.Rule(canonical.Ingress, "tcp", 2049, 2049, "sg-1")
		if err != nil {
			t.Fatal(err)
		}
		if description != "" && strings.Contains(words, description) {
			t.Errorf("words %q carry the description %q", words, description)
		}
		seen[words] = true
	}
	if len(seen) != 1 {
		t.Errorf("one rule has %d identities", len(seen))
	}
}

func FuzzProtocol(f *testing.F) {
	for _, s := range []string{"6", "-1", "TCP", "", "ip-in-ip", "+6", "\u2028tcp"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := canonical.Protocol(s)
		if twice := canonical.Protocol(once); twice != once {
			t.Errorf("Protocol(%q) = %q, again %q", s, once, twice)
		}
	})
}

func FuzzPeer(f *testing.F) {
	for _, s := range []string{"10.0.0.1/8", "sg-1", "pl-1", "1/sg-1", "::ffff:1.2.3.4/120"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { idempotent(t, canonical.Peer, s) })
}

func FuzzRule(f *testing.F) {
	f.Add("ingress", "tcp", int64(1), int64(2), "sg-1")
	f.Add("egress", "-1", int64(-1), int64(-1), "::/0")
	f.Fuzz(func(t *testing.T, direction, protocol string, from, to int64, peer string) {
		words, _, err := canonical.Rule(direction, protocol, from, to, peer)
		if err != nil {
			if words != "" {
				t.Errorf("words %q beside error %v", words, err)
			}
			return
		}
		canonicalPeer, err := canonical.Peer(peer)
		if err != nil {
			t.Fatalf("rule %q took the peer, Peer refuses it: %v", words, err)
		}
		again, _, err := canonical.Rule(direction, canonical.Protocol(protocol), from, to, canonicalPeer)
		if err != nil || again != words {
			t.Errorf("canonical arguments give %q, %v; want %q", again, err, words)
		}
	})
}

// idempotent checks that what a canonicaliser gives, it takes and keeps.
func idempotent(t *testing.T, canon func(string) (string, error), s string) {
	t.Helper()
	once, err := canon(s)
	if err != nil {
		if once != "" {
			t.Errorf("%q gives %q beside error %v", s, once, err)
		}
		return
	}
	twice, err := canon(once)
	if err != nil || twice != once {
		t.Errorf("%q gives %q, and that %q, %v", s, once, twice, err)
	}
}
