package ec2sim_test

import (
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

var str = aws.String

// CreateVpc, ModifyVpcAttribute, DeleteVpc (EC2 API reference).
func TestVPC(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	must(w.ec2.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &n.vpc, EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	hostnames := must(w.ec2.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &n.vpc, Attribute: "enableDnsHostnames"}))(t)
	support := must(w.ec2.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &n.vpc, Attribute: "enableDnsSupport"}))(t)
	if !*hostnames.EnableDnsHostnames.Value || !*support.EnableDnsSupport.Value || hostnames.EnableDnsSupport != nil {
		t.Errorf("attributes %+v and %+v", hostnames, support)
	}
	added := must(w.ec2.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{VpcId: &n.vpc, CidrBlock: str("10.1.0.0/16")}))(t)
	v := must(w.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{n.vpc}}))(t).Vpcs[0]
	if len(v.CidrBlockAssociationSet) != 2 || *v.CidrBlock != "10.0.0.0/16" || v.DhcpOptionsId == nil {
		t.Errorf("VPC %+v", v)
	}
	must(w.ec2.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: added.CidrBlockAssociation.AssociationId}))(t)
	must(w.ec2.DescribeDhcpOptions(ctx, &ec2.DescribeDhcpOptionsInput{DhcpOptionsIds: []string{*v.DhcpOptionsId}}))(t)

	_, err := w.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &n.vpc})
	wantCode(t, err, "DependencyViolation", 400)
	must(w.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &n.subnet}))(t)
	must(w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &n.group}))(t)
	must(w.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &n.vpc}))(t)
	if rest := must(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{}))(t); len(rest.SecurityGroups) != 0 {
		t.Error("the default group outlives its VPC")
	}
	_, err = w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: str("10.0.0.0/8")})
	wantCode(t, err, "InvalidVpc.Range", 400)
}

// CreateSubnet, ModifySubnetAttribute (EC2 API reference), subnet sizing.
func TestSubnet(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	for cidr, code := range map[string]string{
		"10.0.0.0/24": "InvalidSubnet.Conflict", "10.9.0.0/24": "InvalidSubnet.Range", "10.0.64.0/29": "InvalidSubnet.Range", "x": "InvalidParameterValue",
	} {
		_, err := w.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &n.vpc, CidrBlock: &cidr})
		wantCode(t, err, code, 400)
	}
	s := must(w.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &n.vpc, CidrBlock: str("10.0.64.7/28"), AvailabilityZone: str(region + "b")}))(t).Subnet
	if *s.CidrBlock != "10.0.64.0/28" || *s.AvailableIpAddressCount != 11 || *s.AvailabilityZone != region+"b" {
		t.Errorf("subnet %s with %d addresses in %s", *s.CidrBlock, *s.AvailableIpAddressCount, *s.AvailabilityZone)
	}
	must(w.ec2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: s.SubnetId, MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	must(w.ec2.AssociateSubnetCidrBlock(ctx, &ec2.AssociateSubnetCidrBlockInput{SubnetId: s.SubnetId, Ipv6CidrBlock: str("2600:1f18::/64")}))(t)
	got := must(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{*s.SubnetId}}))(t).Subnets[0]
	if !*got.MapPublicIpOnLaunch || len(got.Ipv6CidrBlockAssociationSet) != 1 {
		t.Errorf("subnet %+v", got)
	}
	must(w.ec2.DisassociateSubnetCidrBlock(ctx, &ec2.DisassociateSubnetCidrBlockInput{AssociationId: got.Ipv6CidrBlockAssociationSet[0].AssociationId}))(t)
	if rest := must(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{*s.SubnetId}}))(t).Subnets[0]; len(rest.Ipv6CidrBlockAssociationSet) != 0 {
		t.Errorf("subnet %+v still has an IPv6 block", rest)
	}
	_, err := w.ec2.DisassociateSubnetCidrBlock(ctx, &ec2.DisassociateSubnetCidrBlockInput{AssociationId: got.Ipv6CidrBlockAssociationSet[0].AssociationId})
	wantCode(t, err, "InvalidSubnetCidrBlockAssociationID.NotFound", 400)
	small := n
	small.subnet = *s.SubnetId
	if i := w.run(t, small); i.PublicIpAddress == nil || *i.PrivateIpAddress != "10.0.64.4" {
		t.Errorf("addresses %v and %s", i.PublicIpAddress, *i.PrivateIpAddress)
	}
	_, err = w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &n.image, SubnetId: s.SubnetId, MinCount: aws.Int32(11), MaxCount: aws.Int32(11)})
	wantCode(t, err, "InsufficientFreeAddressesInSubnet", 400)
	_, err = w.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: s.SubnetId})
	wantCode(t, err, "DependencyViolation", 400)
}

