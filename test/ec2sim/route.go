package ec2sim

import (
	"slices"
	"strings"
)

var routeActions = []*action{
	create("CreateRouteTable", (*call).createRouteTable),
	write("DeleteRouteTable", (*call).deleteRouteTable),
	read("DescribeRouteTables", (*call).describeRouteTables),
	write("AssociateRouteTable", (*call).associateRouteTable),
	write("DisassociateRouteTable", (*call).disassociateRouteTable),
	write("ReplaceRouteTableAssociation", (*call).replaceRouteTableAssociation),
	write("CreateRoute", func(c *call, in *routeIn) (done, *apiError) { return c.putRoute(in, false) }),
	write("ReplaceRoute", func(c *call, in *routeIn) (done, *apiError) { return c.putRoute(in, true) }),
	write("DeleteRoute", (*call).deleteRoute),
}

type routeTable struct {
	meta
	RouteTableID    string
	VPCID           string
	OwnerID         string
	AssociationSet  []routeAssociation
	RouteSet        []route
	PropagatingVgws []empty `wire:"propagatingVgwSet"`
}

type routeAssociation struct {
	RouteTableAssociationID string
	RouteTableID            string
	SubnetID                string
	Main                    bool
	AssociationState        stateItem
}

type route struct {
	DestinationCIDRBlock        string
	DestinationIPv6CIDRBlock    string `wire:"destinationIpv6CidrBlock"`
	DestinationPrefixListID     string
	EgressOnlyInternetGatewayID string
	GatewayID                   string
	InstanceID                  string
	InstanceOwnerID             string
	NATGatewayID                string
	NetworkInterfaceID          string
	TransitGatewayID            string
	VPCPeeringConnectionID      string
	Origin                      string
	State                       string
}

func (r route) destination() string {
	return r.DestinationCIDRBlock + r.DestinationIPv6CIDRBlock + r.DestinationPrefixListID
}

func (t *routeTable) isMain() bool {
	return slices.ContainsFunc(t.AssociationSet, func(a routeAssociation) bool { return a.Main })
}

func (c *call) addRouteTable(v *vpc, tags []Tag) *routeTable {
	id := c.newID("rtb")
	t := &routeTable{meta: c.newMeta(c.now, id, tags), RouteTableID: id, VPCID: v.id, OwnerID: c.account.id}
	c.routeTables.add(t)
	return t
}

func (c *call) addMainRouteTable(v *vpc) {
	t := c.addRouteTable(v, nil)
	t.AssociationSet = []routeAssociation{{c.newID("rtbassoc"), t.id, "", true, stateItem{"associated"}}}
}

// routes are the local ones of the VPC's CIDRs and the added ones, each with
// its state: a target that is gone makes a blackhole.
func (c *call) routes(t *routeTable) []route {
	var all []route
	if v, ok := c.vpcs.byID[t.VPCID]; ok {
		for _, a := range v.CIDRBlockAssociationSet {
			all = append(all, route{DestinationCIDRBlock: a.CIDRBlock, GatewayID: "local", Origin: "CreateRouteTable", State: "active"})
		}
		for _, a := range v.IPv6CIDRBlockAssociationSet {
			all = append(all, route{DestinationIPv6CIDRBlock: a.IPv6CIDRBlock, GatewayID: "local", Origin: "CreateRouteTable", State: "active"})
		}
	}
	for _, r := range t.RouteSet {
		r.State = "active"
		if !c.routable(t, &r) {
			r.State = "blackhole"
		}
		all = append(all, r)
	}
	return all
}

func (c *call) routable(t *routeTable, r *route) bool {
	switch {
	case strings.HasPrefix(r.GatewayID, "igw-"):
		g, ok := c.gateways.byID[r.GatewayID]
		return ok && g.attachedTo() == t.VPCID
	case r.EgressOnlyInternetGatewayID != "":
		_, ok := c.egressGateways.byID[r.EgressOnlyInternetGatewayID]
		return ok
	case r.NATGatewayID != "":
		n, ok := c.nats.byID[r.NATGatewayID]
		return ok && (n.State == "available" || n.State == "pending")
	case r.NetworkInterfaceID != "":
		i, ok := c.interfaces.byID[r.NetworkInterfaceID]
		return ok && i.Attachment != nil
	}
	return true
}

type createRouteTableIn struct {
	tagSpecs
	VPCID       string
	ClientToken string
}

type routeTableOut struct {
	RouteTable  *routeTable
	ClientToken string
}

func (c *call) createRouteTable(in *createRouteTableIn) (out routeTableOut, err *apiError) {
	tags, err := in.tagsFor("route-table")
	if err != nil {
		return out, err
	}
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return out, err
	}
	return routeTableOut{c.shown(c.addRouteTable(v, tags)), in.ClientToken}, nil
}

// shown is a copy of the table with all its routes and their states.
func (c *call) shown(t *routeTable) *routeTable {
	view := *t
	view.RouteSet = c.routes(t)
	return &view
}

type routeTableIn struct{ RouteTableID, SubnetID, AssociationID, GatewayID string }

func (c *call) deleteRouteTable(in *routeTableIn) (done, *apiError) {
	t, err := c.routeTables.get(c, "routeTableId", in.RouteTableID)
	if err != nil {
		return done{}, err
	}
	if len(t.AssociationSet) > 0 {
		return done{}, dependency("The routeTable '%s' has dependencies and cannot be deleted.", t.id)
	}
	c.routeTables.remove(t.id)
	return ok()
}

