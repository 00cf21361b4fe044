package awscluster

import (
	"context"
	"fmt"
	"slices"

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

// ingress gives the rules that CAPA keeps on a role's group once the cluster
// has settled.
func (b *builder) ingress(role infrav1.SecurityGroupRole) []infrav1.IngressRule {
	spec := &b.env.AWSCluster.Spec
	switch role {
	case infrav1.SecurityGroupAPIServerLB:
		return b.apiServerLBIngress()
	case infrav1.SecurityGroupLB:
		return b.lbIngress()
	case infrav1.SecurityGroupControlPlane:
		rules := append(b.cniIngress(),
			tcp("Kubernetes API", infrav1.DefaultAPIServerPort, b.groups(infrav1.SecurityGroupAPIServerLB, infrav1.SecurityGroupControlPlane, infrav1.SecurityGroupNode)),
			tcp("etcd", 2379, b.groups(infrav1.SecurityGroupControlPlane)),
			tcp("etcd peer", 2380, b.groups(infrav1.SecurityGroupControlPlane)))
		rules = append(rules, b.fromBastion()...)
		return append(rules, b.resolved(spec.NetworkSpec.AdditionalControlPlaneIngressRules)...)
	case infrav1.SecurityGroupNode:
		nodePorts := infrav1.IngressRule{
			Description: "Node Port Services", Protocol: infrav1.SecurityGroupProtocolTCP, FromPort: 30000, ToPort: 32767,
			CidrBlocks: []string{anyIPv4},
		}
		if blocks := spec.NetworkSpec.NodePortIngressRuleCidrBlocks.IPv4CidrBlocks(); len(blocks) > 0 {
			nodePorts.CidrBlocks = blocks
		}
		if spec.NetworkSpec.VPC.IsIPv6Enabled() {
			nodePorts.IPv6CidrBlocks = []string{anyIPv6}
			if blocks := spec.NetworkSpec.NodePortIngressRuleCidrBlocks.IPv6CidrBlocks(); len(blocks) > 0 {
				nodePorts.IPv6CidrBlocks = blocks
			}
		}
		rules := append(b.cniIngress(), nodePorts,
			tcp("Kubelet API", 10250, b.groups(infrav1.SecurityGroupControlPlane, infrav1.SecurityGroupNode)))
		rules = append(rules, b.fromBastion()...)
		return append(rules, b.resolved(spec.NetworkSpec.AdditionalNodeIngressRules)...)
	case infrav1.SecurityGroupBastion:
		ssh := infrav1.IngressRule{
			Description: "SSH", Protocol: infrav1.SecurityGroupProtocolTCP, FromPort: 22, ToPort: 22,
			CidrBlocks: spec.Bastion.AllowedCIDRBlocks.IPv4CidrBlocks(),
		}
		if spec.NetworkSpec.VPC.IsIPv6Enabled() {
			ssh.IPv6CidrBlocks = spec.Bastion.AllowedCIDRBlocks.IPv6CidrBlocks()
		}
		return []infrav1.IngressRule{ssh}
	default:
		return nil
	}
}

func (b *builder) fromBastion() []infrav1.IngressRule {
	if !b.env.AWSCluster.Spec.Bastion.Enabled {
		return nil
	}
	return []infrav1.IngressRule{tcp("SSH", 22, b.groups(infrav1.SecurityGroupBastion))}
}

// apiServerLBIngress lets kubelets in by their NAT gateways' addresses (or by
// the VPC's block where the load balancer is internal), and the world unless
// the spec has rules of its own.
func (b *builder) apiServerLBIngress() []infrav1.IngressRule {
	spec := &b.env.AWSCluster.Spec
	kubelets := infrav1.IngressRule{
		Description: "Kubernetes API", Protocol: infrav1.SecurityGroupProtocolTCP, FromPort: b.port(), ToPort: b.port(),
	}
	world := kubelets
	world.CidrBlocks = []string{anyIPv4}
	vpc := &spec.NetworkSpec.VPC
	if vpc.IsIPv6Enabled() {
		world.IPv6CidrBlocks = []string{anyIPv6}
	}
	if infrav1.ELBSchemeInternal.Equals(spec.ControlPlaneLoadBalancer.Scheme) {
		kubelets.CidrBlocks = []string{vpc.CidrBlock}
		if vpc.IsIPv6Enabled() {
			kubelets.IPv6CidrBlocks = []string{vpc.IPv6.CidrBlock}
		}
	} else {
		for _, ip := range b.env.AWSCluster.Status.Network.NatGatewaysIPs {
			kubelets.CidrBlocks = append(kubelets.CidrBlocks, ip+"/32")
		}
	}
	var custom []infrav1.IngressRule
	for _, lb := range b.loadBalancers() {
		custom = append(custom, b.resolved(lb.IngressRules)...)
	}
	if len(custom) == 0 {
		custom = []infrav1.IngressRule{world}
	}
	if len(kubelets.CidrBlocks) == 0 {
		return custom
	}
	return append([]infrav1.IngressRule{kubelets}, custom...)
}

// lbIngress opens the API server's port to the first network load balancer,
// and further listeners' to each. CAPA sets it once and then leaves the group
// to the cloud controller manager.
func (b *builder) lbIngress() []infrav1.IngressRule {
	vpc := &b.env.AWSCluster.Spec.NetworkSpec.VPC
	var rules []infrav1.IngressRule
	for _, lb := range b.loadBalancers() {
		if lb.LoadBalancerType != infrav1.LoadBalancerTypeNLB {
			continue
		}
		from, from6 := []string{vpc.CidrBlock}, []string(nil)
		if vpc.IsIPv6Enabled() {
			from6 = []string{vpc.IPv6.CidrBlock}
		}
		if lb.PreserveClientIP {
			from = []string{anyIPv4}
			if vpc.IsIPv6Enabled() {
				from6 = []string{anyIPv6}
			}
		}
		if len(rules) == 0 {
			rules = append(rules, infrav1.IngressRule{
				Description: "Allow NLB traffic to the control plane instances.",
				Protocol:    infrav1.SecurityGroupProtocolTCP, FromPort: b.port(), ToPort: b.port(), CidrBlocks: from, IPv6CidrBlocks: from6,
			})
		}
		for _, l := range lb.AdditionalListeners {
			rules = append(rules, infrav1.IngressRule{
				Description: fmt.Sprintf("Allow NLB traffic to the control plane instances on port %d.", l.Port),
				Protocol:    infrav1.SecurityGroupProtocolTCP, FromPort: l.Port, ToPort: l.Port, CidrBlocks: from, IPv6CidrBlocks: from6,
			})
		}
	}
	return rules
}

func (b *builder) cniIngress() []infrav1.IngressRule {
	cni := b.env.AWSCluster.Spec.NetworkSpec.CNI
	if cni == nil {
		return nil
	}
	rules := make([]infrav1.IngressRule, 0, len(cni.CNIIngressRules)+4)
	for _, r := range cni.CNIIngressRules {
		rules = append(rules, infrav1.IngressRule{
			Description: r.Description, Protocol: r.Protocol, FromPort: r.FromPort, ToPort: r.ToPort,
			SourceSecurityGroupIDs: b.groups(infrav1.SecurityGroupControlPlane, infrav1.SecurityGroupNode),
		})
	}
	return rules
}

// resolved turns the roles of a spec's rules into group ids, and the words for
// NAT gateways into their addresses. A rule without any source is the control
// plane's.
func (b *builder) resolved(rules []infrav1.IngressRule) []infrav1.IngressRule {
	out := make([]infrav1.IngressRule, 0, len(rules))
	for _, r := range rules {
		r = *r.DeepCopy()
		switch {
		case r.NatGatewaysIPsSource:
			for _, ip := range b.env.AWSCluster.Status.Network.NatGatewaysIPs {
				r.CidrBlocks = append(r.CidrBlocks, ip+"/32")
			}
		case len(r.CidrBlocks)+len(r.IPv6CidrBlocks) > 0:
		case len(r.SourceSecurityGroupIDs)+len(r.SourceSecurityGroupRoles) == 0:
			r.SourceSecurityGroupIDs = b.groups(infrav1.SecurityGroupControlPlane)
		default:
			ids := append(r.SourceSecurityGroupIDs, b.groups(r.SourceSecurityGroupRoles...)...)
			slices.Sort(ids)
			r.SourceSecurityGroupIDs = slices.Compact(ids)
		}
		r.SourceSecurityGroupRoles, r.NatGatewaysIPsSource = nil, false
		out = append(out, r)
	}
	return out
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
