package aws

import (
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

func TestVPC(t *testing.T) {
	state := func(s ec2types.VpcCidrBlockStateCode) *ec2types.VpcCidrBlockState {
		return &ec2types.VpcCidrBlockState{State: s}
	}
	got := newConverter().vpc(&ec2types.Vpc{VpcId: ptr("vpc-1"), CidrBlock: ptr("10.0.0.0/16"),
		CidrBlockAssociationSet: []ec2types.VpcCidrBlockAssociation{
			{CidrBlock: ptr("10.0.0.0/16"), CidrBlockState: state("associated")}, {CidrBlock: ptr("100.64.0.0/16"), CidrBlockState: state("associating")},
			{CidrBlock: ptr("10.9.0.0/16"), CidrBlockState: state("disassociated")},
		},
		Ipv6CidrBlockAssociationSet: []ec2types.VpcIpv6CidrBlockAssociation{{Ipv6CidrBlock: ptr("2001:DB8:0::/56"), Ipv6CidrBlockState: state("associated")}},
	})
	want := map[string]any{"/cidrBlock": "10.0.0.0/16", "/cidrBlocks": []string{"10.0.0.0/16", "100.64.0.0/16", "2001:db8::/56"}}
	if diff := cmp.Diff(want, fieldsOf(got)); diff != "" {
		t.Error(diff)
	}
}

func TestInternetGateways(t *testing.T) {
	for name, tc := range map[string]struct {
		attachments []ec2types.InternetGatewayAttachment
		vpc         any
	}{
		"attached":  {[]ec2types.InternetGatewayAttachment{{VpcId: ptr("vpc-1"), State: "available"}}, "vpc-1"},
		"egress":    {[]ec2types.InternetGatewayAttachment{{VpcId: ptr("vpc-1"), State: "attached"}}, "vpc-1"},
		"detaching": {[]ec2types.InternetGatewayAttachment{{VpcId: ptr("vpc-1"), State: "detaching"}}, nil},
		"detached":  {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := newConverter().internetGateway(ptr("igw-1"), false, tc.attachments, nil)
			if fieldsOf(got)["/vpcId"] != tc.vpc || !got.Closes("/vpcId") {
				t.Errorf("attached to %v, want %v", fieldsOf(got)["/vpcId"], tc.vpc)
			}
		})
	}
}

func TestNATGateway(t *testing.T) {
	in := ec2types.NatGateway{NatGatewayId: ptr("nat-1"), State: "available", SubnetId: ptr("subnet-1"), VpcId: ptr("vpc-1"), NatGatewayAddresses: []ec2types.NatGatewayAddress{{AllocationId: ptr("eipalloc-1"), PublicIp: ptr("192.0.2.1")}, {PrivateIp: ptr("10.0.0.1")}}}
	want := map[string]any{"/state": "available", "/subnetId": "subnet-1", "/vpcId": "vpc-1", "/allocationIds": []string{"eipalloc-1"}, "/publicIps": []string{"192.0.2.1"}}
	if diff := cmp.Diff(want, fieldsOf(newConverter().natGateway(&in))); diff != "" {
		t.Error(diff)
	}
	for state, gone := range map[ec2types.NatGatewayState]string{"deleted": "deleted", "failed": "failed: Gateway.NotAttached", "deleting": "", "pending": ""} {
		in.State, in.FailureCode = state, nil
		if state == "failed" {
			in.FailureCode = ptr("Gateway.NotAttached")
		}
		if got := newConverter().natGateway(&in).Gone; got != gone {
			t.Errorf("%s: gone is %q, want %q", state, got, gone)
		}
	}
}

func TestRouteTable(t *testing.T) {
	got := newConverter().routeTable(&ec2types.RouteTable{RouteTableId: ptr("rtb-1"), VpcId: ptr("vpc-1"),
		Associations: []ec2types.RouteTableAssociation{
			{SubnetId: ptr("subnet-2")}, {SubnetId: ptr("subnet-1"), AssociationState: &ec2types.RouteTableAssociationState{State: "associated"}},
			{SubnetId: ptr("subnet-9"), AssociationState: &ec2types.RouteTableAssociationState{State: "disassociated"}},
		},
		Routes: []ec2types.Route{
			{DestinationCidrBlock: ptr("10.0.0.0/16"), GatewayId: ptr("local")},
			{DestinationCidrBlock: ptr("0.0.0.0/0"), NatGatewayId: ptr("nat-1"), State: "blackhole"},
			{DestinationIpv6CidrBlock: ptr("0::/0"), EgressOnlyInternetGatewayId: ptr("eigw-1"), State: "active"},
			{DestinationCidrBlock: ptr("192.168.0.0/24"), InstanceId: ptr("i-1"), NetworkInterfaceId: ptr("eni-1")},
			{DestinationPrefixListId: ptr("pl-1"), GatewayId: ptr("vpce-1")},
			{DestinationCidrBlock: ptr("172.16.0.0/12"), TransitGatewayId: ptr("tgw-1")},
		}})
	want := map[string]any{
		"/vpcId": "vpc-1", "/main": false, "/associations": []string{"subnet-1", "subnet-2"},
		"/routes/10.0.0.0~116": "local", "/routes/0.0.0.0~10": "blackhole nat-1", "/routes/::~10": "eigw-1",
		"/routes/192.168.0.0~124": "i-1", "/routes/pl-1": "vpce-1", "/routes/172.16.0.0~112": "tgw-1",
	}
	if diff := cmp.Diff(want, fieldsOf(got)); diff != "" {
		t.Error(diff)
	}
	if !got.Closes("/routes/9.9.9.9~132") {
		t.Error("a deleted route goes unnoticed")
	}
}

