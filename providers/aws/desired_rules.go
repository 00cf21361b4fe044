package aws

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// Ports that CAPA opens.
const (
	portSSH      = 22
	portEtcd     = 2379
	portEtcdPeer = 2380
	portKubelet  = 10250
	nodePortLow  = 30000
	nodePortHigh = 32767
)

// ruleSet gathers the ingress rules of one group as words.
type ruleSet struct {
	c        *clusterView
	words    []string
	warnings []string
	problems []ruleProblem
}

// ruleProblem is a rule that cannot be put into words.
type ruleProblem struct{ field, why string }

// problemWords gives what is wrong, each thing once.
func (s *ruleSet) problemWords() string {
	var out []string
	for _, p := range s.problems {
		if words := p.field + ": " + p.why; !slices.Contains(out, words) {
			out = append(out, words)
		}
	}
	return strings.Join(out, "; ")
}

// rules gives the ingress rules that CAPA keeps on the group of a role.
func (c *clusterView) rules(role infrav1.SecurityGroupRole) *ruleSet {
	s := &ruleSet{c: c}
	net := &c.spec.Spec.NetworkSpec
	switch role {
	case infrav1.SecurityGroupBastion:
		s.bastion()
	case infrav1.SecurityGroupControlPlane:
		s.cni()
		s.fromRoles("Kubernetes API", infrav1.DefaultAPIServerPort, infrav1.DefaultAPIServerPort,
			infrav1.SecurityGroupAPIServerLB, infrav1.SecurityGroupControlPlane, infrav1.SecurityGroupNode)
		s.fromRoles("etcd", portEtcd, portEtcd, infrav1.SecurityGroupControlPlane)
		s.fromRoles("etcd peer", portEtcdPeer, portEtcdPeer, infrav1.SecurityGroupControlPlane)
		s.fromBastion()
		s.declared("spec.network.additionalControlPlaneIngressRules", net.AdditionalControlPlaneIngressRules)
	case infrav1.SecurityGroupNode:
		s.cni()
		s.nodePorts()
		s.fromRoles("kubelet", portKubelet, portKubelet, infrav1.SecurityGroupControlPlane, infrav1.SecurityGroupNode)
		s.fromBastion()
		s.declared("spec.network.additionalNodeIngressRules", net.AdditionalNodeIngressRules)
	case infrav1.SecurityGroupAPIServerLB:
		s.apiServerLB()
	case infrav1.SecurityGroupLB:
		s.networkLoadBalancers()
	}
	return s
}

// add puts one rule for one peer into words.
func (s *ruleSet) add(field string, protocol infrav1.SecurityGroupProtocol, from, to int64, peer string) {
	known := peer
	toBeMade := providers.String(peer).Provisional()
	if toBeMade {
		known = "sg-0"
	}
	words, warning, err := canonical.Rule(canonical.Ingress, string(protocol), from, to, known)
	if toBeMade {
		words = strings.TrimSuffix(words, known) + peer
	}
	if err != nil {
		s.problems = append(s.problems, ruleProblem{field, err.Error()})
		return
	}
	if warning != "" {
		s.warnings = append(s.warnings, field+": "+warning)
	}
	s.words = append(s.words, words)
}

func (s *ruleSet) tcp(field string, from, to int64, peers ...string) {
	for _, p := range peers {
		s.add(field, infrav1.SecurityGroupProtocolTCP, from, to, p)
	}
}

