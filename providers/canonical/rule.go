package canonical

import (
	"fmt"
	"strconv"
	"strings"
)

// Protocol words. EC2 takes names for four protocols and numbers for all
// (IpPermission, IpProtocol); network ACLs know numbers only.
const (
	ProtocolAll    = "all"
	ProtocolTCP    = "tcp"
	ProtocolUDP    = "udp"
	ProtocolICMP   = "icmp"
	ProtocolICMPv6 = "icmpv6"
)

const maxPort = 65535

// protocolNames are IANA protocol numbers and other spellings of those
// protocols that security groups of Cluster API clusters use.
var protocolNames = map[string]string{
	"-1": ProtocolAll, "": ProtocolAll, "any": ProtocolAll, "*": ProtocolAll,
	"1": ProtocolICMP, "4": "ipip", "ip-in-ip": "ipip", "ipencap": "ipip",
	"6": ProtocolTCP, "17": ProtocolUDP, "47": "gre", "50": "esp", "51": "ah",
	"58": ProtocolICMPv6, "icmp6": ProtocolICMPv6, "ipv6-icmp": ProtocolICMPv6,
	"132": "sctp",
}

// Protocol gives the one word for a protocol's name or number: "6" and "TCP"
// are "tcp", "-1" is "all". A number without a well-known name stays a number.
func Protocol(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if n, err := strconv.Atoi(s); err == nil {
		s = strconv.Itoa(n) // "06" is 6
	}
	if name, ok := protocolNames[s]; ok {
		return name
	}
	return s
}

// Directions of a rule.
const (
	Ingress = "ingress"
	Egress  = "egress"
)

// NoPort stands for a port, ICMP type or ICMP code that was not given.
const NoPort int64 = -1

// Rule gives the words for one security group rule towards one peer, which
// are its identity: "tcp 443-443 from 0.0.0.0/0", "all from sg-1",
// "udp 53-53 to 10.0.0.0/8", "icmp type 3 code 4 from 10.0.0.0/8". Callers
// split a permission with several peers into one rule each. The description
// is no part of it: EC2 refuses a second rule that differs in description
// only (AuthorizeSecurityGroupIngress, InvalidPermission.Duplicate).
//
// direction is [Ingress] or [Egress]; from and to are the port range, or type
// and code for ICMP, [NoPort] where absent; the peer is what [Peer] takes.
// The warning names a limit that the cloud will not apply: with -1, or a
// protocol number other than TCP, UDP and ICMP, EC2 allows all ports whatever
// range is given (IpPermission, IpProtocol).
func Rule(direction, protocol string, from, to int64, peer string) (words, warning string, err error) {
	word, err := directionWord(direction)
	if err != nil {
		return "", "", err
	}
	protocol = Protocol(protocol)
	peer, err = Peer(peer)
	if err != nil {
		return "", "", fmt.Errorf("%s rule for %s: %w", direction, protocol, err)
	}
	what, warning, err := traffic(protocol, from, to)
	if err != nil {
		return "", "", fmt.Errorf("%s rule %s %s: %w", direction, word, peer, err)
	}
	return what + " " + word + " " + peer, warning, nil
}

func directionWord(direction string) (string, error) {
	switch direction {
	case Ingress:
		return "from", nil
	case Egress:
		return "to", nil
	default:
		return "", fmt.Errorf("direction %q is neither %s nor %s", direction, Ingress, Egress)
	}
}

func traffic(protocol string, from, to int64) (words, warning string, err error) {
	switch protocol {
	case ProtocolTCP, ProtocolUDP:
		ports, err := portRange(from, to)
		return protocol + " " + ports, "", err
	case ProtocolICMP, ProtocolICMPv6:
		return icmp(protocol, from, to)
	default:
		if limitsPorts(from, to) {
			warning = fmt.Sprintf("the port limit %d-%d on protocol %s has no effect: all ports are allowed", from, to, protocol)
		}
		return protocol, warning, nil
	}
}

// limitsPorts reports whether a range says less than "every port". 0-0 counts
// as unset: both EC2's console and Cluster API defaults write it so.
func limitsPorts(from, to int64) bool {
	unset := from <= 0 && to <= 0
	full := from <= 0 && to >= maxPort
	return !unset && !full
}

func portRange(from, to int64) (string, error) {
	if from == NoPort && to == NoPort {
		from, to = 0, maxPort
	}
	if from < 0 || to > maxPort || from > to {
		return "", fmt.Errorf("ports %d-%d are not a range within 0-%d", from, to, maxPort)
	}
	return fmt.Sprintf("%d-%d", from, to), nil
}

// icmp words leave out what is not limited. EC2 demands code -1 with type -1,
// so a code there limits nothing.
func icmp(protocol string, kind, code int64) (words, warning string, err error) {
	const maxType = 255
	if kind < NoPort || kind > maxType || code < NoPort || code > maxType {
		return "", "", fmt.Errorf("%s type %d code %d: each is -1 or within 0-%d", protocol, kind, code, maxType)
	}
	switch {
	case kind == NoPort && code == NoPort:
		return protocol + " all", "", nil
	case kind == NoPort:
		return protocol + " all", fmt.Sprintf("%s code %d without a type has no effect: all types are allowed", protocol, code), nil
	case code == NoPort:
		return fmt.Sprintf("%s type %d", protocol, kind), "", nil
	default:
		return fmt.Sprintf("%s type %d code %d", protocol, kind, code), "", nil
	}
}

// Peer gives the canonical form of a rule's other end: a CIDR of either
// family, a security group id (with the account in front where it is another
// one's: "111122223333/sg-1") or a prefix list id.
func Peer(s string) (string, error) {
	trimmed := strings.TrimSpace(s)
	id := trimmed
	if account, rest, ok := strings.Cut(trimmed, "/"); ok && isDigits(account) && strings.HasPrefix(rest, "sg-") {
		id = rest
	}
	for _, prefix := range []string{"sg-", "pl-"} {
		if rest, ok := strings.CutPrefix(id, prefix); ok && isWord(rest) {
			return trimmed, nil
		}
	}
	cidr, err := CIDR(trimmed)
	if err != nil {
		return "", fmt.Errorf("peer %q is neither a CIDR, nor a security group id, nor a prefix list id", s)
	}
	return cidr, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// isWord reports whether s is letters, digits and dashes only.
func isWord(s string) bool {
	letterOrDigit := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	for _, r := range s {
		if !letterOrDigit(r) && r != '-' {
			return false
		}
	}
	return s != ""
}
