package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// removed sorts what AWS said to the last call that unmakes something: what is
// gone already is success, and what something else still uses passes, when that
// is gone. standing finds what that is; nil is not looked for.
func (b *building) removed(ctx context.Context, id string, err error, standing []ec2types.Filter) error {
	switch {
	case err == nil || isNotFound(err):
		return nil
	case apiCode(err) != "DependencyViolation":
		return buildError(err, "delete "+id)
	}
	why := "something else still uses it"
	if standing != nil {
		if found := b.standing(ctx, standing); found != "" {
			why = "it is still used by " + found
		}
	}
	return fmt.Errorf("delete %s: %s", id, why)
}

// mostStanding bounds the interfaces that are named.
const mostStanding = 5

// standing says which interfaces there are, for people.
func (b *building) standing(ctx context.Context, filters []ec2types.Filter) string {
	out, err := b.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: filters})
	if err != nil {
		return ""
	}
	var words []string
	for i := range out.NetworkInterfaces {
		n := &out.NetworkInterfaces[i]
		what := deref(n.NetworkInterfaceId)
		switch {
		case n.Attachment != nil && deref(n.Attachment.InstanceId) != "":
			what += " of instance " + *n.Attachment.InstanceId
		case deref(n.Description) != "":
			what += " (" + *n.Description + ")"
		}
		words = append(words, what)
	}
	slices.Sort(words)
	if more := len(words) - mostStanding; more > 0 {
		words = append(words[:mostStanding], fmt.Sprintf("%d more", more))
	}
	return (providers.Cleaner{Max: longestMessage}).Clean(strings.Join(words, ", "))
}

// removeNAT gives the gateway's Elastic IPs the owner's tag first, by which they
// are found when the gateway has let them go.
func (b *building) removeNAT(ctx context.Context, d *providers.Deletion) error {
	id := d.Have.ID.Name
	for _, address := range d.Have.Fields.Get(pathAllocations).Value.Elements() {
		if err := b.markAddress(ctx, address); err != nil {
			return err
		}
	}
	_, err := b.ec2.DeleteNatGateway(ctx, &ec2.DeleteNatGatewayInput{NatGatewayId: &id})
	return b.removed(ctx, id, err, nil)
}

// removeTable takes the table from its subnets first.
func (b *building) removeTable(ctx context.Context, d *providers.Deletion) error {
	id := d.Have.ID.Name
	out, err := b.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{id}})
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return buildError(err, "read "+id)
	}
	for i := range out.RouteTables {
		for j := range out.RouteTables[i].Associations {
			a := &out.RouteTables[i].Associations[j]
			if deref(a.Main) {
				return refused("%s is the main route table of its VPC by now: make another one that", id)
			}
			_, err := b.ec2.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: a.RouteTableAssociationId})
			if err != nil && !isNotFound(err) {
				return buildError(err, "take "+id+" from "+deref(a.SubnetId))
			}
		}
	}
	_, err = b.ec2.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: &id})
	return b.removed(ctx, id, err, nil)
}

// removeGroup revokes the rules of the cluster's other groups that name the
// group: none could go before the others otherwise.
func (b *building) removeGroup(ctx context.Context, d *providers.Deletion) error {
	id := d.Have.ID.Name
	naming, err := b.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: where("ip-permission.group-id", id)})
	if err != nil {
		return buildError(err, "look for rules that name "+id)
	}
	for i := range naming.SecurityGroups {
		g := &naming.SecurityGroups[i]
		maker := ec2TagMap(g.Tags)[ownerTag]
		if deref(g.GroupId) == id || !b.owned(ec2TagMap(g.Tags)) || maker != "" && maker != b.uid() && maker != tagOf(d.Have, ownerTag) {
			continue
		}
		if err := b.revokeNaming(ctx, g, id); err != nil {
			return err
		}
	}
	if err := b.dropIdleInterfaces(ctx, where("group-id", id, "status", string(ec2types.NetworkInterfaceStatusAvailable))); err != nil {
		return err
	}
	_, err = b.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id})
	return b.removed(ctx, id, err, where("group-id", id))
}

// revokeNaming revokes the rules of a group that name another.
func (b *building) revokeNaming(ctx context.Context, g *ec2types.SecurityGroup, id string) error {
	var rules []ec2types.IpPermission
	for i := range g.IpPermissions {
		for _, one := range singlePeers(&g.IpPermissions[i]) {
			if len(one.UserIdGroupPairs) > 0 && deref(one.UserIdGroupPairs[0].GroupId) == id {
				rules = append(rules, one)
			}
		}
	}
	if len(rules) == 0 {
		return nil
	}
	_, err := b.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: g.GroupId, IpPermissions: rules})
	if err != nil && !isNotFound(err) {
		return buildError(err, "revoke rules of "+deref(g.GroupId))
	}
	return nil
}

