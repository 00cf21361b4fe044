package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// readGroup keeps the group in EC2's words too: a rule is revoked in the words
// that it stands in there.
func (w *writing) readGroup(ctx context.Context) (*providers.Resource, error) {
	out, err := w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{w.Resource.Name}})
	if err != nil {
		return nil, err
	}
	for i := range out.SecurityGroups {
		in := &out.SecurityGroups[i]
		if deref(in.GroupId) != w.Resource.Name {
			continue
		}
		w.rawGroup = in
		r := w.securityGroup(in)
		w.completeGroups(ctx, []*providers.Resource{r})
		if err := w.coverage[partForeignRules]; err != nil {
			return nil, err
		}
		return r, nil
	}
	return nil, nil
}

// checkRules refuses words that are no rule of the direction.
func checkRules(c *providers.Change, fields []providers.FieldChange) error {
	for _, f := range fields {
		words := first(f.Want.Text(), f.Have.Text())
		if !f.Element {
			return unsupported("%s of %s is changed rule by rule", f.Path, c.Resource)
		}
		rule, err := canonical.ParseRule(words)
		if err == nil && "/"+rule.Direction != f.Path {
			err = fmt.Errorf("rule %q does not belong into %s", words, f.Path)
		}
		if err != nil {
			return refused("%s: %w", c.Resource, err)
		}
	}
	return nil
}

