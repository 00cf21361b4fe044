package ec2sim

import (
	"slices"
	"strconv"
	"strings"
)

// ruleKey is what makes a rule that rule; its description is not part of it.
type ruleKey struct {
	egress            bool
	protocol          string
	from, to          int
	cidr, cidr6       string
	prefixList, group string
}

// groupRule is one rule with one peer, as the rules API shows it.
type groupRule struct {
	meta
	key         ruleKey
	groupID     string
	description string
}

func (c *call) newRule(g *securityGroup, key ruleKey, description string, tags []Tag) *groupRule {
	return &groupRule{meta: c.newMeta(c.now, c.newID("sgr"), tags), key: key, groupID: g.id, description: description}
}

// permission is an IpPermission: rules of equal protocol and ports together.
type permission struct {
	IPProtocol    string
	FromPort      *int
	ToPort        *int
	Groups        []groupPeer
	IPRanges      []rangePeer
	IPv6Ranges    []range6Peer `wire:"ipv6Ranges"`
	PrefixListIDs []prefixPeer
}

type groupPeer struct{ UserID, GroupID, Description string }

type rangePeer struct{ CIDRIP, Description string }

type range6Peer struct {
	CIDRIPv6    string `wire:"cidrIpv6"`
	Description string
}

type prefixPeer struct{ PrefixListID, Description string }

// merge makes the merged form from the rules, in the order of the rules.
func (g *securityGroup) merge(owner string) {
	g.IPPermissions, g.IPPermissionsEgress = nil, nil
	for _, r := range g.rules {
		list := &g.IPPermissions
		if r.key.egress {
			list = &g.IPPermissionsEgress
		}
		at := slices.IndexFunc(*list, func(p permission) bool { return p.matches(r.key) })
		if at < 0 {
			p := permission{IPProtocol: r.key.protocol}
			if r.key.protocol != "-1" {
				p.FromPort, p.ToPort = &r.key.from, &r.key.to
			}
			*list = append(*list, p)
			at = len(*list) - 1
		}
		p := &(*list)[at]
		switch {
		case r.key.cidr != "":
			p.IPRanges = append(p.IPRanges, rangePeer{r.key.cidr, r.description})
		case r.key.cidr6 != "":
			p.IPv6Ranges = append(p.IPv6Ranges, range6Peer{r.key.cidr6, r.description})
		case r.key.prefixList != "":
			p.PrefixListIDs = append(p.PrefixListIDs, prefixPeer{r.key.prefixList, r.description})
		default:
			p.Groups = append(p.Groups, groupPeer{owner, r.key.group, r.description})
		}
	}
}

func (p permission) matches(key ruleKey) bool {
	if p.IPProtocol != key.protocol {
		return false
	}
	return p.FromPort == nil || *p.FromPort == key.from && *p.ToPort == key.to
}

// permissionIn is an IpPermission of a request.
type permissionIn struct {
	IPProtocol string
	FromPort   *int
	ToPort     *int
	Groups     []struct{ UserID, GroupID, GroupName, VPCID, Description, VPCPeeringConnectionID string }
	IPRanges   []rangePeer
	IPv6Ranges []struct {
		CIDRIPv6    string `wire:"CidrIpv6"`
		Description string
	} `wire:"Ipv6Ranges"`
	PrefixListIDs []prefixPeer
}

// wantedRule is a rule of a request.
type wantedRule struct {
	key         ruleKey
	description string
}

var protocolNames = map[string]string{"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}

// explode gives the permission's rules in the canonical form that EC2 keeps:
// protocol names, masked CIDRs, no ports for all protocols.
func (c *call) explode(in permissionIn, egress bool) ([]wantedRule, *apiError) {
	base, err := portsOf(in)
	if err != nil {
		return nil, err
	}
	base.egress = egress
	var rules []wantedRule
	for _, peer := range in.IPRanges {
		block, err := parseBlock("cidrIp", peer.CIDRIP)
		if err != nil || !block.Addr().Is4() {
			return nil, failf("InvalidParameterValue", "CIDR block %s is malformed", peer.CIDRIP)
		}
		key := base
		key.cidr = block.String()
		rules = append(rules, wantedRule{key, peer.Description})
	}
	for _, peer := range in.IPv6Ranges {
		block, err := parseBlock("cidrIpv6", peer.CIDRIPv6)
		if err != nil || !block.Addr().Is6() {
			return nil, failf("InvalidParameterValue", "CIDR block %s is malformed", peer.CIDRIPv6)
		}
		key := base
		key.cidr6 = block.String()
		rules = append(rules, wantedRule{key, peer.Description})
	}
	for _, peer := range in.PrefixListIDs {
		key := base
		key.prefixList = peer.PrefixListID
		rules = append(rules, wantedRule{key, peer.Description})
	}
	for _, peer := range in.Groups {
		other, err := c.groups.get(c, "groupId", peer.GroupID)
		if err != nil {
			return nil, err
		}
		key := base
		key.group = other.id
		rules = append(rules, wantedRule{key, peer.Description})
	}
	for _, rule := range rules {
		if len(rule.description) > 255 || strings.ContainsAny(rule.description, "<>\n") {
			return nil, failf("InvalidParameterValue", "Invalid rule description: %q", rule.description)
		}
	}
	return rules, nil
}

func portsOf(in permissionIn) (ruleKey, *apiError) {
	key := ruleKey{protocol: strings.ToLower(in.IPProtocol), from: -1, to: -1}
	if name, numbered := protocolNames[key.protocol]; numbered {
		key.protocol = name
	}
	if key.protocol == "" {
		return key, missing("ipProtocol")
	}
	if n, err := strconv.Atoi(key.protocol); err == nil && (n < -1 || n > 255) {
		return key, failf("InvalidParameterValue", "Invalid value '%s' for IP protocol. Unknown protocol.", in.IPProtocol)
	}
	switch key.protocol {
	case "-1":
		return key, nil // its ports are ignored and not shown (AuthorizeSecurityGroupIngress, IpProtocol)
	case "tcp", "udp":
		if in.FromPort == nil || in.ToPort == nil {
			return key, failf("InvalidParameterValue", "Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
		}
		key.from, key.to = *in.FromPort, *in.ToPort
		if key.from == -1 && key.to == -1 {
			key.from, key.to = 0, 65535
		}
		if key.from < 0 || key.to > 65535 || key.from > key.to {
			return key, failf("InvalidParameterValue", "Invalid TCP/UDP port range (%d:%d)", key.from, key.to)
		}
	case "icmp", "icmpv6":
		if in.FromPort != nil {
			key.from = *in.FromPort
		}
		if in.ToPort != nil {
			key.to = *in.ToPort
		}
	default:
		if _, err := strconv.Atoi(key.protocol); err != nil {
			return key, failf("InvalidParameterValue", "Invalid value '%s' for IP protocol. Unknown protocol.", in.IPProtocol)
		}
	}
	return key, nil
}
