package aws

import (
	"fmt"
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// network adds what an AWSCluster wants. Of a VPC that the user brought, and
// of everything where something else manages the infrastructure, only what is
// referred to must be there.
func (w *wants) network(a *infrav1.AWSCluster) {
	c := w.cluster
	c.resolveSubnets()
	w.vpcWants()
	w.subnetWants()
	nats := c.natGateways()
	if c.managed {
		w.gatewayWants()
		w.natWants(nats)
		w.aclWants()
	}
	w.routeWants(nats)
	if !c.external {
		w.groupWants()
	}
	w.loadBalancerWants()
	if a.Spec.Bastion.Enabled && !c.external {
		w.bastionWants()
	}
	if a.Spec.S3Bucket != nil {
		w.unchecked(providers.KindVPC, "spec.s3Bucket", "spec.s3Bucket: the bucket and its VPC endpoint are not modelled")
	}
	if why := beingDeleted(w.owner); why != "" {
		w.release(why)
	}
}

// made starts a wanted resource of the cluster.
func (w *wants) made(kind, id, name string, about clusterv1beta1.ConditionType) providers.Resource {
	spec := w.cluster.spec
	return providers.Resource{
		ID:    providers.ID{Kind: kind, Name: id},
		Name:  name,
		Since: since(spec, spec.Status.Conditions, about),
	}
}

// needs gives the ids of a kind that are known.
func (w *wants) needs(kind string, ids ...string) []providers.ID {
	var out []providers.ID
	for _, id := range ids {
		if id != "" {
			out = append(out, providers.ID{Kind: kind, Name: id})
		}
	}
	return out
}

// needsOf gives what the elements of some of a resource's fields name.
func (w *wants) needsOf(r *providers.Resource, kinds map[string]string) []providers.ID {
	var out []providers.ID
	for path, f := range r.Fields.All() {
		if kind, ok := kinds[path]; ok {
			out = append(out, w.needs(kind, f.Value.Elements()...)...)
		}
	}
	return out
}

// wantCIDR wants a block of the spec. One that is none is the spec's fault.
func (w *wants) wantCIDR(r *providers.Resource, path, block, of string) {
	if block == "" {
		return
	}
	canon, err := canonical.CIDR(block)
	if err != nil {
		w.unchecked(r.ID.Kind, of+" "+path, fmt.Sprintf("%s: %v", of, err))
		return
	}
	want(r, path, providers.String(canon), providers.Immutable)
}

// vpcWants adds the VPC. A second one with the cluster's ownership tag is
// pointed out: two clusters may share the name.
func (w *wants) vpcWants() {
	c := w.cluster
	if c.vpcID == "" {
		w.unrecorded(providers.KindVPC, "VPC", c.noVPC)
		return
	}
	r := w.made(providers.KindVPC, c.vpcID, c.name+"-vpc", infrav1.VpcReadyCondition)
	spec := c.vpc()
	if c.managed {
		w.wantCIDR(&r, pathCIDR, spec.CidrBlock, "spec.network.vpc.cidrBlock")
		want(&r, pathDNSSupport, providers.Bool(true), providers.InPlace)
		want(&r, pathDNSHostnames, providers.Bool(true), providers.InPlace)
		wantTags(&r, c.name, c.clusterTags(c.name+"-vpc", infrav1.CommonRoleTagValue, nil))
		r.Warnings = c.namesakes()
	}
	if !c.external {
		w.furtherBlocks(&r)
	}
	w.add(r)
}

// furtherBlocks wants the secondary blocks, which CAPA adds to any VPC and
// takes off none, and the IPv6 block, without which the subnets' are nothing.
func (w *wants) furtherBlocks(r *providers.Resource) {
	var blocks []string
	add := func(block, field string) {
		canon, err := canonical.CIDR(block)
		if err != nil {
			w.unchecked(providers.KindVPC, field, field+": "+err.Error())
			return
		}
		blocks = append(blocks, canon)
	}
	vpc := w.cluster.vpc()
	for i, b := range vpc.SecondaryCidrBlocks {
		add(b.IPv4CidrBlock, fmt.Sprintf("spec.network.vpc.secondaryCidrBlocks[%d]", i))
	}
	if vpc.IsIPv6Enabled() && vpc.IPv6.CidrBlock != "" {
		add(vpc.IPv6.CidrBlock, "spec.network.vpc.ipv6.cidrBlock")
	}
	if len(blocks) > 0 {
		wantMatch(r, pathCIDRs, providers.Set(blocks...), providers.Contains, providers.InPlace)
	}
}

// namesakes names other VPCs with this cluster's ownership tag.
func (c *clusterView) namesakes() []string {
	var out []string
	for _, r := range ofKind(c.snap, providers.KindVPC) {
		if r.ID.Name != c.vpcID && ownedBy(r, c.name) {
			out = append(out, fmt.Sprintf("%s carries the ownership tag of a cluster %s too: another cluster of that name, or an abandoned attempt", r.ID.Name, c.name))
		}
	}
	return out
}

// internetGateway gives the VPC's gateway: the recorded one, else the one that
// is attached.
func (c *clusterView) internetGateway() (id, why string) {
	if id := deref(c.vpc().InternetGatewayID); id != "" {
		return id, ""
	}
	return c.byTag(providers.KindInternetGateway, whatGateway, c.attachedGateway(false))
}

func (c *clusterView) egressOnlyGateway() (id, why string) {
	if id := deref(c.vpc().IPv6.EgressOnlyInternetGatewayID); id != "" {
		return id, ""
	}
	return c.byTag(providers.KindInternetGateway, whatEgressOnly, c.attachedGateway(true))
}

func (c *clusterView) attachedGateway(egressOnly bool) func(*providers.Resource) bool {
	return func(r *providers.Resource) bool {
		return c.inVPC("")(r) && r.Fields.Get(pathEgressOnly).Value.Equal(providers.Bool(egressOnly))
	}
}

func (w *wants) gatewayWants() {
	c := w.cluster
	add := func(id, why, name string, egressOnly bool, about clusterv1beta1.ConditionType) {
		if id == "" {
			w.unrecorded(providers.KindInternetGateway, name, why)
			return
		}
		r := w.made(providers.KindInternetGateway, id, name, about)
		r.Needs = w.needs(providers.KindVPC, c.vpcID)
		wantString(&r, pathVPCID, c.vpcID, providers.InPlace)
		want(&r, pathEgressOnly, providers.Bool(egressOnly), providers.Immutable)
		wantTags(&r, c.name, c.clusterTags(name, infrav1.CommonRoleTagValue, nil))
		w.add(r)
	}
	id, why := c.internetGateway()
	add(id, why, c.name+"-igw", false, infrav1.InternetGatewayReadyCondition)
	if c.vpc().IsIPv6Enabled() {
		id, why := c.egressOnlyGateway()
		add(id, why, c.name+"-eigw", true, infrav1.EgressOnlyInternetGatewayReadyCondition)
	}
}

// natView is the NAT gateway of one zone.
type natView struct {
	zone, id, why, subnet string
}

// natGateways gives one gateway for each zone that has a private subnet, in
// the zone's first public subnet.
func (c *clusterView) natGateways() []natView {
	if !c.managed {
		return nil
	}
	private := map[string]bool{}
	for i := range c.subnets {
		if s := &c.subnets[i]; s.core() && !s.public {
			private[s.zone] = true
		}
	}
	var out []natView
	for i := range c.subnets {
		s := &c.subnets[i]
		if !s.core() || !s.public || !private[s.zone] || slices.ContainsFunc(out, func(n natView) bool { return n.zone == s.zone }) {
			continue
		}
		n := natView{zone: s.zone, subnet: s.id}
		n.id, n.why = c.natID(s)
		out = append(out, n)
	}
	return out
}

func (c *clusterView) natID(s *subnetView) (id, why string) {
	if id := deref(s.spec.NatGatewayID); id != "" && !c.failedNAT(id) {
		return id, ""
	}
	what := whatNAT(s.zone)
	if s.id == "" {
		return "", what + ": " + s.why
	}
	return c.byTag(providers.KindNATGateway, what, func(r *providers.Resource) bool { return textOf(r, pathSubnetID) == s.id })
}

// failedNAT reports a gateway that EC2 could not make and that is planned anew:
// it never was one (NatGateway, State).
func (c *clusterView) failedNAT(id string) bool {
	seen := c.snap.Resources[providers.ID{Kind: providers.KindNATGateway, Name: id}]
	return c.plan && seen != nil && textOf(seen, pathState) == string(ec2types.NatGatewayStateFailed)
}

// pendingNAT reports a gateway that EC2 is still making. A route to it has to
// wait for it.
func (c *clusterView) pendingNAT(id string) bool {
	seen := c.snap.Resources[providers.ID{Kind: providers.KindNATGateway, Name: id}]
	return c.plan && textOf(seen, pathState) == statePending
}

func (w *wants) natWants(nats []natView) {
	c := w.cluster
	for _, n := range nats {
		if n.id == "" {
			w.unrecorded(providers.KindNATGateway, n.zone, n.why)
			continue
		}
		r := w.made(providers.KindNATGateway, n.id, c.name+"-nat", infrav1.NatGatewaysReadyCondition)
		r.Needs = w.needs(providers.KindSubnet, n.subnet)
		r.Needs = append(r.Needs, c.needsGateway()...)
		r.Unsettled = c.pendingNAT(n.id)
		wantMatch(&r, pathState, providers.Set("available", statePending), providers.OneOf, providers.Immutable)
		wantString(&r, pathVPCID, c.vpcID, providers.Immutable)
		wantString(&r, pathSubnetID, n.subnet, providers.Immutable)
		wantTags(&r, c.name, c.clusterTags(c.name+"-nat", infrav1.CommonRoleTagValue, nil))
		w.add(r)
	}
}

// needsGateway gives the internet gateway where something planned has a public
// address, which EC2 gives in no VPC without one.
func (c *clusterView) needsGateway() []providers.ID {
	if !c.plan || !c.managed {
		return nil
	}
	id, _ := c.internetGateway()
	return []providers.ID{{Kind: providers.KindInternetGateway, Name: id}}
}

// aclWants adds the network ACL that every subnet of a managed VPC has: the
// VPC's default one, with the entries that EC2 gave it. CAPA knows no others.
func (w *wants) aclWants() {
	c := w.cluster
	if c.vpcID == "" {
		w.unrecorded(providers.KindNetworkACL, "default", "default network ACL: "+c.noVPC)
		return
	}
	var acl *providers.Resource
	for _, r := range ofKind(c.snap, providers.KindNetworkACL) {
		if textOf(r, pathVPCID) == c.vpcID && r.Fields.Get(pathDefault).Value.Equal(providers.Bool(true)) {
			acl = r
			break
		}
	}
	if acl == nil && c.plan {
		return // EC2 makes it with the VPC
	}
	if acl == nil {
		why := "the default network ACL of " + c.vpcID + " was not seen"
		if err, known := c.snap.Covered(providers.KindNetworkACL, ""); err != nil || !known {
			why = notRead(providers.KindNetworkACL, err)
		}
		w.unrecorded(providers.KindNetworkACL, "default", why)
		return
	}
	r := w.made(providers.KindNetworkACL, acl.ID.Name, "default of "+c.vpcID, infrav1.VpcReadyCondition)
	var subnets []string
	for i := range c.subnets {
		if c.subnets[i].id != "" {
			subnets = append(subnets, c.subnets[i].id)
		}
	}
	if len(subnets) > 0 {
		wantMatch(&r, pathAssociations, providers.Set(subnets...), providers.Contains, providers.InPlace)
	}
	want(&r, pathIngress, c.defaultEntries(acl, pathIngress, "from"), providers.InPlace)
	want(&r, pathEgress, c.defaultEntries(acl, pathEgress, "to"), providers.InPlace)
	w.add(r)
}

// defaultEntries are those of a new VPC's ACL: allow everything. The closing
// denials, which nobody can change, are wanted where they are reported.
func (c *clusterView) defaultEntries(acl *providers.Resource, path, word string) providers.Value {
	entries := []string{"100 allow all " + word + " 0.0.0.0/0"}
	if c.vpc().IsIPv6Enabled() {
		entries = append(entries, "101 allow all "+word+" ::/0")
	}
	for _, fixed := range []string{"32767 deny all " + word + " 0.0.0.0/0", "32768 deny all " + word + " ::/0"} {
		if acl.Fields.Get(path).Value.Has(fixed) {
			entries = append(entries, fixed)
		}
	}
	return providers.Set(entries...)
}