// groupRules adds before it removes, so that traffic which both a wanted and
// an unwanted rule allow is never cut off.
func (w *writing) groupRules(ctx context.Context, fields []providers.FieldChange) error {
	add, remove := split(w.due(fields))
	permissions := map[string][]ec2types.IpPermission{}
	for _, f := range add {
		rule, err := canonical.ParseRule(f.Want.Text())
		if err != nil {
			return refused("%s: %w", w.Resource, err)
		}
		permissions[f.Path] = append(permissions[f.Path], permissionOf(&rule))
	}
	for _, path := range slices.Sorted(maps.Keys(permissions)) {
		if err := w.authorizeAll(ctx, path, permissions[path]); err != nil {
			return err
		}
	}
	for _, f := range remove {
		if owner, foreign := w.live.Fields.Get(f.Path).Foreign[f.Have.Text()]; foreign {
			return &providers.ApplyError{Reason: providers.ReasonForeign, Err: fmt.Errorf("rule %q of %s belongs to %s", f.Have.Text(), w.Resource, owner)}
		}
		for _, p := range w.permissionsOf(f.Path, f.Have.Text()) {
			if err := w.revoke(ctx, f.Path, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// authorizeAll adds rules in one call, since EC2 lets few of these through. Of
// several in one call, one that is refused or is there already fails all (C06), so
// that they are added one by one then.
func (w *writing) authorizeAll(ctx context.Context, path string, permissions []ec2types.IpPermission) error {
	err := w.authorize(ctx, path, permissions...)
	if len(permissions) == 1 {
		if apiCode(err) == "InvalidPermission.Duplicate" {
			err = nil
		}
		return w.called(err, "add a rule to %s", w.Resource.Name)
	}
	if apiCode(err) == "" {
		return w.called(err, "add rules to %s", w.Resource.Name)
	}
	for i := range permissions {
		if err := w.authorizeAll(ctx, path, permissions[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) authorize(ctx context.Context, path string, permissions ...ec2types.IpPermission) error {
	var err error
	if path == pathIngress {
		_, err = w.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &w.Resource.Name, IpPermissions: permissions})
	} else {
		_, err = w.ec2.AuthorizeSecurityGroupEgress(ctx, &ec2.AuthorizeSecurityGroupEgressInput{GroupId: &w.Resource.Name, IpPermissions: permissions})
	}
	return err
}

func (w *writing) revoke(ctx context.Context, path string, p ec2types.IpPermission) error {
	var err error
	permissions := []ec2types.IpPermission{p}
	if path == pathIngress {
		_, err = w.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &w.Resource.Name, IpPermissions: permissions})
	} else {
		_, err = w.ec2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: &w.Resource.Name, IpPermissions: permissions})
	}
	if apiCode(err) == "InvalidPermission.NotFound" {
		err = nil
	}
	return w.called(err, "revoke a rule of %s", w.Resource.Name)
}

// permissionOf gives a rule in EC2's words. -1 for both ends is every ICMP
// type; protocols without ports have none.
func permissionOf(r *canonical.ParsedRule) ec2types.IpPermission {
	p := ec2types.IpPermission{IpProtocol: &r.Protocol}
	switch r.Protocol {
	case canonical.ProtocolTCP, canonical.ProtocolUDP, canonical.ProtocolICMP, canonical.ProtocolICMPv6:
		p.FromPort, p.ToPort = ptr(int32(r.From)), ptr(int32(r.To)) //nolint:gosec // within 0-65535, as ParseRule demands
	}
	account, group, other := strings.Cut(r.Peer, "/sg-")
	switch {
	case other:
		p.UserIdGroupPairs = []ec2types.UserIdGroupPair{{UserId: &account, GroupId: ptr("sg-" + group)}}
	case strings.HasPrefix(r.Peer, "sg-"):
		p.UserIdGroupPairs = []ec2types.UserIdGroupPair{{GroupId: &r.Peer}}
	case strings.HasPrefix(r.Peer, "pl-"):
		p.PrefixListIds = []ec2types.PrefixListId{{PrefixListId: &r.Peer}}
	case strings.Contains(r.Peer, ":"):
		p.Ipv6Ranges = []ec2types.Ipv6Range{{CidrIpv6: &r.Peer}}
	default:
		p.IpRanges = []ec2types.IpRange{{CidrIp: &r.Peer}}
	}
	return p
}

// permissionsOf finds what stands behind the words in the live group: the same
// words may stand for several of EC2's rules, and EC2 revokes only what it is
// told to the letter (RevokeSecurityGroupIngress).
func (w *writing) permissionsOf(path, words string) (out []ec2types.IpPermission) {
	direction, list := canonical.Ingress, w.rawGroup.IpPermissions
	if path == pathEgress {
		direction, list = canonical.Egress, w.rawGroup.IpPermissionsEgress
	}
	for i := range list {
		for _, single := range singlePeers(&list[i]) {
			for _, peer := range peers(&single, deref(w.rawGroup.OwnerId)) {
				is, _, err := canonical.Rule(direction, deref(single.IpProtocol), portOf(single.FromPort), portOf(single.ToPort), peer.name)
				if err == nil && is == words {
					out = append(out, single)
				}
			}
		}
	}
	return out
}

// singlePeers splits a permission into one for each peer, without the
// descriptions, which are no part of a rule's identity (C05).
func singlePeers(p *ec2types.IpPermission) (out []ec2types.IpPermission) {
	of := ec2types.IpPermission{IpProtocol: p.IpProtocol, FromPort: p.FromPort, ToPort: p.ToPort}
	for i := range p.IpRanges {
		one := of
		one.IpRanges = []ec2types.IpRange{{CidrIp: p.IpRanges[i].CidrIp}}
		out = append(out, one)
	}
	for i := range p.Ipv6Ranges {
		one := of
		one.Ipv6Ranges = []ec2types.Ipv6Range{{CidrIpv6: p.Ipv6Ranges[i].CidrIpv6}}
		out = append(out, one)
	}
	for i := range p.PrefixListIds {
		one := of
		one.PrefixListIds = []ec2types.PrefixListId{{PrefixListId: p.PrefixListIds[i].PrefixListId}}
		out = append(out, one)
	}
	for i := range p.UserIdGroupPairs {
		one := of
		pair := p.UserIdGroupPairs[i]
		one.UserIdGroupPairs = []ec2types.UserIdGroupPair{{
			GroupId: pair.GroupId, UserId: pair.UserId, VpcId: pair.VpcId, VpcPeeringConnectionId: pair.VpcPeeringConnectionId,
		}}
		out = append(out, one)
	}
	return out
}
