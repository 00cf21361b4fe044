package ec2sim_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

func tcp(port int32, cidrs ...string) types.IpPermission {
	p := types.IpPermission{IpProtocol: str("tcp"), FromPort: &port, ToPort: &port}
	for _, cidr := range cidrs {
		p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: &cidr, Description: str("of " + cidr)})
	}
	return p
}

// AuthorizeSecurityGroupIngress, RevokeSecurityGroupIngress,
// DescribeSecurityGroupRules (EC2 API reference).
func TestSecurityGroupRules(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	allow := func(p ...types.IpPermission) (*ec2.AuthorizeSecurityGroupIngressOutput, error) {
		return w.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &n.group, IpPermissions: p})
	}
	revoke := func(p ...types.IpPermission) error {
		return second(w.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &n.group, IpPermissions: p}))
	}
	group := func() types.SecurityGroup {
		return must(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{n.group}}))(t).SecurityGroups[0]
	}
	out := must(allow(tcp(443, "10.1.2.3/8", "192.0.2.0/24"), tcp(22, "10.0.0.0/8")))(t)
	if len(out.SecurityGroupRules) != 3 {
		t.Errorf("the answer has %d of 3 rules", len(out.SecurityGroupRules))
	}
	must(allow(types.IpPermission{IpProtocol: str("-1"), FromPort: aws.Int32(8080), ToPort: aws.Int32(8080), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &n.group, Description: str("itself")}}}))(t)
	must(allow(types.IpPermission{IpProtocol: str("6"), FromPort: aws.Int32(443), ToPort: aws.Int32(443), Ipv6Ranges: []types.Ipv6Range{{CidrIpv6: str("2001:DB8::1/32")}}}))(t)
	got := group()
	if len(got.IpPermissions) != 3 {
		t.Fatalf("%d merged permissions, want 3", len(got.IpPermissions))
	}
	web, all := got.IpPermissions[0], got.IpPermissions[2]
	if *web.IpProtocol != "tcp" || len(web.IpRanges) != 2 || *web.IpRanges[0].CidrIp != "10.0.0.0/8" || *web.IpRanges[0].Description != "of 10.1.2.3/8" ||
		len(web.Ipv6Ranges) != 1 || *web.Ipv6Ranges[0].CidrIpv6 != "2001:db8::/32" {
		t.Errorf("merged %+v", web)
	}
	if *all.IpProtocol != "-1" || all.FromPort != nil || *all.UserIdGroupPairs[0].Description != "itself" {
		t.Errorf("all protocols %+v", all)
	}
	if len(got.IpPermissionsEgress) != 1 || *got.IpPermissionsEgress[0].IpRanges[0].CidrIp != "0.0.0.0/0" {
		t.Errorf("egress of a new group %+v", got.IpPermissionsEgress)
	}
	rules := must(w.ec2.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{{Name: str("group-id"), Values: []string{n.group}}}}))(t).SecurityGroupRules
	if len(rules) != 6 {
		t.Errorf("%d exploded rules, want 6", len(rules))
	}

	wantCode(t, second(allow(tcp(80, "10.0.0.0/8"), tcp(443, "10.9.9.9/8"))), "InvalidPermission.Duplicate", 400)
	wantCode(t, second(allow(tcp(80, "10.0.0.0/8"), tcp(80, "10.1.0.0/8"))), "InvalidParameterValue", 400)
	wantCode(t, second(allow(tcp(70000, "10.0.0.0/8"))), "InvalidParameterValue", 400)
	wantCode(t, second(allow(types.IpPermission{IpProtocol: str("quic"), IpRanges: []types.IpRange{{CidrIp: str("10.0.0.0/8")}}})), "InvalidParameterValue", 400)
	wantCode(t, revoke(tcp(22, "10.0.0.0/8"), tcp(80, "10.0.0.0/8")), "InvalidPermission.NotFound", 400)
	if n := len(group().IpPermissions); n != 3 {
		t.Errorf("refused requests leave %d permissions, want 3", n)
	}
	other := tcp(22, "10.0.0.0/8")
	other.IpRanges[0].Description = str("another")
	must(w.ec2.UpdateSecurityGroupRuleDescriptionsIngress(ctx, &ec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: &n.group, IpPermissions: []types.IpPermission{other}}))(t)
	if err := revoke(tcp(22, "10.0.0.0/8")); err != nil {
		t.Errorf("a description is part of a rule's identity: %v", err)
	}
	must(w.ec2.ModifySecurityGroupRules(ctx, &ec2.ModifySecurityGroupRulesInput{GroupId: &n.group, SecurityGroupRules: []types.SecurityGroupRuleUpdate{{
		SecurityGroupRuleId: out.SecurityGroupRules[0].SecurityGroupRuleId,
		SecurityGroupRule:   &types.SecurityGroupRuleRequest{IpProtocol: str("udp"), FromPort: aws.Int32(53), ToPort: aws.Int32(53), CidrIpv4: str("10.0.0.0/8")},
	}}}))(t)
	must(w.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &n.group, SecurityGroupRuleIds: []string{*out.SecurityGroupRules[0].SecurityGroupRuleId}}))(t)
}

