package canonical

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsedRule is a rule taken apart again, in the words of EC2's IpPermission.
type ParsedRule struct {
	// Direction is [Ingress] or [Egress].
	Direction string
	// Protocol is a name or a number that EC2 takes: "tcp", "-1", "4".
	Protocol string
	// From and To are the port range, or type and code for ICMP, [NoPort]
	// where there is none.
	From, To int64
	// Peer is a CIDR, a security group id (ACCOUNT/ID of another account) or a
	// prefix list id.
	Peer string
}

// protocolNumbers are the IANA numbers of the words that EC2 takes only as
// numbers (IpPermission, IpProtocol: names for tcp, udp, icmp and icmpv6).
var protocolNumbers = map[string]string{
	ProtocolAll: "-1", "ipip": "4", "gre": "47", "esp": "50", "ah": "51", "sctp": "132",
}

// ParseRule is the inverse of [Rule]: it takes the words of a rule apart, so
// that Rule of the parts gives the same words. It refuses what Rule does not
// say.
func ParseRule(words string) (ParsedRule, error) {
	fail := func(why string) (ParsedRule, error) {
		return ParsedRule{}, fmt.Errorf("rule %q: %s", words, why)
	}
	parts := strings.Split(words, " ")
	if len(parts) < 3 {
		return fail("want PROTOCOL [PORTS] from|to PEER")
	}
	r := ParsedRule{From: NoPort, To: NoPort, Peer: parts[len(parts)-1]}
	switch parts[len(parts)-2] {
	case "from":
		r.Direction = Ingress
	case "to":
		r.Direction = Egress
	default:
		return fail("neither from nor to before its peer")
	}
	protocol, limits := parts[0], parts[1:len(parts)-2]
	if err := r.limit(protocol, limits); err != nil {
		return fail(err.Error())
	}
	r.Protocol = protocol
	if number, ok := protocolNumbers[protocol]; ok {
		r.Protocol = number
	}
	if again, _, err := Rule(r.Direction, r.Protocol, r.From, r.To, r.Peer); err != nil || again != words {
		return fail("not the canonical words of any rule")
	}
	return r, nil
}

// limit reads what stands between protocol and direction.
func (r *ParsedRule) limit(protocol string, limits []string) error {
	switch {
	case protocol == ProtocolTCP || protocol == ProtocolUDP:
		if len(limits) != 1 {
			return fmt.Errorf("%s needs one range of ports", protocol)
		}
		from, to, _ := strings.Cut(limits[0], "-")
		return r.numbers(from, to)
	case protocol != ProtocolICMP && protocol != ProtocolICMPv6:
		if len(limits) > 0 {
			return fmt.Errorf("%s has no ports", protocol)
		}
		return nil
	case len(limits) == 1 && limits[0] == "all":
		return nil
	case (len(limits) == 2 || len(limits) == 4 && limits[2] == "code") && limits[0] == "type":
		if len(limits) == 2 {
			return r.numbers(limits[1])
		}
		return r.numbers(limits[1], limits[3])
	default:
		return fmt.Errorf("want all, type N, or type N code N")
	}
}

// numbers reads From, and To if it is given.
func (r *ParsedRule) numbers(texts ...string) error {
	for i, into := range []*int64{&r.From, &r.To}[:len(texts)] {
		n, err := strconv.ParseInt(texts[i], 10, 64)
		if err != nil {
			return err
		}
		*into = n
	}
	return nil
}
