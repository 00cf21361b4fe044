package aws

import (
	"fmt"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// Tags by which the cloud controller manager finds subnets for load balancers.
const (
	internalELBTag = "kubernetes.io/role/internal-elb"
	externalELBTag = "kubernetes.io/role/elb"
)

// subnetView is one subnet of the spec.
type subnetView struct {
	spec *infrav1.SubnetSpec
	// id is empty when the subnet is not known, and why says why.
	id, why string
	seen    *providers.Resource
	zone    string
	// public is what the user declared; adopted that CAPA has since written
	// the opposite into the spec.
	public, adopted bool
}

// resolveSubnets finds the spec's subnets in the snapshot.
func (c *clusterView) resolveSubnets() {
	specs := c.spec.Spec.NetworkSpec.Subnets
	declared := declarationsOf(c.spec)
	c.subnets = make([]subnetView, len(specs))
	for i := range specs {
		s := subnetView{spec: &specs[i]}
		s.public = declared.public(c, s.spec)
		s.adopted = s.public != s.spec.IsPublic
		s.id, s.why = c.subnetID(s.spec)
		if s.id != "" {
			s.seen = c.snap.Resources[providers.ID{Kind: providers.KindSubnet, Name: s.id}]
		}
		s.zone = first(s.spec.AvailabilityZone, textOf(s.seen, pathZone))
		c.subnets[i] = s
	}
}

// subnetID gives the recorded id, else the subnet of the same block in the
// cluster's VPC, where blocks do not overlap, as CAPA looks for it.
func (c *clusterView) subnetID(s *infrav1.SubnetSpec) (id, why string) {
	if id := s.GetResourceID(); isSubnetID(id) {
		return id, ""
	}
	what := whatSubnet(s)
	if c.plan {
		return c.notCreated(providers.KindSubnet, what)
	}
	if c.vpcID == "" {
		return "", what + ": " + c.noVPC
	}
	block, err := canonical.CIDR(first(s.CidrBlock, s.IPv6CidrBlock))
	if err != nil {
		return c.byTag(providers.KindSubnet, what, func(r *providers.Resource) bool {
			return c.inVPC("")(r) && s.ID != "" && tagOf(r, "Name") == first(s.Tags["Name"], s.ID)
		})
	}
	path := pathCIDR
	if s.CidrBlock == "" {
		path = pathIPv6CIDR
	}
	if err, known := c.snap.Covered(providers.KindSubnet, ""); err != nil || !known {
		return "", what + " not recorded, and not to be found by its block: " + notRead(providers.KindSubnet, err)
	}
	for _, r := range ofKind(c.snap, providers.KindSubnet) {
		if textOf(r, pathVPCID) == c.vpcID && textOf(r, path) == block {
			return r.ID.Name, ""
		}
	}
	return c.notCreated(providers.KindSubnet, what)
}

func (s *subnetView) secondary() bool {
	return s.spec.Tags[infrav1.NameAWSSubnetAssociation] == infrav1.SecondarySubnetTagValue
}

// core reports subnets that the cluster's own machinery may use: not in edge
// zones, and not for pods.
func (s *subnetView) core() bool { return !s.spec.IsEdge() && !s.secondary() }

func (s *subnetView) role() string {
	if s.public {
		return infrav1.PublicRoleTagValue
	}
	return infrav1.PrivateRoleTagValue
}

// subnetWants adds the spec's subnets.
func (w *wants) subnetWants() {
	c := w.cluster
	if len(c.subnets) == 0 {
		w.unrecorded(providers.KindSubnet, "spec.network.subnets", "no subnets are recorded yet")
		return
	}
	for i := range c.subnets {
		s := &c.subnets[i]
		if s.id == "" {
			w.unrecorded(providers.KindSubnet, s.spec.ID, s.why)
			continue
		}
		r := w.made(providers.KindSubnet, s.id, first(s.spec.ID, s.id), infrav1.SubnetsReadyCondition)
		r.Needs = w.needs(providers.KindVPC, c.vpcID)
		wantString(&r, pathVPCID, c.vpcID, providers.Immutable)
		wantString(&r, pathZone, s.spec.AvailabilityZone, providers.Immutable)
		w.wantCIDR(&r, pathCIDR, s.spec.CidrBlock, s.spec.ID)
		w.wantCIDR(&r, pathIPv6CIDR, s.spec.IPv6CidrBlock, s.spec.ID)
		if c.managed {
			c.managedSubnet(&r, s)
		}
		w.add(r)
	}
}

// managedSubnet wants what CAPA sets on a subnet of a VPC that it keeps. It
// maps public addresses on subnets that it makes; one that was there before
// keeps its setting.
func (c *clusterView) managedSubnet(r *providers.Resource, s *subnetView) {
	if !isSubnetID(s.spec.ID) && !s.spec.IsEdgeWavelength() {
		r.Set(pathMapPublicIP, providers.Field{Value: providers.Bool(s.public), Mutability: providers.InPlace, Adopted: s.adopted})
	}
	if table, _ := c.tableID(s); table != "" {
		r.Set(pathRouteTableID, providers.Field{Value: providers.String(table), Mutability: providers.InPlace, Adopted: s.adopted})
	}
	wantTags(r, c.name, c.subnetTags(s))
	if s.adopted {
		now := *s
		now.public = s.spec.IsPublic
		c.markAdopted(r, c.subnetTags(s), c.subnetTags(&now))
	}
}

func (c *clusterView) subnetTags(s *subnetView) infrav1.Tags {
	more := c.cloudProviderTag()
	switch {
	case s.spec.IsEdge():
	case s.public:
		more[externalELBTag] = "1"
	default:
		more[internalELBTag] = "1"
	}
	more.Merge(s.spec.Tags)
	name := first(s.spec.Tags["Name"], fmt.Sprintf("%s-subnet-%s-%s", c.name, s.role(), s.zone))
	return c.clusterTags(name, s.role(), more)
}

// markAdopted marks the tags that CAPA now writes otherwise.
func (c *clusterView) markAdopted(r *providers.Resource, declared, now infrav1.Tags) {
	for key, value := range declared {
		path := providers.Pointer("tags", key)
		f, wanted := r.Fields.Lookup(path)
		if other, ok := now[key]; wanted && (!ok || other != value) {
			f.Adopted = true
			r.Fields.Set(path, f)
		}
	}
}
