package ec2sim

import "slices"

var gatewayActions = []*action{
	write("CreateInternetGateway", (*call).createGateway),
	write("DeleteInternetGateway", (*call).deleteGateway),
	write("AttachInternetGateway", (*call).attachGateway),
	write("DetachInternetGateway", (*call).detachGateway),
	read("DescribeInternetGateways", (*call).describeGateways),
	create("CreateEgressOnlyInternetGateway", (*call).createEgressGateway),
	write("DeleteEgressOnlyInternetGateway", (*call).deleteEgressGateway),
	read("DescribeEgressOnlyInternetGateways", (*call).describeEgressGateways),
}

type internetGateway struct {
	meta
	InternetGatewayID string
	OwnerID           string
	AttachmentSet     []gatewayAttachment
}

type gatewayAttachment struct {
	VPCID string
	State string
}

func (g *internetGateway) attachedTo() string {
	if len(g.AttachmentSet) == 0 {
		return ""
	}
	return g.AttachmentSet[0].VPCID
}

type gatewayOut struct{ InternetGateway *internetGateway }

func (c *call) createGateway(in *tagSpecs) (out gatewayOut, err *apiError) {
	tags, err := in.tagsFor("internet-gateway")
	if err != nil {
		return out, err
	}
	id := c.newID("igw")
	g := &internetGateway{meta: c.newMeta(c.now, id, tags), InternetGatewayID: id, OwnerID: c.account.id}
	c.gateways.add(g)
	return gatewayOut{g}, nil
}

type gatewayIn struct{ InternetGatewayID, VPCID string }

func (c *call) deleteGateway(in *gatewayIn) (done, *apiError) {
	g, err := c.gateways.get(c, "internetGatewayId", in.InternetGatewayID)
	if err != nil {
		return done{}, err
	}
	if g.attachedTo() != "" {
		return done{}, dependency("The internetGateway '%s' has dependencies and cannot be deleted.", g.id)
	}
	c.gateways.remove(g.id)
	return ok()
}

// attachGateway: one VPC has one internet gateway and the reverse
// (AttachInternetGateway; error code Resource.AlreadyAssociated).
func (c *call) attachGateway(in *gatewayIn) (done, *apiError) {
	g, err := c.gateways.get(c, "internetGatewayId", in.InternetGatewayID)
	if err != nil {
		return done{}, err
	}
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return done{}, err
	}
	if g.attachedTo() != "" {
		return done{}, failf("Resource.AlreadyAssociated", "resource %s is already attached to network %s", g.id, g.attachedTo())
	}
	if c.gateways.any(func(other *internetGateway) bool { return other.attachedTo() == v.id }) {
		return done{}, failf("InvalidParameterValue", "Network %s already has an internet gateway attached", v.id)
	}
	g.AttachmentSet = []gatewayAttachment{{v.id, "available"}}
	return ok()
}

func (c *call) detachGateway(in *gatewayIn) (done, *apiError) {
	g, err := c.gateways.get(c, "internetGatewayId", in.InternetGatewayID)
	if err != nil {
		return done{}, err
	}
	if _, err := c.vpcs.get(c, "vpcId", in.VPCID); err != nil {
		return done{}, err
	}
	if g.attachedTo() != in.VPCID {
		return done{}, failf("Gateway.NotAttached", "resource %s is not attached to network %s", g.id, in.VPCID)
	}
	if c.interfaces.any(func(i *networkInterface) bool { return i.VPCID == in.VPCID && i.Association != nil }) {
		return done{}, dependency("Network %s has some mapped public address(es). Please unmap those public address(es) "+
			"before detaching the gateway.", in.VPCID)
	}
	g.AttachmentSet = nil
	return ok()
}

type describeGatewaysIn struct {
	filterIns
	pageIn
	InternetGatewayID []string
}

type describeGatewaysOut struct {
	InternetGatewaySet []*internetGateway
	NextToken          string
}

var gatewayFilters = filters[*internetGateway]{
	"internet-gateway-id": func(g *internetGateway) []string { return []string{g.id} },
	"attachment.vpc-id":   func(g *internetGateway) []string { return one(g.attachedTo()) },
	"attachment.state": func(g *internetGateway) []string {
		if g.attachedTo() == "" {
			return nil
		}
		return []string{g.AttachmentSet[0].State}
	},
	"owner-id": func(g *internetGateway) []string { return []string{g.OwnerID} },
}

func (c *call) describeGateways(in *describeGatewaysIn) (out describeGatewaysOut, err *apiError) {
	keep, err := condition(c, in.filterIns, gatewayFilters)
	if err != nil {
		return out, err
	}
	out.InternetGatewaySet, out.NextToken, err = list(c, &c.gateways, in.InternetGatewayID, keep, in.pageIn, usualLimits)
	return out, err
}

// egressGateway is an egress-only internet gateway.
type egressGateway struct {
	meta
	EgressOnlyInternetGatewayID string
	AttachmentSet               []gatewayAttachment
}

func (g *egressGateway) vpcID() string { return g.AttachmentSet[0].VPCID }

type createEgressGatewayIn struct {
	tagSpecs
	VPCID       string
	ClientToken string
}

type egressGatewayOut struct {
	ClientToken               string
	EgressOnlyInternetGateway *egressGateway
}

func (c *call) createEgressGateway(in *createEgressGatewayIn) (out egressGatewayOut, err *apiError) {
	tags, err := in.tagsFor("egress-only-internet-gateway")
	if err != nil {
		return out, err
	}
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return out, err
	}
	id := c.newID("eigw")
	g := &egressGateway{
		meta: c.newMeta(c.now, id, tags), EgressOnlyInternetGatewayID: id,
		AttachmentSet: []gatewayAttachment{{v.id, "attached"}},
	}
	c.egressGateways.add(g)
	return egressGatewayOut{in.ClientToken, g}, nil
}

type egressGatewayIn struct{ EgressOnlyInternetGatewayID string }

type returnCode struct{ ReturnCode bool }

func (c *call) deleteEgressGateway(in *egressGatewayIn) (out returnCode, err *apiError) {
	g, err := c.egressGateways.get(c, "egressOnlyInternetGatewayId", in.EgressOnlyInternetGatewayID)
	if err != nil {
		return out, err
	}
	c.egressGateways.remove(g.id)
	return returnCode{true}, nil
}

type describeEgressGatewaysIn struct {
	filterIns
	pageIn
	EgressOnlyInternetGatewayID []string
}

type describeEgressGatewaysOut struct {
	EgressOnlyInternetGatewaySet []*egressGateway
	NextToken                    string
}

// describeEgressGateways has no filters but tags in EC2, and no error for an
// id that does not exist: such ids are left out.
func (c *call) describeEgressGateways(in *describeEgressGatewaysIn) (out describeEgressGatewaysOut, err *apiError) {
	keep, err := condition(c, in.filterIns, filters[*egressGateway]{})
	if err != nil {
		return out, err
	}
	byID := func(g *egressGateway) bool {
		return keep(g) && (len(in.EgressOnlyInternetGatewayID) == 0 || slices.Contains(in.EgressOnlyInternetGatewayID, g.id))
	}
	out.EgressOnlyInternetGatewaySet, out.NextToken, err = list(c, &c.egressGateways, nil, byID, in.pageIn, limits{least: 5, most: 255})
	return out, err
}