// Route tables, gateways and NAT gateways: a route whose target is gone is a
// blackhole (Route, EC2 API reference).
func TestRoutes(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	igw := must(w.ec2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
	eip := must(w.ec2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: "vpc"}))(t).AllocationId
	table := must(w.ec2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &n.vpc}))(t).RouteTable.RouteTableId
	nat := &ec2.CreateNatGatewayInput{SubnetId: &n.subnet, AllocationId: eip}
	_, err := w.ec2.CreateNatGateway(ctx, nat)
	wantCode(t, err, "Gateway.NotAttached", 400)
	_, err = w.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: str("0.0.0.0/0"), GatewayId: igw})
	wantCode(t, err, "InvalidParameterValue", 400)
	must(w.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: igw, VpcId: &n.vpc}))(t)
	_, err = w.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: igw, VpcId: &n.vpc})
	wantCode(t, err, "Resource.AlreadyAssociated", 400)
	natID := must(w.ec2.CreateNatGateway(ctx, nat))(t).NatGateway.NatGatewayId
	eigw := must(w.ec2.CreateEgressOnlyInternetGateway(ctx, &ec2.CreateEgressOnlyInternetGatewayInput{VpcId: &n.vpc}))(t).EgressOnlyInternetGateway.EgressOnlyInternetGatewayId

	must(w.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: str("0.0.0.0/0"), GatewayId: igw}))(t)
	must(w.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: str("100.68.0.18/18"), NatGatewayId: natID}))(t)
	must(w.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: table, DestinationIpv6CidrBlock: str("::/0"), EgressOnlyInternetGatewayId: eigw}))(t)
	_, err = w.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: table, DestinationCidrBlock: str("0.0.0.0/0"), NatGatewayId: natID})
	wantCode(t, err, "RouteAlreadyExists", 400)
	routes := func() map[string]string {
		out := must(w.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{*table}}))(t)
		got := map[string]string{}
		for _, r := range out.RouteTables[0].Routes {
			got[aws.ToString(r.DestinationCidrBlock)+aws.ToString(r.DestinationIpv6CidrBlock)] = string(r.State)
		}
		return got
	}
	want := map[string]string{"10.0.0.0/16": "active", "0.0.0.0/0": "active", "100.68.0.0/18": "active", "::/0": "active"}
	if diff := cmp.Diff(want, routes()); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	state := func() types.NatGatewayState {
		return must(w.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*natID}}))(t).NatGateways[0].State
	}
	states := []types.NatGatewayState{state()}
	w.pass(time.Minute)
	states = append(states, state())
	must(w.ec2.DeleteNatGateway(ctx, &ec2.DeleteNatGatewayInput{NatGatewayId: natID}))(t)
	states = append(states, state())
	_, err = w.ec2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: eip})
	wantCode(t, err, "InvalidIPAddress.InUse", 400)
	w.pass(time.Minute)
	states = append(states, state())
	if diff := cmp.Diff([]types.NatGatewayState{"pending", "available", "deleting", "deleted"}, states); diff != "" {
		t.Errorf("NAT gateway (-want +got):\n%s", diff)
	}
	must(w.ec2.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: igw, VpcId: &n.vpc}))(t)
	must(w.ec2.DeleteEgressOnlyInternetGateway(ctx, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: eigw}))(t)
	want = map[string]string{"10.0.0.0/16": "active", "0.0.0.0/0": "blackhole", "100.68.0.0/18": "blackhole", "::/0": "blackhole"}
	if diff := cmp.Diff(want, routes()); diff != "" {
		t.Errorf("routes without targets (-want +got):\n%s", diff)
	}
	target := w.run(t, n)
	must(w.ec2.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{RouteTableId: table, DestinationCidrBlock: str("0.0.0.0/0"), NetworkInterfaceId: target.NetworkInterfaces[0].NetworkInterfaceId}))(t)
	must(w.ec2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: table, DestinationCidrBlock: str("100.68.0.0/18")}))(t)
	_, err = w.ec2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: table, DestinationCidrBlock: str("100.68.0.0/18")})
	wantCode(t, err, "InvalidRoute.NotFound", 400)
	must(w.ec2.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: igw}))(t)
	must(w.ec2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: eip}))(t)
	must(w.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{}))(t)
	must(w.ec2.DescribeEgressOnlyInternetGateways(ctx, &ec2.DescribeEgressOnlyInternetGatewaysInput{}))(t)
}