func TestSecurityGroupEgress(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	everything := []types.IpPermission{{IpProtocol: str("-1"), IpRanges: []types.IpRange{{CidrIp: str("0.0.0.0/0")}}}}
	must(w.ec2.UpdateSecurityGroupRuleDescriptionsEgress(ctx, &ec2.UpdateSecurityGroupRuleDescriptionsEgressInput{GroupId: &n.group, IpPermissions: everything}))(t)
	must(w.ec2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: &n.group, IpPermissions: everything}))(t)
	must(w.ec2.AuthorizeSecurityGroupEgress(ctx, &ec2.AuthorizeSecurityGroupEgressInput{GroupId: &n.group, IpPermissions: []types.IpPermission{tcp(443, "0.0.0.0/0")}}))(t)
	got := must(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{n.group}}))(t).SecurityGroups[0]
	if len(got.IpPermissionsEgress) != 1 || *got.IpPermissionsEgress[0].IpProtocol != "tcp" || len(got.IpPermissions) != 0 {
		t.Errorf("group %+v", got)
	}
}

// CreateSecurityGroup, DeleteSecurityGroup (EC2 API reference).
func TestSecurityGroupErrors(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	_, err := w.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &n.vpc, GroupName: str("nodes"), Description: str("again")})
	wantCode(t, err, "InvalidGroup.Duplicate", 400)
	i := w.run(t, n)
	_, err = w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &n.group})
	wantCode(t, err, "DependencyViolation", 400)
	must(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
	w.pass(ec2sim.DefaultDelays().ShuttingDown)
	must(w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &n.group}))(t)
	all := must(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{}))(t).SecurityGroups
	if len(all) != 1 {
		t.Fatalf("%d groups, want the default one", len(all))
	}
	_, err = w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: all[0].GroupId})
	wantCode(t, err, "CannotDelete", 400)
	if pairs := all[0].IpPermissions[0].UserIdGroupPairs; len(pairs) != 1 || *pairs[0].GroupId != *all[0].GroupId {
		t.Errorf("the default group allows %+v", pairs)
	}
}

// ModifyNetworkInterfaceAttribute (EC2 API reference) shows in
// DescribeInstances; only the named interface changes.
func TestNetworkInterfaces(t *testing.T) {
	w := newWorld(t, ec2sim.Options{Delays: &ec2sim.Delays{}})
	n := w.network(t)
	ctx := t.Context()
	i := w.run(t, n)
	extra := must(w.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: &n.vpc, GroupName: str("extra"), Description: str("extra")}))(t).GroupId
	second := must(w.ec2.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{SubnetId: &n.subnet, Groups: []string{n.group}, PrivateIpAddress: str("10.0.9.9")}))(t).NetworkInterface.NetworkInterfaceId
	attached := must(w.ec2.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{NetworkInterfaceId: second, InstanceId: i.InstanceId, DeviceIndex: aws.Int32(1)}))(t)
	must(w.ec2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: i.NetworkInterfaces[0].NetworkInterfaceId, Groups: []string{*extra}}))(t)
	got := w.instance(t, *i.InstanceId)
	if *got.SecurityGroups[0].GroupId != *extra || len(got.NetworkInterfaces) != 2 || *got.NetworkInterfaces[1].Groups[0].GroupId != n.group {
		t.Errorf("groups %+v", got.SecurityGroups)
	}
	_, err := w.ec2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: i.InstanceId, Groups: []string{n.group}})
	wantCode(t, err, "InvalidInstanceID", 400)
	_, err = w.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: second})
	wantCode(t, err, "InvalidNetworkInterface.InUse", 400)
	found := must(w.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{
		{Name: str("attachment.instance-id"), Values: []string{*i.InstanceId}}, {Name: str("attachment.device-index"), Values: []string{"1"}},
	}}))(t).NetworkInterfaces
	if len(found) != 1 || *found[0].NetworkInterfaceId != *second || *found[0].PrivateIpAddresses[0].PrivateIpAddress != "10.0.9.9" {
		t.Errorf("interfaces %+v", found)
	}
	must(w.ec2.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: attached.AttachmentId}))(t)
	must(w.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: second}))(t)
	must(w.ec2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: i.InstanceId, Groups: []string{n.group}}))(t)

	eip := must(w.ec2.AllocateAddress(ctx, &ec2.AllocateAddressInput{}))(t)
	bound := must(w.ec2.AssociateAddress(ctx, &ec2.AssociateAddressInput{AllocationId: eip.AllocationId, InstanceId: i.InstanceId}))(t)
	if got := w.instance(t, *i.InstanceId); aws.ToString(got.PublicIpAddress) != *eip.PublicIp {
		t.Errorf("public address %v, want %s", got.PublicIpAddress, *eip.PublicIp)
	}
	must(w.ec2.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: bound.AssociationId}))(t)
	addresses := must(w.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{}))(t).Addresses
	if diff := cmp.Diff(1, len(addresses)); diff != "" || addresses[0].AssociationId != nil {
		t.Errorf("addresses %+v", addresses)
	}
}