// groups gives the ids of the groups of roles; one that is not known is a
// problem of the field.
func (s *ruleSet) groups(field string, roles ...infrav1.SecurityGroupRole) []string {
	var ids []string
	for _, role := range roles {
		id, why := s.c.group(role)
		if id == "" {
			s.problems = append(s.problems, ruleProblem{field, why})
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

func (s *ruleSet) fromRoles(field string, from, to int64, roles ...infrav1.SecurityGroupRole) {
	s.tcp(field, from, to, s.groups(field, roles...)...)
}

func (s *ruleSet) fromBastion() {
	if s.c.spec.Spec.Bastion.Enabled {
		s.fromRoles("SSH from the bastion", portSSH, portSSH, infrav1.SecurityGroupBastion)
	}
}

// cni wants the CNI's rules between the cluster's machines: the spec's, or
// Calico's where the spec has none at all.
func (s *ruleSet) cni() {
	rules := infrav1.CNIIngressRules{
		{Protocol: infrav1.SecurityGroupProtocolTCP, FromPort: 179, ToPort: 179},
		{Protocol: infrav1.SecurityGroupProtocolIPinIP, FromPort: canonical.NoPort, ToPort: canonical.NoPort},
	}
	if cni := s.c.spec.Spec.NetworkSpec.CNI; cni != nil {
		rules = cni.CNIIngressRules
	}
	if len(rules) == 0 {
		return
	}
	peers := s.groups("spec.network.cni", infrav1.SecurityGroupControlPlane, infrav1.SecurityGroupNode)
	for i, r := range rules {
		for _, peer := range peers {
			s.add(fmt.Sprintf("spec.network.cni.cniIngressRules[%d]", i), r.Protocol, r.FromPort, r.ToPort, peer)
		}
	}
}

func (s *ruleSet) nodePorts() {
	const field = "spec.network.nodePortIngressRuleCidrBlocks"
	peers, v6 := s.families(field, s.c.spec.Spec.NetworkSpec.NodePortIngressRuleCidrBlocks)
	if len(peers) == 0 {
		peers = []string{anyIPv4}
	}
	if s.c.vpc().IsIPv6Enabled() {
		if len(v6) == 0 {
			v6 = []string{anyIPv6}
		}
		peers = append(peers, v6...)
	}
	s.tcp(field, nodePortLow, nodePortHigh, peers...)
}

// bastion opens SSH to the declared blocks, or to the world where none are
// declared and none are ruled out.
func (s *ruleSet) bastion() {
	b := &s.c.spec.Spec.Bastion
	blocks := b.AllowedCIDRBlocks
	if len(blocks) == 0 && !b.DisableIngressRules {
		blocks = infrav1.CidrBlocks{anyIPv4, anyIPv6}
	}
	const field = "spec.bastion.allowedCIDRBlocks"
	v4, v6 := s.families(field, blocks)
	s.tcp(field, portSSH, portSSH, v4...)
	if s.c.vpc().IsIPv6Enabled() {
		s.tcp(field, portSSH, portSSH, v6...)
	}
}

// families parts blocks by address family, as CAPA does, which passes over
// what is no block at all.
func (s *ruleSet) families(field string, blocks infrav1.CidrBlocks) (v4, v6 []string) {
	for _, b := range blocks {
		canon, err := canonical.CIDR(b)
		switch {
		case err != nil:
			s.problems = append(s.problems, ruleProblem{field, err.Error()})
		case strings.Contains(canon, ":"):
			v6 = append(v6, canon)
		default:
			v4 = append(v4, canon)
		}
	}
	return v4, v6
}

// declared wants rules that the spec spells out. A rule has blocks, or groups,
// or the NAT gateways' addresses; with none of them it is for the control
// plane.
func (s *ruleSet) declared(field string, rules []infrav1.IngressRule) {
	for i := range rules {
		r := &rules[i]
		at := fmt.Sprintf("%s[%d]", field, i)
		for _, peer := range s.peers(at, r) {
			s.add(at, r.Protocol, r.FromPort, r.ToPort, peer)
		}
	}
}

func (s *ruleSet) peers(field string, r *infrav1.IngressRule) []string {
	var peers []string
	switch {
	case r.NatGatewaysIPsSource:
		ips := s.natAddresses()
		if len(ips) == 0 {
			s.problems = append(s.problems, ruleProblem{field, "the addresses of the NAT gateways are not recorded yet"})
		}
		peers = append(ips, r.IPv6CidrBlocks...)
	case len(r.CidrBlocks) > 0 || len(r.IPv6CidrBlocks) > 0:
		peers = append(append(peers, r.CidrBlocks...), r.IPv6CidrBlocks...)
	case len(r.SourceSecurityGroupIDs) == 0 && len(r.SourceSecurityGroupRoles) == 0:
		return s.groups(field, infrav1.SecurityGroupControlPlane)
	default:
		peers = s.groups(field, r.SourceSecurityGroupRoles...)
	}
	return append(peers, r.SourceSecurityGroupIDs...)
}

// natAddresses are those that are recorded. What is planned goes by the gateways
// themselves where nothing is recorded, and has a name for each address that is
// not known: the world must not be let in meanwhile.
func (s *ruleSet) natAddresses() []string {
	var out []string
	for _, ip := range s.c.spec.Status.Network.NatGatewaysIPs {
		out = append(out, ip+"/32")
	}
	if !s.c.plan || len(out) > 0 {
		return out
	}
	ips, open := s.c.natIPs()
	for _, ip := range ips {
		out = append(out, ip+"/32")
	}
	for _, zone := range open {
		out = append(out, providers.Provisional(providers.KindNATGateway, "address of "+whatNAT(zone)).Name)
	}
	return out
}

// natIPs gives the addresses of the cluster's NAT gateways as seen, and the zones
// of those whose addresses are not.
func (c *clusterView) natIPs() (ips, open []string) {
	nats := c.natGateways()
	for i := range c.subnets {
		if s := &c.subnets[i]; !c.managed && s.spec.NatGatewayID != nil {
			nats = append(nats, natView{zone: s.zone, id: *s.spec.NatGatewayID})
		}
	}
	for _, n := range nats {
		seen := c.snap.Resources[providers.ID{Kind: providers.KindNATGateway, Name: n.id}]
		if seen == nil || seen.Gone != "" || len(seen.Fields.Get(pathPublicIPs).Value.Elements()) == 0 {
			open = append(open, n.zone)
			continue
		}
		ips = append(ips, seen.Fields.Get(pathPublicIPs).Value.Elements()...)
	}
	return ips, open
}