// AssociateRouteTable, ReplaceRouteTableAssociation (EC2 API reference): a
// subnet without an association uses the VPC's main table.
func TestRouteTableAssociations(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	main := must(w.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{{Name: str("association.main"), Values: []string{"true"}}}}))(t).RouteTables[0]
	table := must(w.ec2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &n.vpc}))(t).RouteTable.RouteTableId
	first := must(w.ec2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: table, SubnetId: &n.subnet}))(t)
	_, err := w.ec2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: main.RouteTableId, SubnetId: &n.subnet})
	wantCode(t, err, "Resource.AlreadyAssociated", 400)
	_, err = w.ec2.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: table})
	wantCode(t, err, "DependencyViolation", 400)
	moved := must(w.ec2.ReplaceRouteTableAssociation(ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: first.AssociationId, RouteTableId: main.RouteTableId}))(t)
	if *moved.NewAssociationId == *first.AssociationId {
		t.Error("a replaced association keeps its id")
	}
	must(w.ec2.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: moved.NewAssociationId}))(t)
	must(w.ec2.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: table}))(t)
	_, err = w.ec2.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: main.Associations[0].RouteTableAssociationId})
	wantCode(t, err, "InvalidParameterValue", 400)
}

// Network ACLs (VPC user guide and EC2 API reference).
func TestNetworkACLs(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	acls := must(w.ec2.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{Filters: []types.Filter{{Name: str("default"), Values: []string{"true"}}}}))(t).NetworkAcls
	if len(acls) != 1 || len(acls[0].Entries) != 4 || len(acls[0].Associations) != 1 || *acls[0].Associations[0].SubnetId != n.subnet {
		t.Fatalf("default ACLs %+v", acls)
	}
	own := must(w.ec2.CreateNetworkAcl(ctx, &ec2.CreateNetworkAclInput{VpcId: &n.vpc}))(t).NetworkAcl.NetworkAclId
	entry := &ec2.CreateNetworkAclEntryInput{
		NetworkAclId: own, RuleNumber: aws.Int32(100), Egress: aws.Bool(false), Protocol: str("tcp"), RuleAction: "allow",
		CidrBlock: str("10.1.2.3/8"), PortRange: &types.PortRange{From: aws.Int32(443), To: aws.Int32(443)},
	}
	must(w.ec2.CreateNetworkAclEntry(ctx, entry))(t)
	_, err := w.ec2.CreateNetworkAclEntry(ctx, entry)
	wantCode(t, err, "NetworkAclEntryAlreadyExists", 400)
	must(w.ec2.ReplaceNetworkAclEntry(ctx, &ec2.ReplaceNetworkAclEntryInput{
		NetworkAclId: own, RuleNumber: aws.Int32(100), Egress: aws.Bool(false), Protocol: str("-1"), RuleAction: "deny", CidrBlock: str("10.1.2.3/8"),
	}))(t)
	must(w.ec2.ReplaceNetworkAclAssociation(ctx, &ec2.ReplaceNetworkAclAssociationInput{AssociationId: acls[0].Associations[0].NetworkAclAssociationId, NetworkAclId: own}))(t)
	got := must(w.ec2.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{NetworkAclIds: []string{*own}}))(t).NetworkAcls[0]
	var words []string
	for _, e := range got.Entries {
		if !*e.Egress {
			words = append(words, *e.Protocol+" "+string(e.RuleAction)+" "+*e.CidrBlock)
		}
	}
	if diff := cmp.Diff([]string{"-1 deny 10.0.0.0/8", "-1 deny 0.0.0.0/0"}, words); diff != "" || len(got.Associations) != 1 {
		t.Errorf("associations %v, entries (-want +got):\n%s", got.Associations, diff)
	}
	_, err = w.ec2.DeleteNetworkAcl(ctx, &ec2.DeleteNetworkAclInput{NetworkAclId: own})
	wantCode(t, err, "DependencyViolation", 400)
	must(w.ec2.DeleteNetworkAclEntry(ctx, &ec2.DeleteNetworkAclEntryInput{NetworkAclId: own, RuleNumber: aws.Int32(100), Egress: aws.Bool(false)}))(t)
	must(w.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &n.subnet}))(t)
	must(w.ec2.DeleteNetworkAcl(ctx, &ec2.DeleteNetworkAclInput{NetworkAclId: own}))(t)
}

// VPC user guide, "Default network ACL": with its first IPv6 block a VPC's
// default ACL gets rules for IPv6, once.
func TestDefaultACLOfIPv6(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	ctx := t.Context()
	id := must(w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: str("10.0.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Vpc.VpcId
	must(w.ec2.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{VpcId: id, AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t)
	rules := map[int32]string{}
	for _, a := range must(w.ec2.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{Filters: []types.Filter{{Name: str("vpc-id"), Values: []string{*id}}}}))(t).NetworkAcls {
		for _, e := range a.Entries {
			rules[*e.RuleNumber] += string(e.RuleAction) + aws.ToString(e.CidrBlock) + aws.ToString(e.Ipv6CidrBlock) + " "
		}
	}
	want := map[int32]string{100: "allow0.0.0.0/0 allow0.0.0.0/0 ", 101: "allow::/0 allow::/0 ", 32767: "deny0.0.0.0/0 deny0.0.0.0/0 ", 32768: "deny::/0 deny::/0 "}
	if !maps.Equal(rules, want) {
		t.Errorf("rules %v, want %v", rules, want)
	}
}
