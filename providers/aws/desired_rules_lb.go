package aws

import (
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// apiServerLB opens the API's port to the machines of the cluster, who come
// through the NAT gateways or from inside the VPC, and to whom the load
// balancers' own rules name: the world if none do.
func (s *ruleSet) apiServerLB() {
	port := s.c.apiServerPort()
	primary := s.c.spec.Spec.ControlPlaneLoadBalancer
	nats := s.natAddresses()
	switch {
	case primary != nil && infrav1.ELBSchemeInternal.Equals(primary.Scheme):
		s.tcp("the VPC's blocks", port, port, s.vpcBlocks("the VPC's blocks")...)
	case len(nats) > 0:
		s.tcp("NAT gateways", port, port, nats...)
	default:
		s.anyone(port)
	}
	custom := false
	fields := []string{"spec.controlPlaneLoadBalancer", "spec.secondaryControlPlaneLoadBalancer"}
	for i, lb := range []*infrav1.AWSLoadBalancerSpec{primary, s.c.spec.Spec.SecondaryControlPlaneLoadBalancer} {
		if lb != nil && len(lb.IngressRules) > 0 {
			custom = true
			s.declared(fields[i]+".ingressRules", lb.IngressRules)
		}
	}
	if !custom {
		s.anyone(port)
	}
}

func (s *ruleSet) anyone(port int64) {
	s.tcp("Kubernetes API", port, port, anyIPv4)
	if s.c.vpc().IsIPv6Enabled() {
		s.tcp("Kubernetes API", port, port, anyIPv6)
	}
}

// vpcBlocks gives the VPC's own blocks, of the spec or as seen.
func (s *ruleSet) vpcBlocks(field string) []string {
	var out []string
	block := first(s.c.vpc().CidrBlock, textOf(s.c.seenVPC(), pathCIDR))
	if block == "" {
		s.problems = append(s.problems, ruleProblem{field, "the VPC's block is not known"})
	} else {
		out = append(out, block)
	}
	if s.c.vpc().IsIPv6Enabled() {
		if v6 := s.c.vpc().IPv6.CidrBlock; v6 != "" {
			out = append(out, v6)
		} else {
			s.problems = append(s.problems, ruleProblem{field, "the VPC's IPv6 block is not recorded yet"})
		}
	}
	return out
}

// networkLoadBalancers opens the control plane's ports to network load
// balancers, whose traffic and checks come from inside the VPC, or from the
// client where its address is kept.
func (s *ruleSet) networkLoadBalancers() {
	opened := false
	for _, lb := range []*infrav1.AWSLoadBalancerSpec{s.c.spec.Spec.ControlPlaneLoadBalancer, s.c.spec.Spec.SecondaryControlPlaneLoadBalancer} {
		if lb == nil || lb.LoadBalancerType != infrav1.LoadBalancerTypeNLB {
			continue
		}
		const field = "network load balancer"
		var peers []string
		if lb.PreserveClientIP {
			peers = []string{anyIPv4}
			if s.c.vpc().IsIPv6Enabled() {
				peers = append(peers, anyIPv6)
			}
		} else {
			peers = s.vpcBlocks(field)
		}
		if !opened {
			s.tcp(field, s.c.apiServerPort(), s.c.apiServerPort(), peers...)
			opened = true
		}
		for _, l := range lb.AdditionalListeners {
			s.tcp(field, l.Port, l.Port, peers...)
		}
	}
}
