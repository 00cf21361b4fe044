package ec2sim

import (
	"cmp"
	"slices"
	"strconv"
)

var aclActions = []*action{
	create("CreateNetworkAcl", (*call).createACL),
	write("DeleteNetworkAcl", (*call).deleteACL),
	read("DescribeNetworkAcls", (*call).describeACLs),
	write("CreateNetworkAclEntry", func(c *call, in *aclEntryIn) (done, *apiError) { return c.putACLEntry(in, false) }),
	write("ReplaceNetworkAclEntry", func(c *call, in *aclEntryIn) (done, *apiError) { return c.putACLEntry(in, true) }),
	write("DeleteNetworkAclEntry", (*call).deleteACLEntry),
	write("ReplaceNetworkAclAssociation", (*call).replaceACLAssociation),
}

type networkACL struct {
	meta
	NetworkACLID   string
	VPCID          string
	OwnerID        string
	Default        bool
	EntrySet       []aclEntry
	AssociationSet []aclAssociation
}

type aclEntry struct {
	RuleNumber    int
	Protocol      string
	RuleAction    string
	Egress        bool
	CIDRBlock     string
	IPv6CIDRBlock string
	ICMPTypeCode  *icmpTypeCode
	PortRange     *portRange
}

type icmpTypeCode struct{ Code, Type int }

type portRange struct{ From, To int }

type aclAssociation struct{ NetworkACLAssociationID, NetworkACLID, SubnetID string }

// lastRule is the rule that denies what no other allows; it cannot be changed.
const lastRule = 32767

func (c *call) addACL(v *vpc, tags []Tag, isDefault bool) *networkACL {
	id := c.newID("acl")
	a := &networkACL{meta: c.newMeta(c.now, id, tags), NetworkACLID: id, VPCID: v.id, OwnerID: c.account.id, Default: isDefault}
	for _, egress := range []bool{false, true} {
		if isDefault {
			a.EntrySet = append(a.EntrySet, aclEntry{RuleNumber: 100, Protocol: "-1", RuleAction: "allow", Egress: egress, CIDRBlock: "0.0.0.0/0"})
		}
		a.EntrySet = append(a.EntrySet, aclEntry{RuleNumber: lastRule, Protocol: "-1", RuleAction: "deny", Egress: egress, CIDRBlock: "0.0.0.0/0"})
	}
	c.acls.add(a)
	a.sort()
	return a
}

func (a *networkACL) sort() {
	slices.SortFunc(a.EntrySet, func(x, y aclEntry) int {
		if x.Egress != y.Egress {
			if x.Egress {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.RuleNumber, y.RuleNumber)
	})
}

func (c *call) addDefaultACL(v *vpc) { c.addACL(v, nil, true) }

// lastRule6 is what lastRule is for IPv6.
const lastRule6 = lastRule + 1

// openDefaultACL6 adds the entries that a VPC's default network ACL gets with
// the VPC's first IPv6 block (VPC user guide, "Default network ACL").
func (c *call) openDefaultACL6(v *vpc) {
	a, found := c.acls.first(func(a *networkACL) bool { return a.VPCID == v.id && a.Default })
	if !found || slices.ContainsFunc(a.EntrySet, func(e aclEntry) bool { return e.RuleNumber == lastRule6 }) {
		return
	}
	for _, egress := range []bool{false, true} {
		a.EntrySet = append(a.EntrySet,
			aclEntry{RuleNumber: 101, Protocol: "-1", RuleAction: "allow", Egress: egress, IPv6CIDRBlock: "::/0"},
			aclEntry{RuleNumber: lastRule6, Protocol: "-1", RuleAction: "deny", Egress: egress, IPv6CIDRBlock: "::/0"})
	}
	a.sort()
}

func (c *call) associateDefaultACL(s *subnet) {
	a, found := c.acls.first(func(a *networkACL) bool { return a.VPCID == s.VPCID && a.Default })
	if found {
		a.AssociationSet = append(a.AssociationSet, aclAssociation{c.newID("aclassoc"), a.id, s.id})
	}
}

type createACLIn struct {
	tagSpecs
	VPCID       string
	ClientToken string
}

type aclOut struct {
	NetworkACL  *networkACL
	ClientToken string
}

func (c *call) createACL(in *createACLIn) (out aclOut, err *apiError) {
	tags, err := in.tagsFor("network-acl")
	if err != nil {
		return out, err
	}
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return out, err
	}
	return aclOut{c.addACL(v, tags, false), in.ClientToken}, nil
}

type aclIn struct{ NetworkACLID, AssociationID string }

func (c *call) deleteACL(in *aclIn) (done, *apiError) {
	a, err := c.acls.get(c, "networkAclId", in.NetworkACLID)
	if err != nil {
		return done{}, err
	}
	if a.Default {
		return done{}, invalid("networkAclId", a.id, "The default network ACL cannot be deleted")
	}
	if len(a.AssociationSet) > 0 {
		return done{}, dependency("The networkAcl '%s' has dependencies and cannot be deleted.", a.id)
	}
	c.acls.remove(a.id)
	return ok()
}

type describeACLsIn struct {
	filterIns
	pageIn
	NetworkACLID []string
}

type describeACLsOut struct {
	NetworkACLSet []*networkACL
	NextToken     string
}

