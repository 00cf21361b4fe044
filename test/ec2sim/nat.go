package ec2sim

import "time"

var natActions = []*action{
	create("CreateNatGateway", (*call).createNAT),
	write("DeleteNatGateway", (*call).deleteNAT),
	read("DescribeNatGateways", (*call).describeNATs),
}

type natGateway struct {
	meta
	NATGatewayID         string
	VPCID                string
	SubnetID             string
	State                string
	ConnectivityType     string
	CreateTime           time.Time
	DeleteTime           time.Time
	FailureCode          string
	FailureMessage       string
	NATGatewayAddressSet []natAddress
}

type natAddress struct {
	AllocationID       string
	AssociationID      string
	NetworkInterfaceID string
	PrivateIP          string
	PublicIP           string
	IsPrimary          bool
	Status             string
}

type createNATIn struct {
	tagSpecs
	SubnetID         string
	AllocationID     string
	ConnectivityType string
	ClientToken      string
}

type natOut struct {
	ClientToken string
	NATGateway  *natGateway
}

func (c *call) createNAT(in *createNATIn) (out natOut, err *apiError) {
	tags, err := in.tagsFor("natgateway")
	if err != nil {
		return out, err
	}
	s, err := c.subnets.get(c, "subnetId", in.SubnetID)
	if err != nil {
		return out, err
	}
	public := in.ConnectivityType != "private"
	var elastic *address
	if public {
		if elastic, err = c.addresses.get(c, "allocationId", in.AllocationID); err != nil {
			return out, err
		}
		if elastic.AssociationID != "" {
			return out, failf("Resource.AlreadyAssociated", "Elastic IP address [%s] is already associated", elastic.id)
		}
	}
	if public && !c.gateways.any(func(g *internetGateway) bool { return g.attachedTo() == s.VPCID }) {
		return out, failf("Gateway.NotAttached", "Network %s has no Internet gateway attached", s.VPCID)
	}
	i, err := c.newInterface(s, nil, "Interface for NAT Gateway", "")
	if err != nil {
		return out, err
	}
	i.InterfaceType, i.RequesterManaged, i.Status, i.SourceDestCheck = "nat_gateway", true, "in-use", false
	id := c.newID("nat")
	i.Description += " " + id
	n := &natGateway{
		meta: c.newMeta(c.now, id, tags), NATGatewayID: id, VPCID: s.VPCID, SubnetID: s.id, State: "pending",
		ConnectivityType: "private", CreateTime: c.now,
		NATGatewayAddressSet: []natAddress{{NetworkInterfaceID: i.id, PrivateIP: i.PrivateIPAddress, IsPrimary: true, Status: "succeeded"}},
	}
	if public {
		n.ConnectivityType = "public"
		c.bindAddress(elastic, i)
		a := &n.NATGatewayAddressSet[0]
		a.AllocationID, a.PublicIP, a.AssociationID = elastic.id, elastic.PublicIP, elastic.AssociationID
	}
	c.nats.add(n)
	c.later(c.now, c.srv.delays.NATGateway, func(time.Time) {
		if n.State == "pending" {
			n.State = "available"
		}
	})
	return natOut{in.ClientToken, n}, nil
}

type natIn struct{ NATGatewayID string }

type natIDOut struct{ NATGatewayID string }

// deleteNAT frees the address once it is deleted; the gateway is described
// for about an hour more ("NAT gateway basics", VPC user guide).
func (c *call) deleteNAT(in *natIn) (out natIDOut, err *apiError) {
	n, err := c.nats.get(c, "natGatewayId", in.NATGatewayID)
	if err != nil {
		return out, err
	}
	if n.State == "deleted" {
		return out, kindNAT.missingError(n.id)
	}
	if n.State != "deleting" {
		n.State = "deleting"
		r := c.region
		r.later(c.now, r.srv.delays.NATGateway, func(now time.Time) {
			n.State, n.DeleteTime = "deleted", now
			for _, a := range n.NATGatewayAddressSet {
				if i, ok := r.interfaces.byID[a.NetworkInterfaceID]; ok {
					r.dropInterface(i)
				}
			}
			r.later(now, r.srv.delays.NATGatewayVisible, func(time.Time) { r.nats.remove(n.id) })
		})
	}
	return natIDOut{n.id}, nil
}

type describeNATsIn struct {
	filterIns
	pageIn
	NATGatewayID []string
}

type describeNATsOut struct {
	NATGatewaySet []*natGateway
	NextToken     string
}

var natFilters = filters[*natGateway]{
	"nat-gateway-id": func(n *natGateway) []string { return []string{n.id} },
	"vpc-id":         func(n *natGateway) []string { return []string{n.VPCID} },
	"subnet-id":      func(n *natGateway) []string { return []string{n.SubnetID} },
	"state":          func(n *natGateway) []string { return []string{n.State} },
}

func (c *call) describeNATs(in *describeNATsIn) (out describeNATsOut, err *apiError) {
	keep, err := condition(c, in.filterIns, natFilters)
	if err != nil {
		return out, err
	}
	out.NATGatewaySet, out.NextToken, err = list(c, &c.nats, in.NATGatewayID, keep, in.pageIn, usualLimits)
	return out, err
}
