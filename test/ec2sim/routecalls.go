package ec2sim

import (
	"slices"
	"strings"
)

// routeIn is the request of CreateRoute, ReplaceRoute and DeleteRoute.
type routeIn struct {
	RouteTableID                string
	DestinationCIDRBlock        string
	DestinationIPv6CIDRBlock    string `wire:"DestinationIpv6CidrBlock"`
	DestinationPrefixListID     string
	EgressOnlyInternetGatewayID string
	GatewayID                   string
	InstanceID                  string
	NATGatewayID                string
	NetworkInterfaceID          string
	TransitGatewayID            string
	VPCPeeringConnectionID      string
}

// wanted makes the route of a request; destinations are masked (CreateRoute
// reference: 100.68.0.18/18 becomes 100.68.0.0/18).
func (c *call) wanted(in *routeIn) (*routeTable, route, *apiError) {
	r := route{
		EgressOnlyInternetGatewayID: in.EgressOnlyInternetGatewayID, GatewayID: in.GatewayID, InstanceID: in.InstanceID,
		NATGatewayID: in.NATGatewayID, NetworkInterfaceID: in.NetworkInterfaceID, TransitGatewayID: in.TransitGatewayID,
		VPCPeeringConnectionID: in.VPCPeeringConnectionID, DestinationPrefixListID: in.DestinationPrefixListID,
		Origin: "CreateRoute",
	}
	t, err := c.routeTables.get(c, "routeTableId", in.RouteTableID)
	if err != nil {
		return nil, r, err
	}
	given := 0
	for text, masked := range map[*string]*string{
		&in.DestinationCIDRBlock: &r.DestinationCIDRBlock, &in.DestinationIPv6CIDRBlock: &r.DestinationIPv6CIDRBlock,
	} {
		if *text == "" {
			continue
		}
		given++
		block, err := parseBlock("destinationCidrBlock", *text)
		if err != nil {
			return nil, r, err
		}
		*masked = block.String()
	}
	if in.DestinationPrefixListID != "" {
		given++
	}
	if given != 1 {
		return nil, r, failf("InvalidParameterCombination", "Exactly one destination must be specified")
	}
	return t, r, nil
}

func (c *call) putRoute(in *routeIn, replace bool) (done, *apiError) {
	t, r, err := c.wanted(in)
	if err != nil {
		return done{}, err
	}
	if err := c.checkTarget(&r, t); err != nil {
		return done{}, err
	}
	if v, ok := c.vpcs.byID[t.VPCID]; ok && slices.ContainsFunc(v.CIDRBlockAssociationSet, func(a cidrAssociation) bool {
		return a.CIDRBlock == r.destination()
	}) {
		return done{}, invalid("destinationCidrBlock", r.destination(), "The local route cannot be changed")
	}
	at := slices.IndexFunc(t.RouteSet, func(old route) bool { return old.destination() == r.destination() })
	switch {
	case replace && at < 0:
		return done{}, noRoute(t, r.destination())
	case !replace && at >= 0 && sameTarget(t.RouteSet[at], r):
		return ok()
	case !replace && at >= 0:
		return done{}, failf("RouteAlreadyExists", "The route identified by %s already exists.", r.destination())
	case replace:
		t.RouteSet[at] = r
	default:
		t.RouteSet = append(t.RouteSet, r)
	}
	return ok()
}

func sameTarget(a, b route) bool {
	a.State, b.State = "", ""
	return a == b
}

func noRoute(t *routeTable, destination string) *apiError {
	return failf("InvalidRoute.NotFound", "no route with destination-cidr-block %s in route table %s", destination, t.id)
}

// checkTarget tells that the one target exists.
func (c *call) checkTarget(r *route, t *routeTable) *apiError {
	targets := 0
	for _, id := range []string{
		r.EgressOnlyInternetGatewayID, r.GatewayID, r.InstanceID, r.NATGatewayID, r.NetworkInterfaceID, r.TransitGatewayID,
		r.VPCPeeringConnectionID,
	} {
		if id != "" {
			targets++
		}
	}
	if targets != 1 {
		return failf("InvalidParameterCombination", "Exactly one target must be specified")
	}
	switch {
	case strings.HasPrefix(r.GatewayID, "nat-"):
		r.GatewayID, r.NATGatewayID = "", r.GatewayID
		return c.checkTarget(r, t)
	case strings.HasPrefix(r.GatewayID, "igw-"):
		g, err := c.gateways.get(c, "gatewayId", r.GatewayID)
		if err == nil && g.attachedTo() != t.VPCID {
			err = failf("InvalidParameterValue", "route table %s and network gateway %s belong to different networks", t.id, g.id)
		}
		return err
	case r.EgressOnlyInternetGatewayID != "":
		_, err := c.egressGateways.get(c, "egressOnlyInternetGatewayId", r.EgressOnlyInternetGatewayID)
		return err
	case r.NATGatewayID != "":
		_, err := c.nats.get(c, "natGatewayId", r.NATGatewayID)
		return err
	case r.InstanceID != "":
		i, err := c.instances.get(c, "instanceId", r.InstanceID)
		if err != nil {
			return err
		}
		if len(i.interfaces) != 1 {
			return failf("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.id)
		}
		r.NetworkInterfaceID, r.InstanceOwnerID = i.interfaces[0].id, c.account.id
	case r.NetworkInterfaceID != "":
		i, err := c.interfaces.get(c, "networkInterfaceId", r.NetworkInterfaceID)
		if err != nil {
			return err
		}
		if i.Attachment != nil && i.Attachment.InstanceID != "" {
			r.InstanceID, r.InstanceOwnerID = i.Attachment.InstanceID, c.account.id
		}
	}
	return nil
}

func (c *call) deleteRoute(in *routeIn) (done, *apiError) {
	t, r, err := c.wanted(in)
	if err != nil {
		return done{}, err
	}
	at := slices.IndexFunc(t.RouteSet, func(old route) bool { return old.destination() == r.destination() })
	if at < 0 {
		return done{}, noRoute(t, r.destination())
	}
	t.RouteSet = slices.Delete(t.RouteSet, at, at+1)
	return ok()
}
