package aws

import (
	"fmt"
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// goingOrder is the order in which a cluster's resources go: each before those
// that it stands in or refers to.
var goingOrder = []string{
	providers.KindInstance, providers.KindLoadBalancer, providers.KindNATGateway, providers.KindRouteTable,
	providers.KindSecurityGroup, providers.KindInternetGateway, providers.KindSubnet, providers.KindVPC,
}

// doomedOfCluster gives what was made for the cluster and is still there: what
// is recorded, what carries the owner's tag, and in the VPC that is the
// cluster's own what carries the cluster's tags, also those by which the cloud
// controller manager marks what it made. Of a VPC that was brought nothing goes
// but what was made in it for this very owner.
func doomedOfCluster(owner *providers.Owner, a *infrav1.AWSCluster, snap *providers.Snapshot) ([]providers.Resource, error) {
	c := newClusterView(owner, snap, true)
	if c.external {
		return nil, nil
	}
	for _, part := range append([]string{partTags}, goingOrder...) {
		if err, known := snap.Coverage[part]; err != nil || !known {
			return nil, fmt.Errorf("what is left of %s cannot be told: %s", owner.Ref, notRead(part, err))
		}
	}
	d := newDoom(c, a)
	var out []providers.Resource
	for _, kind := range goingOrder {
		for _, r := range ofKind(snap, kind) {
			if r.Gone == "" && d.takes(r) {
				r := *r
				r.Unsettled = kind == providers.KindNATGateway && textOf(&r, pathState) == string(ec2types.NatGatewayStateDeleting)
				out = append(out, r)
			}
		}
	}
	for i := range out {
		out[i].Needs = nil
		for j := range out {
			if out[j].ID.Kind != out[i].ID.Kind && slices.Index(goingOrder, out[j].ID.Kind) > slices.Index(goingOrder, out[i].ID.Kind) {
				out[i].Needs = append(out[i].Needs, out[j].ID)
			}
		}
	}
	return out, nil
}

// doom tells what goes with a cluster.
type doom struct {
	c *clusterView
	// recorded are ids that the AWSCluster records as made for it.
	recorded map[providers.ID]bool
	// vpcs are the cluster's own.
	vpcs map[string]bool
	// makers are the owner tags of those that this cluster's resources were
	// made for: its object, and the object that it was moved from.
	makers map[string]bool
}

func newDoom(c *clusterView, a *infrav1.AWSCluster) *doom {
	d := &doom{c: c, recorded: map[providers.ID]bool{}, vpcs: map[string]bool{}, makers: map[string]bool{string(a.UID): true}}
	d.record(a)
	for _, vpc := range ofKind(c.snap, providers.KindVPC) {
		recorded := c.managed && c.vpc().ID == vpc.ID.Name
		if recorded || tagOf(vpc, ownerTag) == string(a.UID) {
			d.vpcs[vpc.ID.Name] = true
			if maker := tagOf(vpc, ownerTag); maker != "" {
				d.makers[maker] = true
			}
		}
	}
	return d
}

func (d *doom) record(a *infrav1.AWSCluster) {
	add := func(kind, id string) {
		if id != "" {
			d.recorded[providers.ID{Kind: kind, Name: id}] = true
		}
	}
	overridden := a.Spec.NetworkSpec.SecurityGroupOverrides
	for role, g := range a.Status.Network.SecurityGroups {
		if overridden[role] == "" {
			add(providers.KindSecurityGroup, g.ID)
		}
	}
	for _, lb := range []*infrav1.LoadBalancer{&a.Status.Network.APIServerELB, &a.Status.Network.SecondaryAPIServerELB} {
		add(providers.KindLoadBalancer, lb.ARN)
		if lb.ARN == "" && lb.Name != "" {
			add(providers.KindLoadBalancer, classicPrefix+lb.Name)
		}
	}
	if b := a.Status.Bastion; b != nil {
		add(providers.KindInstance, b.ID)
	}
	network := &a.Spec.NetworkSpec
	if !d.c.managed || network.VPC.ID == "" {
		return // what is recorded of a brought network is its user's
	}
	add(providers.KindVPC, network.VPC.ID)
	add(providers.KindInternetGateway, deref(network.VPC.InternetGatewayID))
	if network.VPC.IPv6 != nil {
		add(providers.KindInternetGateway, deref(network.VPC.IPv6.EgressOnlyInternetGatewayID))
	}
	for i := range network.Subnets {
		s := &network.Subnets[i]
		add(providers.KindSubnet, s.GetResourceID())
		add(providers.KindRouteTable, deref(s.RouteTableID))
		add(providers.KindNATGateway, deref(s.NatGatewayID))
	}
}

// takes reports what goes.
func (d *doom) takes(r *providers.Resource) bool {
	if r.ID.Kind == providers.KindInstance {
		return d.recorded[r.ID] && tagOf(r, infrav1.NameAWSClusterAPIRole) == infrav1.BastionRoleTagValue
	}
	if ofVPC(r) {
		return false
	}
	maker := tagOf(r, ownerTag)
	switch {
	case maker == string(d.c.spec.UID):
		return true
	case maker != "" && !d.makers[maker]:
		return d.recorded[r.ID] && d.owned(r) && d.sameBalancer(r)
	case d.recorded[r.ID]:
		// A load balancer or a group that somebody brought lacks the tag.
		return d.owned(r) || r.ID.Kind != providers.KindLoadBalancer && r.ID.Kind != providers.KindSecurityGroup
	default:
		return d.vpcs[d.vpcOf(r)] && slices.Contains(r.ClusterTags, d.c.name)
	}
}

// ofVPC reports what EC2 makes and unmakes with a VPC: its main route table and
// its default group.
func ofVPC(r *providers.Resource) bool {
	return r.ID.Kind == providers.KindRouteTable && r.Fields.Get("/main").Value.Equal(providers.Bool(true)) ||
		r.ID.Kind == providers.KindSecurityGroup && r.Name == "default"
}

func (d *doom) vpcOf(r *providers.Resource) string {
	if r.ID.Kind == providers.KindVPC {
		return r.ID.Name
	}
	return textOf(r, pathVPCID)
}

func (d *doom) owned(r *providers.Resource) bool { return ownedBy(r, d.c.name) }

// sameBalancer tells a classic load balancer from a later one of its name: by
// the address that the cluster has as its endpoint. Other ids are not used twice.
func (d *doom) sameBalancer(r *providers.Resource) bool {
	host := d.c.spec.Spec.ControlPlaneEndpoint.Host
	return textOf(r, pathLBType) != lbClassic || host != "" && host == textOf(r, pathDNSName)
}
