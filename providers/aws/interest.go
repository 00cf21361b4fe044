package aws

import (
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// interest is what is read in detail. VPC attributes and the parts of load
// balancers cost calls for each; a region may hold hundreds that have nothing
// to do with any cluster.
type interest struct {
	vpcs      map[string]bool
	balancers map[string]bool
	// keyAliases are read where an owner names a key by one.
	keyAliases bool
	// planes are the instances of control-plane machines, whatever their tags say.
	planes map[string]bool
}

// interestOf gives what an AWSCluster refers to. What carries ownership tags
// is found without it; this finds what CAPA uses and did not make.
func interestOf(cluster *infrav1.AWSCluster) interest {
	out := interest{vpcs: map[string]bool{}, balancers: map[string]bool{}}
	if id := cluster.Spec.NetworkSpec.VPC.ID; id != "" {
		out.vpcs[id] = true
	}
	names := []string{cluster.Status.Network.APIServerELB.Name, cluster.Status.Network.SecondaryAPIServerELB.Name}
	for _, spec := range []*infrav1.AWSLoadBalancerSpec{cluster.Spec.ControlPlaneLoadBalancer, cluster.Spec.SecondaryControlPlaneLoadBalancer} {
		if spec != nil {
			names = append(names, deref(spec.Name))
		}
	}
	for _, name := range names {
		if name != "" {
			out.balancers[name] = true
		}
	}
	return out
}

// interestIn joins what all owners of a scope refer to.
func (p *Provider) interestIn(scope providers.Scope) interest {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := interest{vpcs: map[string]bool{}, balancers: map[string]bool{}, planes: map[string]bool{}}
	for _, one := range p.asked[scope] {
		for id := range one.vpcs {
			out.vpcs[id] = true
		}
		for name := range one.balancers {
			out.balancers[name] = true
		}
		for id := range one.planes {
			out.planes[id] = true
		}
		out.keyAliases = out.keyAliases || one.keyAliases
	}
	return out
}

// addOwned adds the VPCs of everything that carries an ownership tag.
func (i interest) addOwned(vpcs []*providers.Resource, others ...[]*providers.Resource) {
	for _, v := range vpcs {
		if len(v.ClusterTags) > 0 {
			i.vpcs[v.ID.Name] = true
		}
	}
	for _, list := range others {
		for _, r := range list {
			if id := r.Fields.Get("/vpcId").Value.Text(); id != "" && len(r.ClusterTags) > 0 {
				i.vpcs[id] = true
			}
		}
	}
}