// owned reports tags of the owner's cluster, CAPA's or the cloud provider's.
func (b *building) owned(tags map[string]string) bool {
	return slices.ContainsFunc(sorted(tags), func(key string) bool { return owningCluster(key, tags[key]) == b.owner.Cluster.Name })
}

// cniCluster is the tag by which the Amazon VPC CNI marks its interfaces.
const cniCluster = "cluster.k8s.amazonaws.com/name"

// dropIdleInterfaces deletes interfaces that nothing uses any more and that carry
// the cluster's tags: instances leave them behind when they go.
func (b *building) dropIdleInterfaces(ctx context.Context, filters []ec2types.Filter) error {
	out, err := b.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: filters})
	if err != nil {
		return buildError(err, "look for network interfaces that were left behind")
	}
	for i := range out.NetworkInterfaces {
		n := &out.NetworkInterfaces[i]
		tags := ec2TagMap(n.TagSet)
		if maker := tags[ownerTag]; tags[cniCluster] != b.owner.Cluster.Name && !b.owned(tags) || maker != "" && maker != b.uid() {
			continue
		}
		_, err := b.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: n.NetworkInterfaceId})
		if err != nil && !isNotFound(err) {
			return buildError(err, "delete "+deref(n.NetworkInterfaceId))
		}
	}
	return nil
}

// removeGateway detaches an internet gateway first. An egress-only one cannot be
// detached.
func (b *building) removeGateway(ctx context.Context, d *providers.Deletion) error {
	id := d.Have.ID.Name
	if strings.HasPrefix(id, "eigw-") {
		_, err := b.ec2.DeleteEgressOnlyInternetGateway(ctx, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: &id})
		return b.removed(ctx, id, err, nil)
	}
	if vpc := textOf(d.Have, pathVPCID); vpc != "" {
		_, err := b.ec2.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: &id, VpcId: &vpc})
		if err != nil && apiCode(err) != "Gateway.NotAttached" {
			if err := b.removed(ctx, id, err, where("vpc-id", vpc)); err != nil {
				return err
			}
		}
	}
	_, err := b.ec2.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: &id})
	return b.removed(ctx, id, err, nil)
}

func (b *building) removeSubnet(ctx context.Context, d *providers.Deletion) error {
	id := d.Have.ID.Name
	if err := b.dropIdleInterfaces(ctx, where("subnet-id", id, "status", string(ec2types.NetworkInterfaceStatusAvailable))); err != nil {
		return err
	}
	_, err := b.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &id})
	return b.removed(ctx, id, err, where("subnet-id", id))
}

// removeVPC first lets go what is no resource of its own: Elastic IPs, and
// target groups without a load balancer.
func (b *building) removeVPC(ctx context.Context, d *providers.Deletion) error {
	id := d.Have.ID.Name
	if err := b.releaseAddresses(ctx); err != nil {
		return err
	}
	if err := b.removeTargetGroups(ctx, id, ""); err != nil {
		return err
	}
	_, err := b.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &id})
	if apiCode(err) != "DependencyViolation" {
		return b.removed(ctx, id, err, nil)
	}
	return fmt.Errorf("delete %s: it is still used by %s", id, first(strings.Join(b.left(ctx, id), "; "), "something that Holdfast does not look for"))
}

// left says what a VPC still has that is not the cluster's.
func (b *building) left(ctx context.Context, vpc string) (out []string) {
	if found := b.standing(ctx, where("vpc-id", vpc)); found != "" {
		out = append(out, found)
	}
	add := func(kind string, ids []string) {
		if len(ids) > 0 {
			slices.Sort(ids)
			out = append(out, kind+" "+strings.Join(ids, ", "))
		}
	}
	var ids []string
	if groups, err := b.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: where("vpc-id", vpc)}); err == nil {
		for i := range groups.SecurityGroups {
			if g := &groups.SecurityGroups[i]; deref(g.GroupName) != "default" {
				ids = append(ids, deref(g.GroupId)+" ("+(providers.Cleaner{Max: 60}).Clean(deref(g.GroupName))+")")
			}
		}
	}
	add("security groups", ids)
	ids = nil
	if subnets, err := b.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: where("vpc-id", vpc)}); err == nil {
		for i := range subnets.Subnets {
			ids = append(ids, deref(subnets.Subnets[i].SubnetId))
		}
	}
	add("subnets", ids)
	ids = nil
	if tables, err := b.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: where("vpc-id", vpc)}); err == nil {
		for i := range tables.RouteTables {
			if t := &tables.RouteTables[i]; !slices.ContainsFunc(t.Associations, func(a ec2types.RouteTableAssociation) bool { return deref(a.Main) }) {
				ids = append(ids, deref(t.RouteTableId))
			}
		}
	}
	add("route tables", ids)
	ids = nil
	if gateways, err := b.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{Filters: where("attachment.vpc-id", vpc)}); err == nil {
		for i := range gateways.InternetGateways {
			ids = append(ids, deref(gateways.InternetGateways[i].InternetGatewayId))
		}
	}
	add("internet gateways", ids)
	return out
}