type describeRouteTablesIn struct {
	filterIns
	pageIn
	RouteTableID []string
}

type describeRouteTablesOut struct {
	RouteTableSet []*routeTable
	NextToken     string
}

func associations(value func(routeAssociation) string) func(*routeTable) []string {
	return func(t *routeTable) []string {
		var values []string
		for _, a := range t.AssociationSet {
			values = append(values, one(value(a))...)
		}
		return values
	}
}

func destinations(value func(route) string) func(*routeTable) []string {
	return func(t *routeTable) []string {
		var values []string
		for _, r := range t.RouteSet {
			values = append(values, one(value(r))...)
		}
		return values
	}
}

var routeTableFilters = filters[*routeTable]{
	"route-table-id":                         func(t *routeTable) []string { return []string{t.id} },
	"vpc-id":                                 func(t *routeTable) []string { return []string{t.VPCID} },
	"owner-id":                               func(t *routeTable) []string { return []string{t.OwnerID} },
	"association.subnet-id":                  associations(func(a routeAssociation) string { return a.SubnetID }),
	"association.main":                       associations(func(a routeAssociation) string { return yesNo(a.Main)[0] }),
	"association.route-table-association-id": associations(func(a routeAssociation) string { return a.RouteTableAssociationID }),
	"association.route-table-id":             associations(func(a routeAssociation) string { return a.RouteTableID }),
	"route.destination-cidr-block":           destinations(func(r route) string { return r.DestinationCIDRBlock }),
	"route.gateway-id":                       destinations(func(r route) string { return r.GatewayID }),
	"route.nat-gateway-id":                   destinations(func(r route) string { return r.NATGatewayID }),
}

func (c *call) describeRouteTables(in *describeRouteTablesIn) (out describeRouteTablesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, routeTableFilters)
	if err != nil {
		return out, err
	}
	limit := limits{least: 5, most: 100} // DescribeRouteTables reference: MaxResults
	found, next, err := list(c, &c.routeTables, in.RouteTableID, keep, in.pageIn, limit)
	for _, t := range found {
		out.RouteTableSet = append(out.RouteTableSet, c.shown(t))
	}
	out.NextToken = next
	return out, err
}

type associationOut struct {
	AssociationID    string `wire:"associationId"`
	NewAssociationID string
	AssociationState *stateItem
}

func (c *call) associateRouteTable(in *routeTableIn) (out associationOut, err *apiError) {
	t, err := c.routeTables.get(c, "routeTableId", in.RouteTableID)
	if err != nil {
		return out, err
	}
	s, err := c.subnets.get(c, "subnetId", in.SubnetID)
	if err != nil {
		return out, err
	}
	if s.VPCID != t.VPCID {
		return out, failf("InvalidParameterValue", "Route table %s and subnet %s belong to different networks", t.id, s.id)
	}
	for _, other := range c.routeTables.order {
		for _, a := range other.AssociationSet {
			if a.SubnetID == s.id && other == t {
				return associationOut{AssociationID: a.RouteTableAssociationID, AssociationState: &a.AssociationState}, nil
			}
			if a.SubnetID == s.id {
				return out, failf("Resource.AlreadyAssociated", "the specified association for route table %s conflicts with an existing association", t.id)
			}
		}
	}
	added := routeAssociation{c.newID("rtbassoc"), t.id, s.id, false, stateItem{"associated"}}
	t.AssociationSet = append(t.AssociationSet, added)
	return associationOut{AssociationID: added.RouteTableAssociationID, AssociationState: &added.AssociationState}, nil
}

func (c *call) routeAssociation(id string) (*routeTable, int, *apiError) {
	for _, t := range c.routeTables.order {
		if at := slices.IndexFunc(t.AssociationSet, func(a routeAssociation) bool { return a.RouteTableAssociationID == id }); at >= 0 {
			return t, at, nil
		}
	}
	return nil, 0, failf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

func (c *call) disassociateRouteTable(in *routeTableIn) (done, *apiError) {
	t, at, err := c.routeAssociation(in.AssociationID)
	if err != nil {
		return done{}, err
	}
	if t.AssociationSet[at].Main {
		return done{}, invalid("associationId", in.AssociationID, "Cannot disassociate the main route table association")
	}
	t.AssociationSet = slices.Delete(t.AssociationSet, at, at+1)
	return ok()
}

// replaceRouteTableAssociation also changes the main route table, by the id
// of the main association.
func (c *call) replaceRouteTableAssociation(in *routeTableIn) (out associationOut, err *apiError) {
	t, err := c.routeTables.get(c, "routeTableId", in.RouteTableID)
	if err != nil {
		return out, err
	}
	old, at, err := c.routeAssociation(in.AssociationID)
	if err != nil {
		return out, err
	}
	moved := old.AssociationSet[at]
	old.AssociationSet = slices.Delete(old.AssociationSet, at, at+1)
	moved.RouteTableAssociationID, moved.RouteTableID = c.newID("rtbassoc"), t.id
	t.AssociationSet = append(t.AssociationSet, moved)
	return associationOut{NewAssociationID: moved.RouteTableAssociationID, AssociationState: &moved.AssociationState}, nil
}
