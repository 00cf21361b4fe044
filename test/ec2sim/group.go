package ec2sim

import "slices"

var groupActions = []*action{
	write("CreateSecurityGroup", (*call).createGroup),
	write("DeleteSecurityGroup", (*call).deleteGroup),
	read("DescribeSecurityGroups", (*call).describeGroups),
}

type securityGroup struct {
	meta
	GroupID             string
	SecurityGroupARN    string `wire:"securityGroupArn"`
	GroupName           string
	GroupDescription    string
	OwnerID             string
	VPCID               string
	IPPermissions       []permission
	IPPermissionsEgress []permission

	rules []*groupRule
}

func (g *securityGroup) ref() groupRef { return groupRef{g.id, g.GroupName} }

// groupRef is how other resources name a group.
type groupRef struct{ GroupID, GroupName string }

func refs(groups []*securityGroup) []groupRef {
	out := make([]groupRef, len(groups))
	for i, g := range groups {
		out[i] = g.ref()
	}
	return out
}

func ids(refs []groupRef) []string {
	out := make([]string, len(refs))
	for i, ref := range refs {
		out[i] = ref.GroupID
	}
	return out
}

func names(refs []groupRef) []string {
	out := make([]string, len(refs))
	for i, ref := range refs {
		out[i] = ref.GroupName
	}
	return out
}

func (c *call) addGroup(v *vpc, name, description string, tags []Tag) *securityGroup {
	id := c.newID("sg")
	g := &securityGroup{
		meta: c.newMeta(c.now, id, tags), GroupID: id, SecurityGroupARN: c.arn("ec2", "security-group/"+id), GroupName: name,
		GroupDescription: description, OwnerID: c.account.id, VPCID: v.id,
	}
	// Every new group allows all outbound traffic, the default group also all
	// inbound traffic from itself (VPC user guide, "Default security groups").
	all := ruleKey{protocol: "-1", from: -1, to: -1}
	out := all
	out.egress, out.cidr = true, "0.0.0.0/0"
	g.rules = append(g.rules, c.newRule(g, out, "", nil))
	if len(v.IPv6CIDRBlockAssociationSet) > 0 {
		out.cidr, out.cidr6 = "", "::/0"
		g.rules = append(g.rules, c.newRule(g, out, "", nil))
	}
	if name == "default" {
		in := all
		in.group = id
		g.rules = append(g.rules, c.newRule(g, in, "", nil))
	}
	g.merge(c.account.id)
	c.groups.add(g)
	return g
}

type createGroupIn struct {
	tagSpecs
	GroupName        string `wire:",required"`
	GroupDescription string `wire:",required"`
	VPCID            string
}

type createGroupOut struct {
	Return           bool
	GroupID          string
	SecurityGroupARN string `wire:"securityGroupArn"`
	TagSet           tagSet
}

func (c *call) createGroup(in *createGroupIn) (out createGroupOut, err *apiError) {
	tags, err := in.tagsFor("security-group")
	if err != nil {
		return out, err
	}
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return out, err
	}
	switch {
	case in.GroupName == "default":
		return out, failf("InvalidParameterValue", "Cannot use reserved security group name: default")
	case len(in.GroupName) > 255 || len(in.GroupName) > 2 && in.GroupName[:3] == "sg-":
		return out, failf("InvalidParameterValue", "invalid value for parameter groupName: %s", in.GroupName)
	case c.groups.any(func(g *securityGroup) bool { return g.VPCID == v.id && g.GroupName == in.GroupName }):
		return out, failf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", in.GroupName, v.id)
	}
	g := c.addGroup(v, in.GroupName, in.GroupDescription, tags)
	return createGroupOut{true, g.id, g.SecurityGroupARN, g.TagSet}, nil
}

type groupIn struct{ GroupID, GroupName string }

// deleteGroup refuses groups that are in use: "If you attempt to delete a
// security group that is associated with an instance or network interface, is
// referenced by another security group in the same VPC …, the operation fails
// with DependencyViolation" (DeleteSecurityGroup reference).
func (c *call) deleteGroup(in *groupIn) (out groupDeleted, err *apiError) {
	g, err := c.groups.get(c, "groupId", in.GroupID)
	if err != nil {
		return out, err
	}
	if g.GroupName == "default" {
		return out, failf("CannotDelete", `the specified group: "%s" name: "default" cannot be deleted by a user`, g.id)
	}
	inUse := c.interfaces.any(func(i *networkInterface) bool { return slices.Contains(i.GroupSet, g.ref()) }) ||
		c.groups.any(func(other *securityGroup) bool {
			return other != g && slices.ContainsFunc(other.rules, func(r *groupRule) bool { return r.key.group == g.id })
		}) || c.balancerUses(g.id)
	if inUse {
		return out, dependency("resource %s has a dependent object", g.id)
	}
	c.groups.remove(g.id)
	return groupDeleted{true, g.id}, nil
}

type groupDeleted struct {
	Return  bool
	GroupID string
}

type describeGroupsIn struct {
	filterIns
	pageIn
	GroupID   []string
	GroupName []string
}

type describeGroupsOut struct {
	SecurityGroupInfo []*securityGroup
	NextToken         string
}

func ruleValues(egress bool, value func(*groupRule) string) func(*securityGroup) []string {
	return func(g *securityGroup) []string {
		var values []string
		for _, r := range g.rules {
			if r.key.egress == egress {
				values = append(values, one(value(r))...)
			}
		}
		return values
	}
}

var groupFilters = filters[*securityGroup]{
	"group-id":                  func(g *securityGroup) []string { return []string{g.id} },
	"group-name":                func(g *securityGroup) []string { return []string{g.GroupName} },
	"vpc-id":                    func(g *securityGroup) []string { return []string{g.VPCID} },
	"owner-id":                  func(g *securityGroup) []string { return []string{g.OwnerID} },
	"description":               func(g *securityGroup) []string { return []string{g.GroupDescription} },
	"ip-permission.cidr":        ruleValues(false, func(r *groupRule) string { return r.key.cidr }),
	"ip-permission.group-id":    ruleValues(false, func(r *groupRule) string { return r.key.group }),
	"ip-permission.protocol":    ruleValues(false, func(r *groupRule) string { return r.key.protocol }),
	"egress.ip-permission.cidr": ruleValues(true, func(r *groupRule) string { return r.key.cidr }),
}

func (c *call) describeGroups(in *describeGroupsIn) (out describeGroupsOut, err *apiError) {
	keep, err := condition(c, in.filterIns, groupFilters)
	if err != nil {
		return out, err
	}
	for _, name := range in.GroupName {
		if !c.groups.any(func(g *securityGroup) bool { return g.GroupName == name }) {
			return out, kindGroup.missingError(name)
		}
	}
	both := func(g *securityGroup) bool {
		return keep(g) && (len(in.GroupName) == 0 || slices.Contains(in.GroupName, g.GroupName))
	}
	out.SecurityGroupInfo, out.NextToken, err = list(c, &c.groups, in.GroupID, both, in.pageIn, usualLimits)
	return out, err
}
