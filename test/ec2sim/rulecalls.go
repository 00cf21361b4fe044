package ec2sim

import (
	"fmt"
	"slices"
	"strings"
)

var groupRuleActions = []*action{
	write("AuthorizeSecurityGroupIngress", func(c *call, in *rulesIn) (rulesOut, *apiError) { return c.authorizeRules(in, false) }),
	write("AuthorizeSecurityGroupEgress", func(c *call, in *rulesIn) (rulesOut, *apiError) { return c.authorizeRules(in, true) }),
	write("RevokeSecurityGroupIngress", func(c *call, in *rulesIn) (rulesOut, *apiError) { return c.revokeRules(in, false) }),
	write("RevokeSecurityGroupEgress", func(c *call, in *rulesIn) (rulesOut, *apiError) { return c.revokeRules(in, true) }),
	write("UpdateSecurityGroupRuleDescriptionsIngress", func(c *call, in *rulesIn) (done, *apiError) { return c.describeRule(in, false) }),
	write("UpdateSecurityGroupRuleDescriptionsEgress", func(c *call, in *rulesIn) (done, *apiError) { return c.describeRule(in, true) }),
	read("DescribeSecurityGroupRules", (*call).describeGroupRules),
	write("ModifySecurityGroupRules", (*call).modifyGroupRules),
}

// rulesIn has the permissions as a list, or one as single parameters.
type rulesIn struct {
	tagSpecs
	GroupID             string
	GroupName           string
	IPPermissions       []permissionIn
	SecurityGroupRuleID []string
	IPProtocol          string
	FromPort            *int
	ToPort              *int
	CIDRIP              string
}

type rulesOut struct {
	Return               bool
	SecurityGroupRuleSet []*ruleItem
}

type ruleItem struct {
	meta                `wire:"-"`
	SecurityGroupRuleID string
	GroupID             string
	GroupOwnerID        string
	IsEgress            bool
	IPProtocol          string
	FromPort            int
	ToPort              int
	CIDRIPv4            string `wire:"cidrIpv4"`
	CIDRIPv6            string `wire:"cidrIpv6"`
	PrefixListID        string
	ReferencedGroupInfo *referencedGroup
	Description         string
	TagSet              tagSet
}

type referencedGroup struct{ GroupID, UserID, VPCID string }

func (c *call) item(r *groupRule) *ruleItem {
	item := &ruleItem{
		SecurityGroupRuleID: r.id, GroupID: r.groupID, GroupOwnerID: c.account.id, IsEgress: r.key.egress,
		IPProtocol: r.key.protocol, FromPort: r.key.from, ToPort: r.key.to, CIDRIPv4: r.key.cidr, CIDRIPv6: r.key.cidr6,
		PrefixListID: r.key.prefixList, Description: r.description, TagSet: r.TagSet,
	}
	item.meta = r.meta
	if r.key.group != "" {
		item.ReferencedGroupInfo = &referencedGroup{GroupID: r.key.group, UserID: c.account.id}
	}
	return item
}

// rulesOf gives the group of a request and the rules that it lists.
func (c *call) rulesOf(in *rulesIn, egress bool) (*securityGroup, []wantedRule, *apiError) {
	if in.GroupID == "" && in.GroupName != "" {
		return nil, nil, failf("InvalidParameterValue", "Groups in a VPC are named by GroupId, not by GroupName '%s'", in.GroupName)
	}
	g, err := c.groups.get(c, "groupId", in.GroupID)
	if err != nil {
		return nil, nil, err
	}
	if in.IPProtocol != "" {
		single := permissionIn{IPProtocol: in.IPProtocol, FromPort: in.FromPort, ToPort: in.ToPort}
		if in.CIDRIP != "" {
			single.IPRanges = []rangePeer{{CIDRIP: in.CIDRIP}}
		}
		in.IPPermissions = append(in.IPPermissions, single)
	}
	var rules []wantedRule
	for _, p := range in.IPPermissions {
		more, err := c.explode(p, egress)
		if err != nil {
			return nil, nil, err
		}
		if len(more) == 0 {
			return nil, nil, failf("MissingParameter", "Missing source specification: include source security group or CIDR information")
		}
		rules = append(rules, more...)
	}
	for i, rule := range rules {
		if slices.ContainsFunc(rules[:i], func(other wantedRule) bool { return other.key == rule.key }) {
			return nil, nil, failf("InvalidParameterValue", "The same permission must not appear multiple times")
		}
	}
	if len(rules) == 0 && len(in.SecurityGroupRuleID) == 0 {
		return nil, nil, failf("MissingParameter", "Either 'ipPermissions' or 'securityGroupRuleIds' should be provided.")
	}
	return g, rules, nil
}

func (g *securityGroup) find(key ruleKey) *groupRule {
	for _, r := range g.rules {
		if r.key == key {
			return r
		}
	}
	return nil
}

func (key ruleKey) peer() string { return key.cidr + key.cidr6 + key.prefixList + key.group }

