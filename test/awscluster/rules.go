package awscluster

import (
	"fmt"
	"slices"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

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
