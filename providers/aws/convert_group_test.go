package aws

import (
	"strings"
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
		if diff := cmp.Diff(want, r.Fields.Get("/ingress").Value.Elements()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if one.Name != "c1-node" || one.Fields.Get("/vpcId").Value.Text() != "vpc-1" {
		t.Errorf("group %+v", one)
	}
	if !one.Closes("/egress") || !one.Fields.Get("/egress").Value.IsSet() {
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
		permission("udp", 9, 9, described("10.0.0.0/8", "kubernetes.io/rule/nlb/client=a1")),
		permission("tcp", 22, 22, fromGroup("sg-person", "", "my elbv2.k8s.aws/ copy")),
	}})
	elb := c.securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-elb"), GroupName: ptr("k8s-elb-a1b2"), Tags: []ec2types.Tag{{Key: ptr("kubernetes.io/cluster/c1"), Value: ptr("owned")}}})
	adoptForeignRules([]*providers.Resource{nodes, elb})
	want := map[string]string{
		"tcp 30000-32767 from sg-lb": ownerLBController,
		"all from sg-elb":            ownerCloud,
		"udp 9-9 from 10.0.0.0/8":    ownerCloud,
	}
	if diff := cmp.Diff(want, nodes.Fields.Get("/ingress").Foreign); diff != "" {
		t.Error(diff)
	}
	if elb.ForeignTo != ownerCloud {
		t.Errorf("the load balancer's group is foreign to %q", elb.ForeignTo)
	}
}

func described(cidr, description string) func(*ec2types.IpPermission) {
	return func(p *ec2types.IpPermission) {
		if strings.Contains(cidr, ":") {
			p.Ipv6Ranges = append(p.Ipv6Ranges, ec2types.Ipv6Range{CidrIpv6: &cidr, Description: &description})
			return
		}
		p.IpRanges = append(p.IpRanges, ec2types.IpRange{CidrIp: &cidr, Description: &description})
	}
}

// C07: whoever may add a rule may describe it as a controller's. One that lets
// in the world is not hidden for that, whole or in parts; egress and what a
// private network reaches is left to the description.
func TestC07ForgedDescription(t *testing.T) {
	const forged = "elbv2.k8s.aws/targetGroupBinding=shared"
	for peer, claimed := range map[string]bool{
		"0.0.0.0/0": true, "128.0.0.0/1": true, "16.0.0.0/7": true, "10.0.0.0/8": false, "192.0.2.7/32": false,
		"::/0": true, "2000::/3": true, "fc00::/7": false, "2001:db8::/32": false,
	} {
		got := newConverter().securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-1"),
			IpPermissions:       []ec2types.IpPermission{permission("tcp", 22, 22, described(peer, forged))},
			IpPermissionsEgress: []ec2types.IpPermission{permission("tcp", 22, 22, described(peer, forged))},
		})
		in, out := got.Fields.Get("/ingress"), got.Fields.Get("/egress")
		rule := "tcp 22-22 from " + peer
		if (in.Claimed[rule] == ownerLBController) != claimed || (in.Foreign[rule] == ownerLBController) == claimed {
			t.Errorf("%s is claimed by %q and foreign to %q", rule, in.Claimed[rule], in.Foreign[rule])
		}
		if out.Claimed != nil || len(out.Foreign) != 1 {
			t.Errorf("egress to %s: claimed %v, foreign %v", peer, out.Claimed, out.Foreign)
		}
	}
	plain := newConverter().securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-1"), IpPermissions: []ec2types.IpPermission{permission("tcp", 22, 22, described("0.0.0.0/0", "ssh"))}})
	if f := plain.Fields.Get("/ingress"); f.Claimed != nil || f.Foreign != nil {
		t.Errorf("a rule that nobody claims: %+v", f)
	}
}

// A rule that cannot be read must not look like one that is not there.
func TestUnreadableRule(t *testing.T) {
	got := newConverter().securityGroup(&ec2types.SecurityGroup{GroupId: ptr("sg-1"), IpPermissions: []ec2types.IpPermission{permission("tcp", 443, 443, fromCIDRs("not a prefix"))}})
	if got.Unknown == "" {
		t.Error("the group is not unknown")
	}
}