var aclFilters = filters[*networkACL]{
	"network-acl-id": func(a *networkACL) []string { return []string{a.id} },
	"vpc-id":         func(a *networkACL) []string { return []string{a.VPCID} },
	"default":        func(a *networkACL) []string { return yesNo(a.Default) },
	"owner-id":       func(a *networkACL) []string { return []string{a.OwnerID} },
	"association.subnet-id": func(a *networkACL) []string {
		var subnets []string
		for _, association := range a.AssociationSet {
			subnets = append(subnets, association.SubnetID)
		}
		return subnets
	},
}

func (c *call) describeACLs(in *describeACLsIn) (out describeACLsOut, err *apiError) {
	keep, err := condition(c, in.filterIns, aclFilters)
	if err != nil {
		return out, err
	}
	out.NetworkACLSet, out.NextToken, err = list(c, &c.acls, in.NetworkACLID, keep, in.pageIn, usualLimits)
	return out, err
}

type aclEntryIn struct {
	NetworkACLID  string
	RuleNumber    *int `wire:",required"`
	Protocol      string
	RuleAction    string
	Egress        *bool `wire:",required"`
	CIDRBlock     string
	IPv6CIDRBlock string
	ICMP          *icmpTypeCode
	PortRange     *portRange
}

func (in *aclEntryIn) entry() (aclEntry, *apiError) {
	e := aclEntry{
		RuleNumber: *in.RuleNumber, Protocol: in.Protocol, RuleAction: in.RuleAction, Egress: *in.Egress,
		ICMPTypeCode: in.ICMP, PortRange: in.PortRange,
	}
	// Network ACLs show protocol numbers, unlike security groups.
	for number, name := range protocolNames {
		if _, err := strconv.Atoi(number); err == nil && name == in.Protocol {
			e.Protocol = number
		}
	}
	switch {
	case e.RuleNumber < 1 || e.RuleNumber >= lastRule:
		return e, invalid("ruleNumber", strconv.Itoa(e.RuleNumber), "Expecting 1 to 32766")
	case e.Protocol == "":
		return e, missing("protocol")
	case e.RuleAction != "allow" && e.RuleAction != "deny":
		return e, invalid("ruleAction", e.RuleAction, "Expecting allow or deny")
	case (in.CIDRBlock == "") == (in.IPv6CIDRBlock == ""):
		return e, failf("InvalidParameterCombination", "Exactly one of cidrBlock and ipv6CidrBlock must be specified")
	case (e.Protocol == "6" || e.Protocol == "17") && e.PortRange == nil:
		return e, missing("portRange")
	}
	for text, masked := range map[string]*string{in.CIDRBlock: &e.CIDRBlock, in.IPv6CIDRBlock: &e.IPv6CIDRBlock} {
		if text != "" {
			block, err := parseBlock("cidrBlock", text)
			if err != nil {
				return e, err
			}
			*masked = block.String()
		}
	}
	return e, nil
}

func (a *networkACL) find(number int, egress bool) int {
	return slices.IndexFunc(a.EntrySet, func(e aclEntry) bool { return e.RuleNumber == number && e.Egress == egress })
}

func (c *call) putACLEntry(in *aclEntryIn, replace bool) (done, *apiError) {
	a, err := c.acls.get(c, "networkAclId", in.NetworkACLID)
	if err != nil {
		return done{}, err
	}
	e, err := in.entry()
	if err != nil {
		return done{}, err
	}
	at := a.find(e.RuleNumber, e.Egress)
	switch {
	case replace && at < 0:
		return done{}, failf("InvalidNetworkAclEntry.NotFound", "The network acl entry identified by %d does not exist.", e.RuleNumber)
	case !replace && at >= 0:
		return done{}, failf("NetworkAclEntryAlreadyExists", "The network acl entry identified by %d already exists.", e.RuleNumber)
	case replace:
		a.EntrySet[at] = e
	default:
		a.EntrySet = append(a.EntrySet, e)
		a.sort()
	}
	return ok()
}

func (c *call) deleteACLEntry(in *aclEntryIn) (done, *apiError) {
	a, err := c.acls.get(c, "networkAclId", in.NetworkACLID)
	if err != nil {
		return done{}, err
	}
	at := a.find(*in.RuleNumber, *in.Egress)
	if at < 0 || *in.RuleNumber == lastRule {
		return done{}, failf("InvalidNetworkAclEntry.NotFound", "The network acl entry identified by %d does not exist.", *in.RuleNumber)
	}
	a.EntrySet = slices.Delete(a.EntrySet, at, at+1)
	return ok()
}

func (c *call) replaceACLAssociation(in *aclIn) (out associationOut, err *apiError) {
	a, err := c.acls.get(c, "networkAclId", in.NetworkACLID)
	if err != nil {
		return out, err
	}
	for _, old := range c.acls.order {
		at := slices.IndexFunc(old.AssociationSet, func(s aclAssociation) bool { return s.NetworkACLAssociationID == in.AssociationID })
		if at < 0 {
			continue
		}
		moved := aclAssociation{c.newID("aclassoc"), a.id, old.AssociationSet[at].SubnetID}
		old.AssociationSet = slices.Delete(old.AssociationSet, at, at+1)
		a.AssociationSet = append(a.AssociationSet, moved)
		return associationOut{NewAssociationID: moved.NetworkACLAssociationID}, nil
	}
	return out, failf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", in.AssociationID)
}
