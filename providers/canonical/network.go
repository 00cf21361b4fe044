package canonical

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// mappedBits is the length of the ::ffff:0:0/96 prefix, under which an IPv6
// address spells an IPv4 one (RFC 4291, section 2.5.5.2).
const mappedBits = 96

// CIDR gives a prefix with its host bits cleared, as EC2 stores it
// (AuthorizeSecurityGroupIngress, CreateSubnet), and IPv6 in the form of
// RFC 5952. A bare address is an error, as it is for EC2.
func CIDR(s string) (string, error) {
	p, err := prefix(s)
	if err != nil {
		return "", err
	}
	return p.String(), nil
}

func prefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(strings.TrimSpace(s))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("CIDR %q is not ADDRESS/LENGTH, such as 10.0.0.0/16", s)
	}
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p.Masked(), nil
}

// IP gives an address without zone and prefix length: guest tools report
// fe80::1%eth0, and a vSphere network device's ipAddrs carry the length of
// their segment. IPv6 takes the form of RFC 5952; an IPv4-mapped address is
// the IPv4 address.
func IP(s string) (string, error) {
	trimmed := strings.TrimSpace(s)
	if p, err := netip.ParsePrefix(trimmed); err == nil {
		return p.Addr().Unmap().String(), nil
	}
	a, err := netip.ParseAddr(trimmed)
	if err != nil {
		return "", fmt.Errorf("address %q is neither IPv4 nor IPv6", s)
	}
	return a.WithZone("").Unmap().String(), nil
}

// MAC gives a 48-bit hardware address in lower case with colons, whichever of
// the spellings with colons, dashes or dots came in.
func MAC(s string) (string, error) {
	hw, err := net.ParseMAC(strings.TrimSpace(s))
	if err != nil || len(hw) != 6 {
		return "", fmt.Errorf("MAC address %q is not six bytes, such as 00:50:56:9a:01:02", s)
	}
	return hw.String(), nil
}
