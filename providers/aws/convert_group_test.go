package aws

import (
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

func permission(protocol string, from, to int32, mods ...func(*ec2types.IpPermission)) ec2types.IpPermission {
	p := ec2types.IpPermission{IpProtocol: &protocol}
	if protocol != "-1" {
		p.FromPort, p.ToPort = &from, &to
	}
	for _, mod := range mods {
		mod(&p)
	}
	return p
}

func fromCIDRs(cidrs ...string) func(*ec2types.IpPermission) {
	return func(p *ec2types.IpPermission) {
		for _, c := range cidrs {
			p.IpRanges = append(p.IpRanges, ec2types.IpRange{CidrIp: ptr(c), Description: ptr("for " + c)})
		}
	}
}

func fromGroup(id, account, description string) func(*ec2types.IpPermission) {
	return func(p *ec2types.IpPermission) {
		p.UserIdGroupPairs = append(p.UserIdGroupPairs, ec2types.UserIdGroupPair{GroupId: &id, UserId: &account, Description: &description})
	}
}

// C04: one permission of several peers is as many rules, whatever their order
// and however often one comes.
func TestC04SeenRules(t *testing.T) {
	one := newConverter().securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-1"), GroupName: ptr("c1-node"), VpcId: ptr("vpc-1"), OwnerId: ptr("123456789012"), IpPermissions: []ec2types.IpPermission{
		permission("tcp", 443, 443, fromCIDRs("10.2.0.0/16", "10.1.0.0/16", "10.0.0.0/16", "10.1.0.0/16")),
	}})
	three := newConverter().securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-1"), IpPermissions: []ec2types.IpPermission{
		permission("6", 443, 443, fromCIDRs("10.0.0.0/16")), permission("tcp", 443, 443, fromCIDRs("10.1.0.0/16")), permission("tcp", 443, 443, fromCIDRs("10.2.0.0/16")),
	}})
	want := []string{"tcp 443-443 from 10.0.0.0/16", "tcp 443-443 from 10.1.0.0/16", "tcp 443-443 from 10.2.0.0/16"}
	for name, r := range map[string]*providers.Resource{"one permission": one, "three": three} {
		if diff := cmp.Diff(want, r.Fields["/ingress"].Value.Elements()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if one.Name != "c1-node" || one.Fields["/vpcId"].Value.Text() != "vpc-1" {
		t.Errorf("group %+v", one)
	}
	if !one.Closes("/egress") || !one.Fields["/egress"].Value.IsSet() {
		t.Error("a group without egress rules does not say so")
	}
}

func TestPeersAndDirections(t *testing.T) {
	got := newConverter().securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-1"), OwnerId: ptr("123456789012"), IpPermissions: []ec2types.IpPermission{
		permission("-1", 0, 0, fromGroup("sg-1", "123456789012", "")),
		permission("tcp", 22, 22, fromGroup("sg-peer", "999999999999", "")),
		permission("udp", 53, 53, func(p *ec2types.IpPermission) { p.PrefixListIds = []ec2types.PrefixListId{{PrefixListId: ptr("pl-1")}} }),
		permission("icmp", 3, 4, func(p *ec2types.IpPermission) { p.Ipv6Ranges = []ec2types.Ipv6Range{{CidrIpv6: ptr("2001:DB8::/32")}} }),
	}, IpPermissionsEgress: []ec2types.IpPermission{permission("-1", 0, 0, fromCIDRs("0.0.0.0/0"))}})
	if got.Unknown != "" {
		t.Fatal(got.Unknown)
	}
	want := map[string]any{
		"/ingress": []string{"all from sg-1", "icmp type 3 code 4 from 2001:db8::/32", "tcp 22-22 from 999999999999/sg-peer", "udp 53-53 from pl-1"},
		"/egress":  []string{"all to 0.0.0.0/0"},
	}
	if diff := cmp.Diff(want, fieldsOf(got)); diff != "" {
		t.Error(diff)
	}
}

// C07: rules that a load balancer's controller added to the nodes' group are
// its own: by their description, or by the group that they let in.
func TestC07SeenForeignRules(t *testing.T) {
	c := newConverter()
	nodes := c.securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-node"), IpPermissions: []ec2types.IpPermission{
		permission("tcp", 30000, 32767, fromGroup("sg-lb", "", "elbv2.k8s.aws/targetGroupBinding=shared")),
		permission("-1", 0, 0, fromGroup("sg-elb", "", "")),
		permission("tcp", 8080, 8080, func(p *ec2types.IpPermission) {
			p.IpRanges = []ec2types.IpRange{{CidrIp: ptr("0.0.0.0/0"), Description: ptr("kubernetes.io/rule/nlb/client=a1")}}
		}),
		permission("tcp", 22, 22, fromGroup("sg-person", "", "my elbv2.k8s.aws/ copy")),
	}})
	elb := c.securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-elb"), GroupName: ptr("k8s-elb-a1b2"), Tags: []ec2types.Tag{{Key: ptr("kubernetes.io/cluster/c1"), Value: ptr("owned")}}})
	adoptForeignRules([]*providers.Resource{nodes, elb})
	want := map[string]string{
		"tcp 30000-32767 from sg-lb":   ownerLBController,
		"all from sg-elb":              ownerCloud,
		"tcp 8080-8080 from 0.0.0.0/0": ownerCloud,
	}
	if diff := cmp.Diff(want, nodes.Fields["/ingress"].Foreign); diff != "" {
		t.Error(diff)
	}
	if elb.ForeignTo != ownerCloud {
		t.Errorf("the load balancer's group is foreign to %q", elb.ForeignTo)
	}
}

// A rule that cannot be read must not look like one that is not there.
func TestUnreadableRule(t *testing.T) {
	got := newConverter().securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-1"), IpPermissions: []ec2types.IpPermission{permission("tcp", 443, 443, fromCIDRs("not a prefix"))}})
	if got.Unknown == "" {
		t.Error("the group is not unknown")
	}
}