// authorizeRules adds all rules or, if one exists, none.
func (c *call) authorizeRules(in *rulesIn, egress bool) (out rulesOut, err *apiError) {
	tags, err := in.tagsFor("security-group-rule")
	if err != nil {
		return out, err
	}
	g, rules, err := c.rulesOf(in, egress)
	if err != nil {
		return out, err
	}
	for _, rule := range rules {
		if g.find(rule.key) != nil {
			ports := "ALL"
			if rule.key.protocol != "-1" {
				ports = fmt.Sprintf("%s, from port: %d, to port: %d", strings.ToUpper(rule.key.protocol), rule.key.from, rule.key.to)
			}
			return out, failf("InvalidPermission.Duplicate", `the specified rule "peer: %s, %s, ALLOW" already exists`, rule.key.peer(), ports)
		}
	}
	out.Return = true
	for _, rule := range rules {
		added := c.newRule(g, rule.key, rule.description, tags)
		g.rules = append(g.rules, added)
		out.SecurityGroupRuleSet = append(out.SecurityGroupRuleSet, c.item(added))
	}
	g.merge(c.account.id)
	return out, nil
}

// revokeRules removes rules by value or id. One that the group has not is an
// error, and nothing is removed (RevokeSecurityGroupIngress reference: for a
// VPC, the request "returns an error if the values do not match").
func (c *call) revokeRules(in *rulesIn, egress bool) (out rulesOut, err *apiError) {
	g, rules, err := c.rulesOf(in, egress)
	if err != nil {
		return out, err
	}
	var doomed []*groupRule
	for _, id := range in.SecurityGroupRuleID {
		at := slices.IndexFunc(g.rules, func(r *groupRule) bool { return r.id == id && r.key.egress == egress })
		if at < 0 {
			return out, failf("InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '%s' does not exist", id)
		}
		doomed = append(doomed, g.rules[at])
	}
	for _, rule := range rules {
		r := g.find(rule.key)
		if r == nil {
			return out, failf("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
		}
		doomed = append(doomed, r)
	}
	g.rules = slices.DeleteFunc(g.rules, func(r *groupRule) bool { return slices.Contains(doomed, r) })
	g.merge(c.account.id)
	return rulesOut{Return: true}, nil
}

func (c *call) describeRule(in *rulesIn, egress bool) (done, *apiError) {
	g, rules, err := c.rulesOf(in, egress)
	if err != nil {
		return done{}, err
	}
	for _, rule := range rules {
		r := g.find(rule.key)
		if r == nil {
			return done{}, failf("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
		}
		r.description = rule.description
	}
	g.merge(c.account.id)
	return ok()
}

type describeGroupRulesIn struct {
	filterIns
	pageIn
	SecurityGroupRuleID []string
}

type describeGroupRulesOut struct {
	SecurityGroupRuleSet []*ruleItem
	NextToken            string
}

var ruleFilters = filters[*ruleItem]{
	"group-id":               func(r *ruleItem) []string { return []string{r.GroupID} },
	"security-group-rule-id": func(r *ruleItem) []string { return []string{r.SecurityGroupRuleID} },
}

func (c *call) describeGroupRules(in *describeGroupRulesIn) (out describeGroupRulesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, ruleFilters)
	if err != nil {
		return out, err
	}
	all := newTable[*ruleItem](kind{"sgr", "security group rule ID", "InvalidSecurityGroupRuleId.NotFound", "InvalidSecurityGroupRuleId.Malformed"})
	for _, g := range c.groups.order {
		for _, r := range g.rules {
			all.add(c.item(r))
		}
	}
	slices.SortFunc(all.order, func(a, b *ruleItem) int { return int(a.seq) - int(b.seq) })
	out.SecurityGroupRuleSet, out.NextToken, err = list(c, &all, in.SecurityGroupRuleID, keep, in.pageIn, usualLimits)
	return out, err
}

type modifyGroupRulesIn struct {
	GroupID           string
	SecurityGroupRule []struct {
		SecurityGroupRuleID string
		SecurityGroupRule   struct {
			IPProtocol        string
			FromPort, ToPort  *int
			CIDRIPv4          string `wire:"CidrIpv4"`
			CIDRIPv6          string `wire:"CidrIpv6"`
			PrefixListID      string
			ReferencedGroupID string
			Description       string
		}
	}
}

// modifyGroupRules replaces rules by id; a rule's direction cannot change.
func (c *call) modifyGroupRules(in *modifyGroupRulesIn) (done, *apiError) {
	g, err := c.groups.get(c, "groupId", in.GroupID)
	if err != nil {
		return done{}, err
	}
	changed := map[*groupRule]wantedRule{}
	for _, update := range in.SecurityGroupRule {
		at := slices.IndexFunc(g.rules, func(r *groupRule) bool { return r.id == update.SecurityGroupRuleID })
		if at < 0 {
			return done{}, failf("InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '%s' does not exist", update.SecurityGroupRuleID)
		}
		wanted := update.SecurityGroupRule
		base, err := portsOf(permissionIn{IPProtocol: wanted.IPProtocol, FromPort: wanted.FromPort, ToPort: wanted.ToPort})
		if err != nil {
			return done{}, err
		}
		base.egress = g.rules[at].key.egress
		base.prefixList, base.group = wanted.PrefixListID, wanted.ReferencedGroupID
		for text, masked := range map[string]*string{wanted.CIDRIPv4: &base.cidr, wanted.CIDRIPv6: &base.cidr6} {
			if text != "" {
				block, err := parseBlock("cidr", text)
				if err != nil {
					return done{}, err
				}
				*masked = block.String()
			}
		}
		if other := g.find(base); other != nil && other != g.rules[at] {
			return done{}, failf("InvalidPermission.Duplicate", "the specified rule already exists as %s", other.id)
		}
		changed[g.rules[at]] = wantedRule{base, wanted.Description}
	}
	for r, wanted := range changed {
		r.key, r.description = wanted.key, wanted.description
	}
	g.merge(c.account.id)
	return ok()
}