// A subnet that no table names has its VPC's main one, never another VPC's.
func TestImplicitRouteTable(t *testing.T) {
	c := newConverter()
	subnet := func(id, vpc string) *providers.Resource {
		return c.subnet(&ec2types.Subnet{SubnetId: &id, VpcId: &vpc})
	}
	table := func(id, vpc string, main bool, subnets ...string) *providers.Resource {
		in := &ec2types.RouteTable{RouteTableId: &id, VpcId: &vpc, Associations: []ec2types.RouteTableAssociation{{Main: &main}}}
		for _, s := range subnets {
			in.Associations = append(in.Associations, ec2types.RouteTableAssociation{SubnetId: ptr(s)})
		}
		return c.routeTable(in)
	}
	subnets := []*providers.Resource{subnet("a", "vpc-1"), subnet("b", "vpc-1"), subnet("c", "vpc-2"), subnet("d", "vpc-3")}
	joinRouteTables(subnets, []*providers.Resource{table("main-1", "vpc-1", true), table("own", "vpc-1", false, "b"), table("main-2", "vpc-2", true)})
	var got []string
	for _, s := range subnets {
		got = append(got, s.Fields.Get("/routeTableId").Value.Text())
	}
	if diff := cmp.Diff([]string{"main-1", "own", "main-2", ""}, got); diff != "" {
		t.Error(diff)
	}
}

// C29: a network ACL's entries are seen in words whose order is their number.
func TestC29SeenNetworkACL(t *testing.T) {
	entry := func(n int32, egress bool, protocol, action, cidr string, mods ...func(*ec2types.NetworkAclEntry)) ec2types.NetworkAclEntry {
		e := ec2types.NetworkAclEntry{RuleNumber: &n, Egress: &egress, Protocol: &protocol, RuleAction: ec2types.RuleAction(action), CidrBlock: &cidr}
		for _, mod := range mods {
			mod(&e)
		}
		return e
	}
	c := newConverter()
	got := c.networkACL(&ec2types.NetworkAcl{NetworkAclId: ptr("acl-1"), VpcId: ptr("vpc-1"), IsDefault: ptr(true), Associations: []ec2types.NetworkAclAssociation{{SubnetId: ptr("subnet-1")}}, Entries: []ec2types.NetworkAclEntry{
		entry(100, false, "6", "allow", "0.0.0.0/0", func(e *ec2types.NetworkAclEntry) {
			e.PortRange = &ec2types.PortRange{From: ptr[int32](0), To: ptr[int32](65535)}
		}),
		entry(110, false, "1", "allow", "10.0.0.0/8", func(e *ec2types.NetworkAclEntry) {
			e.IcmpTypeCode = &ec2types.IcmpTypeCode{Type: ptr[int32](8), Code: ptr[int32](-1)}
		}),
		entry(32767, false, "-1", "deny", "0.0.0.0/0"),
		entry(100, true, "-1", "allow", "0.0.0.0/0"),
	}})
	want := map[string]any{
		"/vpcId": "vpc-1", "/default": true, "/associations": []string{"subnet-1"},
		"/ingress": []string{"100 allow tcp 0-65535 from 0.0.0.0/0", "110 allow icmp type 8 from 10.0.0.0/8", "32767 deny all from 0.0.0.0/0"},
		"/egress":  []string{"100 allow all to 0.0.0.0/0"},
	}
	if diff := cmp.Diff(want, fieldsOf(got)); diff != "" {
		t.Error(diff)
	}
	subnets := []*providers.Resource{c.subnet(&ec2types.Subnet{SubnetId: ptr("subnet-1")})}
	joinNetworkACLs(subnets, []*providers.Resource{got})
	if subnets[0].Fields.Get("/networkAclId").Value.Text() != "acl-1" {
		t.Error("the subnet does not have its network ACL")
	}
}

// A block is there until EC2 says that it is not: a state that nobody knows is
// no absence, and one that is on its way out is.
func TestSubnetBlockStates(t *testing.T) {
	for state, there := range map[ec2types.SubnetCidrBlockStateCode]bool{
		"associated": true, "associating": true, "": true, "something-new": true,
		"disassociating": false, "disassociated": false, "failing": false, "failed": false,
	} {
		r := newConverter().subnet(&ec2types.Subnet{SubnetId: ptr("subnet-1"), Ipv6CidrBlockAssociationSet: []ec2types.SubnetIpv6CidrBlockAssociation{
			{Ipv6CidrBlock: ptr("2001:db8::/64"), Ipv6CidrBlockState: &ec2types.SubnetCidrBlockState{State: state}},
		}})
		if _, got := r.Fields.Lookup("/ipv6CidrBlock"); got != there {
			t.Errorf("state %q: the block is there: %v, want %v", state, got, there)
		}
	}
}
