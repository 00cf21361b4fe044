package aws

import (
	"maps"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// recordInCluster writes an id where CAPA keeps it. What was planned is told by
// its name, so that recording the same twice is no error.
func recordInCluster(owner *providers.Owner, a *infrav1.AWSCluster, planned, made providers.ID) error {
	c := recordView(owner)
	is := func(kind, what string) bool { return planned == providers.Provisional(kind, what) }
	network := &a.Spec.NetworkSpec
	switch planned.Kind {
	case providers.KindVPC:
		network.VPC.ID = made.Name
		network.VPC.Tags = c.clusterTags(c.name+"-vpc", infrav1.CommonRoleTagValue, infrav1.Tags{ownerTag: string(a.UID)})
		maps.DeleteFunc(network.VPC.Tags, func(key, _ string) bool { return foreignTag(c.name, key) })
		return nil
	case providers.KindInternetGateway:
		switch {
		case is(planned.Kind, whatGateway):
			network.VPC.InternetGatewayID = &made.Name
			return nil
		case is(planned.Kind, whatEgressOnly) && network.VPC.IPv6 != nil:
			network.VPC.IPv6.EgressOnlyInternetGatewayID = &made.Name
			return nil
		}
	case providers.KindSecurityGroup:
		if role := roleOf(owner, planned); role != "" {
			if a.Status.Network.SecurityGroups == nil {
				a.Status.Network.SecurityGroups = map[infrav1.SecurityGroupRole]infrav1.SecurityGroup{}
			}
			role := infrav1.SecurityGroupRole(role)
			name := c.groupName(role)
			a.Status.Network.SecurityGroups[role] = infrav1.SecurityGroup{ID: made.Name, Name: name, Tags: c.groupTags(role, name)}
			return nil
		}
	case providers.KindLoadBalancer:
		if recordBalancer(c, a, planned, made) {
			return nil
		}
	default:
		if recordInSubnet(c, network.Subnets, planned, made) {
			return nil
		}
	}
	return unsupported("%s: %s is not planned for it, so that %s has no place there", owner.Ref, planned, made)
}

// recordInSubnet records a subnet, or what stands in one or for one.
func recordInSubnet(c *clusterView, subnets infrav1.Subnets, planned, made providers.ID) bool {
	is := func(kind, what string) bool { return planned == providers.Provisional(kind, what) }
	for i := range subnets {
		s := &subnets[i]
		switch {
		case is(providers.KindSubnet, whatSubnet(s)):
			s.ResourceID = made.Name
			return true
		case is(providers.KindRouteTable, whatTable(s)):
			s.RouteTableID = &made.Name
			return true
		case is(providers.KindNATGateway, whatNAT(c.subnets[i].zone)) && s.IsPublic && c.subnets[i].core():
			s.NatGatewayID = &made.Name
			return true
		}
	}
	return false
}

// recordBalancer records which one it is. What it is like is noted when it is
// seen.
func recordBalancer(c *clusterView, a *infrav1.AWSCluster, planned, made providers.ID) bool {
	for _, lb := range c.loadBalancers() {
		if lb.id != planned.Name && lb.id != made.Name {
			continue
		}
		status := lb.status(a)
		status.Name, status.Scheme = lb.name, lb.scheme
		status.LoadBalancerType = balancerTypes[lb.kind]
		if !strings.HasPrefix(made.Name, classicPrefix) {
			status.ARN = made.Name
		}
		return true
	}
	return false
}

// balancerTypes are CAPA's words for the types.
var balancerTypes = map[string]infrav1.LoadBalancerType{
	lbClassic: infrav1.LoadBalancerTypeClassic, lbNetwork: infrav1.LoadBalancerTypeNLB,
	lbApplication: infrav1.LoadBalancerTypeALB, lbGateway: infrav1.LoadBalancerTypeELB,
}

// status is where the load balancer is recorded.
func (lb *lbView) status(a *infrav1.AWSCluster) *infrav1.LoadBalancer {
	if lb.spec != nil && lb.spec == a.Spec.SecondaryControlPlaneLoadBalancer {
		return &a.Status.Network.SecondaryAPIServerELB
	}
	return &a.Status.Network.APIServerELB
}

// roleOf gives the role of a planned group; empty if it is none of the owner's.
func roleOf(owner *providers.Owner, planned providers.ID) string {
	for _, role := range recordView(owner).groupRoles() {
		if planned == providers.Provisional(providers.KindSecurityGroup, whatGroup(role)) {
			return string(role)
		}
	}
	return ""
}
