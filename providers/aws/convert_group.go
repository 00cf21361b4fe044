package aws

import (
	"fmt"
	"net/netip"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

var closedGroup = []string{"/tags", "/ingress", "/egress"}

// securityGroup converts one group (EC2, SecurityGroup). A permission is
// exploded to one rule for each of its peers.
func (c converter) securityGroup(in *ec2types.SecurityGroup) *providers.Resource {
	r := c.resource(providers.KindSecurityGroup, in.GroupId, 12)
	r.Closed = closedGroup
	c.tags(r, in.Tags)
	r.Name = deref(in.GroupName)
	c.text(r, "/vpcId", in.VpcId)
	c.text(r, "/description", in.Description)
	// The in-tree cloud provider names its load balancers' groups so, and
	// gives them no tag but the cluster's.
	if r.ForeignTo == "" && strings.HasPrefix(r.Name, "k8s-elb-") {
		r.ForeignTo = ownerCloud
	}
	owner := deref(in.OwnerId)
	c.rules(r, canonical.Ingress, owner, in.IpPermissions)
	c.rules(r, canonical.Egress, owner, in.IpPermissionsEgress)
	return r
}

func (c converter) rules(r *providers.Resource, direction, account string, permissions []ec2types.IpPermission) {
	var words []string
	var foreign, claimed map[string]string
	for i := range permissions {
		p := &permissions[i]
		for _, peer := range peers(p, account) {
			w, warning, err := canonical.Rule(direction, deref(p.IpProtocol), portOf(p.FromPort), portOf(p.ToPort), peer.name)
			if err != nil {
				r.Unknown = fmt.Sprintf("rule that EC2 reports cannot be read: %v", err)
				continue
			}
			if warning != "" {
				r.Warnings = append(r.Warnings, warning)
			}
			w = c.names.text(w)
			words = append(words, w)
			into := &foreign
			if direction == canonical.Ingress && opensWide(peer.name) {
				into = &claimed
			}
			if owner := foreignByDescription(peer.description); owner != "" {
				if *into == nil {
					*into = map[string]string{}
				}
				(*into)[w] = owner
			}
		}
	}
	path := "/" + direction
	c.set(r, path, words)
	f := r.Fields.Get(path)
	f.Foreign, f.Claimed = foreign, claimed
	r.Fields.Set(path, f)
}

type peer struct{ name, description string }

// peers lists the other ends of a permission. A group of another account is
// named with it: ids are unique in a region, but a spec can only mean it so.
func peers(p *ec2types.IpPermission, account string) []peer {
	var out []peer
	for i := range p.IpRanges {
		out = append(out, peer{deref(p.IpRanges[i].CidrIp), deref(p.IpRanges[i].Description)})
	}
	for i := range p.Ipv6Ranges {
		out = append(out, peer{deref(p.Ipv6Ranges[i].CidrIpv6), deref(p.Ipv6Ranges[i].Description)})
	}
	for i := range p.PrefixListIds {
		out = append(out, peer{deref(p.PrefixListIds[i].PrefixListId), deref(p.PrefixListIds[i].Description)})
	}
	for i := range p.UserIdGroupPairs {
		g := &p.UserIdGroupPairs[i]
		name := deref(g.GroupId)
		if user := deref(g.UserId); user != "" && account != "" && user != account {
			name = user + "/" + name
		}
		out = append(out, peer{name, deref(g.Description)})
	}
	return out
}

func portOf(n *int32) int64 {
	if n == nil {
		return canonical.NoPort
	}
	return int64(*n)
}

// foreignByDescription knows the descriptions by which controllers mark the
// rules that they add to groups of others: the AWS Load Balancer Controller's
// target group bindings, and the cloud provider's rules for network load
// balancers.
func foreignByDescription(description string) string {
	switch {
	case strings.HasPrefix(description, "elbv2.k8s.aws/"):
		return ownerLBController
	case strings.HasPrefix(description, "kubernetes.io/rule/nlb/"):
		return ownerCloud
	default:
		return ""
	}
}

// opensWide reports whether a peer is so much of the internet that whoever
// lets it in lets in the world: a block larger than any private one (RFC 1918,
// 10.0.0.0/8; RFC 4193, fc00::/7), for two halves are the whole as well.
// Everybody who may add a rule may describe it as a controller's.
func opensWide(peer string) bool {
	cidr, err := netip.ParsePrefix(peer)
	return err == nil && (cidr.Bits() < 7 || cidr.Addr().Is4() && cidr.Bits() == 7)
}

// adoptForeignRules marks rules whose peer is a group that belongs to another
// controller: the cloud provider opens the nodes' group to its load balancers'
// groups without a description.
func adoptForeignRules(groups []*providers.Resource) {
	owners := map[string]string{}
	for _, g := range groups {
		if g.ForeignTo != "" {
			owners[g.ID.Name] = g.ForeignTo
		}
	}
	if len(owners) == 0 {
		return
	}
	for _, g := range groups {
		for _, path := range []string{"/ingress", "/egress"} {
			f := g.Fields.Get(path)
			for _, w := range f.Value.Elements() {
				owner := owners[w[strings.LastIndexByte(w, ' ')+1:]]
				if owner == "" || f.Foreign[w] != "" {
					continue
				}
				if f.Foreign == nil {
					f.Foreign = map[string]string{}
				}
				f.Foreign[w] = owner
			}
			g.Fields.Set(path, f)
		}
	}
}
