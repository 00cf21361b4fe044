package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// groupRoles are the groups of the cluster, in CAPA's order.
func (b *builder) groupRoles() []infrav1.SecurityGroupRole {
	roles := []infrav1.SecurityGroupRole{
		infrav1.SecurityGroupAPIServerLB,
		infrav1.SecurityGroupLB,
		infrav1.SecurityGroupControlPlane,
		infrav1.SecurityGroupNode,
	}
	if b.env.AWSCluster.Spec.Bastion.Enabled {
		roles = append(roles, infrav1.SecurityGroupBastion)
	}
	return roles
}

// securityGroups makes the role groups first and their rules after, for the
// rules name the groups.
func (b *builder) securityGroups(ctx context.Context) error {
	vpc := &b.env.AWSCluster.Spec.NetworkSpec.VPC
	if vpc.EmptyRoutesDefaultVPCSecurityGroup && !b.brought() {
		if err := b.emptyDefaultGroup(ctx, vpc.ID); err != nil {
			return err
		}
	}
	groups := map[infrav1.SecurityGroupRole]infrav1.SecurityGroup{}
	b.env.AWSCluster.Status.Network.SecurityGroups = groups
	for _, role := range b.groupRoles() {
		var extra map[string]string
		// Only the group that load balancers of Services add rules to is the
		// cloud controller manager's: two such groups on a node confuse it.
		if role == infrav1.SecurityGroupLB {
			extra = b.cloudProviderOwned()
		}
		name := fmt.Sprintf("%s-%s", b.Name, role)
		tags := b.clusterTags(name, string(role), extra)
		out, err := b.EC2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
			VpcId:             aws.String(vpc.ID),
			GroupName:         aws.String(name),
			Description:       aws.String(fmt.Sprintf("Kubernetes cluster %s: %s", b.Name, role)),
			TagSpecifications: tagSpec(types.ResourceTypeSecurityGroup, tags),
		})
		if err != nil {
			return fmt.Errorf("create security group %s: %w", name, err)
		}
		groups[role] = infrav1.SecurityGroup{ID: aws.ToString(out.GroupId), Name: name, Tags: tags}
	}
	for _, role := range b.groupRoles() {
		g := groups[role]
		g.IngressRules = explode(b.ingress(role))
		if len(g.IngressRules) == 0 {
			continue
		}
		if _, err := b.EC2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{
			GroupId: aws.String(g.ID), IpPermissions: permissions(g.IngressRules),
		}); err != nil {
			return fmt.Errorf("authorize ingress of security group %s: %w", g.Name, err)
		}
		groups[role] = g
	}
	return nil
}

func (b *builder) emptyDefaultGroup(ctx context.Context, vpcID string) error {
	out, err := b.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{
		{Name: aws.String("vpc-id"), Values: []string{vpcID}},
		{Name: aws.String("group-name"), Values: []string{"default"}},
	}})
	if err != nil {
		return fmt.Errorf("find default security group of VPC %s: %w", vpcID, err)
	}
	for _, g := range out.SecurityGroups {
		if len(g.IpPermissions) > 0 {
			if _, err := b.EC2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{
				GroupId: g.GroupId, IpPermissions: g.IpPermissions,
			}); err != nil {
				return fmt.Errorf("empty default security group %s: %w", *g.GroupId, err)
			}
		}
		if len(g.IpPermissionsEgress) > 0 {
			if _, err := b.EC2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{
				GroupId: g.GroupId, IpPermissions: g.IpPermissionsEgress,
			}); err != nil {
				return fmt.Errorf("empty default security group %s: %w", *g.GroupId, err)
			}
		}
	}
	return nil
}

func (b *builder) groups(roles ...infrav1.SecurityGroupRole) []string {
	ids := make([]string, 0, len(roles))
	for _, role := range roles {
		ids = append(ids, b.env.AWSCluster.Status.Network.SecurityGroups[role].ID)
	}
	return ids
}

// port is where clients reach the API server.
func (b *builder) port() int64 {
	if p := b.env.Cluster.Spec.ClusterNetwork.APIServerPort; p != 0 {
		return int64(p)
	}
	return infrav1.DefaultAPIServerPort
}

func tcp(description string, port int64, groups []string) infrav1.IngressRule {
	return infrav1.IngressRule{
		Description: description, Protocol: infrav1.SecurityGroupProtocolTCP, FromPort: port, ToPort: port,
		SourceSecurityGroupIDs: groups,
	}
}

// explode gives one rule for each peer, as CAPA records and sends them.
func explode(rules []infrav1.IngressRule) infrav1.IngressRules {
	var out infrav1.IngressRules
	for _, r := range rules {
		one := infrav1.IngressRule{Description: r.Description, Protocol: r.Protocol, FromPort: r.FromPort, ToPort: r.ToPort}
		for _, cidr := range r.CidrBlocks {
			x := one
			x.CidrBlocks = []string{cidr}
			out = append(out, x)
		}
		for _, cidr := range r.IPv6CidrBlocks {
			x := one
			x.IPv6CidrBlocks = []string{cidr}
			out = append(out, x)
		}
		for _, id := range r.SourceSecurityGroupIDs {
			x := one
			x.SourceSecurityGroupIDs = []string{id}
			out = append(out, x)
		}
	}
	return out
}

func permissions(rules infrav1.IngressRules) []types.IpPermission {
	out := make([]types.IpPermission, 0, len(rules))
	for _, r := range rules {
		p := types.IpPermission{IpProtocol: aws.String(string(r.Protocol))}
		switch r.Protocol {
		case infrav1.SecurityGroupProtocolTCP, infrav1.SecurityGroupProtocolUDP,
			infrav1.SecurityGroupProtocolICMP, infrav1.SecurityGroupProtocolICMPv6:
			p.FromPort, p.ToPort = aws.Int32(int32(r.FromPort)), aws.Int32(int32(r.ToPort))
		}
		for _, cidr := range r.CidrBlocks {
			p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: aws.String(cidr), Description: description(r)})
		}
		for _, cidr := range r.IPv6CidrBlocks {
			p.Ipv6Ranges = append(p.Ipv6Ranges, types.Ipv6Range{CidrIpv6: aws.String(cidr), Description: description(r)})
		}
		for _, id := range r.SourceSecurityGroupIDs {
			p.UserIdGroupPairs = append(p.UserIdGroupPairs, types.UserIdGroupPair{GroupId: aws.String(id), Description: description(r)})
		}
		out = append(out, p)
	}
	return out
}

func description(r infrav1.IngressRule) *string {
	if r.Description == "" {
		return nil
	}
	return aws.String(r.Description)
}
