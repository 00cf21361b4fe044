package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	defaultVPCBlock  = "10.0.0.0/16"
	defaultZoneLimit = 3
	// smallestSubnet is the longest prefix of a subnet (CreateSubnet, CidrBlock).
	smallestSubnet = 28
)

// settleCluster decides what CAPA's admission and its services decide of a new
// AWSCluster. It makes no call once nothing is open.
func (b *building) settleCluster(ctx context.Context, a *infrav1.AWSCluster) error {
	if _, external := a.Annotations[clusterv1.ManagedByAnnotation]; external {
		return nil
	}
	a.Default()
	vpc := &a.Spec.NetworkSpec.VPC
	unset(&a.Spec.ControlPlaneLoadBalancer.Scheme, infrav1.ELBSchemeInternetFacing)
	unset(&vpc.AvailabilityZoneUsageLimit, defaultZoneLimit)
	unset(&vpc.AvailabilityZoneSelection, infrav1.AZSelectionSchemeOrdered)
	unset(&vpc.SubnetSchema, infrav1.SubnetSchemaPreferPrivate)
	if err := notBuildable(a); err != nil {
		return err
	}
	if vpc.IsUnmanaged(b.owner.Cluster.Name) {
		return b.settleBrought(ctx, a)
	}
	return b.settleManaged(ctx, a)
}

func unset[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// notBuildable refuses what Holdfast does not make, by the field that asks for
// it. What exists already is compared like everything else.
func notBuildable(a *infrav1.AWSCluster) error {
	spec := &a.Spec
	vpc := &spec.NetworkSpec.VPC
	primary, second := spec.ControlPlaneLoadBalancer, spec.SecondaryControlPlaneLoadBalancer
	toBeMade := vpc.ID == ""
	for _, r := range []struct {
		asked bool
		why   string
	}{
		{toBeMade && vpc.IPAMPool != nil, "spec.network.vpc.ipamPool: Holdfast takes no blocks from IPAM pools: set spec.network.vpc.cidrBlock"},
		{toBeMade && vpc.IPv6 != nil, "spec.network.vpc.ipv6: Holdfast makes no IPv6 networks yet: bring a VPC by spec.network.vpc.id"},
		{vpc.GetPublicIpv4Pool() != nil, "spec.network.vpc.elasticIpPool.publicIpv4Pool: Holdfast takes Elastic IPs from Amazon's pool only"},
		{spec.Bastion.Enabled && a.Status.Bastion == nil, "spec.bastion.enabled: Holdfast makes no bastions yet"},
		{spec.S3Bucket != nil, "spec.s3Bucket: Holdfast makes no buckets: pass bootstrap data by user data"},
		{primary.LoadBalancerType == infrav1.LoadBalancerTypeELB, "spec.controlPlaneLoadBalancer.loadBalancerType: a gateway load balancer cannot serve a control plane: want classic, nlb, alb or disabled"},
		{second != nil && deref(second.Name) == "", "spec.secondaryControlPlaneLoadBalancer.name is needed: without one both load balancers would have the same"},
		{second != nil && second.LoadBalancerType == infrav1.LoadBalancerTypeClassic, "spec.secondaryControlPlaneLoadBalancer.loadBalancerType: want nlb or alb"},
		{toBeMade && len(spec.NetworkSpec.SecurityGroupOverrides) > 0, "spec.network.securityGroupOverrides need a VPC that exists, in spec.network.vpc.id: groups cannot be older than theirs"},
	} {
		if r.asked {
			return unsupported("%s", r.why)
		}
	}
	return nil
}

// settleManaged fills in the block of a VPC that is to be made, its subnets and
// their zones.
func (b *building) settleManaged(ctx context.Context, a *infrav1.AWSCluster) error {
	network := &a.Spec.NetworkSpec
	if network.VPC.CidrBlock == "" {
		network.VPC.CidrBlock = defaultVPCBlock
	}
	if len(network.Subnets) == 0 {
		zones, err := b.chooseZones(ctx, &network.VPC)
		if err != nil {
			return err
		}
		if network.Subnets, err = defaultSubnets(b.owner.Cluster.Name, &network.VPC, zones); err != nil {
			return err
		}
	}
	if err := b.settleZones(ctx, network.Subnets); err != nil {
		return err
	}
	public := false
	for i := range network.Subnets {
		s := &network.Subnets[i]
		if err := settleSubnet(s, fmt.Sprintf("spec.network.subnets[%d]", i)); err != nil {
			return err
		}
		public = public || s.IsPublic
	}
	if !public {
		return unsupported("spec.network.subnets has no public subnet (isPublic): NAT gateways and load balancers stand in those")
	}
	return nil
}

// settleSubnet gives a subnet that is to be made the name that its id is, and
// refuses one that cannot be made.
func settleSubnet(s *infrav1.SubnetSpec, field string) error {
	switch {
	case s.ResourceID != "" || isSubnetID(s.ID):
	case s.CidrBlock == "":
		return unsupported("%s.cidrBlock is needed for a subnet that is to be made", field)
	case s.IsIPv6 || s.IPv6CidrBlock != "":
		return unsupported("%s.isIpv6: Holdfast makes no IPv6 subnets yet", field)
	case s.IsEdge():
		return unsupported("%s.availabilityZone: %s is a %s, in which Holdfast makes no subnets yet", field, s.AvailabilityZone, *s.ZoneType)
	}
	if s.ID != "" && !isSubnetID(s.ID) && s.Tags["Name"] == "" {
		if s.Tags == nil {
			s.Tags = infrav1.Tags{}
		}
		s.Tags["Name"] = s.ID
	}
	return nil
}

// settleZones records what kind of zone each subnet is in.
func (b *building) settleZones(ctx context.Context, subnets infrav1.Subnets) error {
	var open []string
	for i := range subnets {
		s := &subnets[i]
		switch {
		case s.ZoneType != nil:
		case s.AvailabilityZone == "":
			return unsupported("spec.network.subnets[%d].availabilityZone is needed for a subnet that is to be made", i)
		case !slices.Contains(open, s.AvailabilityZone):
			open = append(open, s.AvailabilityZone)
		}
	}
	if len(open) == 0 {
		return nil
	}
	slices.Sort(open)
	out, err := b.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{ZoneNames: open})
	if err != nil {
		return buildError(err, "read the zones "+strings.Join(open, ", ")+" of spec.network.subnets")
	}
	for i := range subnets {
		s := &subnets[i]
		if s.ZoneType != nil {
			continue
		}
		at := slices.IndexFunc(out.AvailabilityZones, func(z ec2types.AvailabilityZone) bool { return deref(z.ZoneName) == s.AvailabilityZone })
		if at < 0 {
			return refused("spec.network.subnets[%d].availabilityZone: %s is not a zone of %s that the account may use", i, s.AvailabilityZone, b.region)
		}
		z := &out.AvailabilityZones[at]
		s.ZoneType = ptr(infrav1.ZoneType(cmp.Or(deref(z.ZoneType), string(infrav1.ZoneTypeAvailabilityZone))))
		if s.ParentZoneName == nil {
			s.ParentZoneName = z.ParentZoneName
		}
	}
	return nil
}

// chooseZones gives as many of the region's available zones as the limit says:
// no local ones, which have to be opted into. What is to be random is so by the
// owner, so that it comes out the same however often it is asked.
func (b *building) chooseZones(ctx context.Context, vpc *infrav1.VPCSpec) ([]string, error) {
	out, err := b.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{
		Filters: where("state", string(ec2types.AvailabilityZoneStateAvailable), "opt-in-status", string(ec2types.AvailabilityZoneOptInStatusOptInNotRequired)),
	})
	if err != nil {
		return nil, buildError(err, "read the zones of "+b.region)
	}
	var zones []string
	for i := range out.AvailabilityZones {
		if z := &out.AvailabilityZones[i]; cmp.Or(deref(z.ZoneType), string(infrav1.ZoneTypeAvailabilityZone)) == string(infrav1.ZoneTypeAvailabilityZone) {
			zones = append(zones, deref(z.ZoneName))
		}
	}
	if len(zones) == 0 {
		return nil, refused("no zone of %s is available: list subnets in spec.network.subnets", b.region)
	}
	slices.Sort(zones)
	if limit := *vpc.AvailabilityZoneUsageLimit; len(zones) > limit {
		if *vpc.AvailabilityZoneSelection == infrav1.AZSelectionSchemeRandom {
			place := func(zone string) string {
				sum := sha256.Sum256([]byte(b.uid() + "/" + zone))
				return string(sum[:])
			}
			slices.SortFunc(zones, func(x, y string) int { return cmp.Compare(place(x), place(y)) })
		}
		zones = zones[:max(limit, 1)]
	}
	return zones, nil
}

// defaultSubnets are CAPA's: the VPC's block in one part for each zone and one
// more, which is the first and is split again for the zones' other subnets.
func defaultSubnets(cluster string, vpc *infrav1.VPCSpec, zones []string) (infrav1.Subnets, error) {
	block, err := netip.ParsePrefix(vpc.CidrBlock)
	if err != nil || !block.Addr().Is4() {
		return nil, refused("spec.network.vpc.cidrBlock: %q is no IPv4 block", vpc.CidrBlock)
	}
	parts := splitBlock(block.Masked(), len(zones)+1)
	rest := splitBlock(parts[0], len(zones))
	if rest[0].Bits() > smallestSubnet {
		return nil, refused("spec.network.vpc.cidrBlock: %s is too small for a public and a private subnet in each of %d zones: choose a larger block, or lower spec.network.vpc.availabilityZoneUsageLimit", vpc.CidrBlock, len(zones))
	}
	private, public := parts[1:], rest
	if *vpc.SubnetSchema == infrav1.SubnetSchemaPreferPublic {
		private, public = public, private
	}
	var out infrav1.Subnets
	for i, zone := range zones {
		for _, side := range []struct {
			role   string
			block  netip.Prefix
			public bool
		}{{infrav1.PublicRoleTagValue, public[i], true}, {infrav1.PrivateRoleTagValue, private[i], false}} {
			out = append(out, infrav1.SubnetSpec{
				ID:        fmt.Sprintf("%s-subnet-%s-%s", cluster, side.role, zone),
				CidrBlock: side.block.String(), AvailabilityZone: zone, IsPublic: side.public,
			})
		}
	}
	return out, nil
}

// splitBlock gives the first n of equal parts of a block, as large as n of them
// can be.
func splitBlock(block netip.Prefix, n int) []netip.Prefix {
	bits := 0
	for 1<<bits < n {
		bits++
	}
	length := min(block.Bits()+bits, 32)
	out := make([]netip.Prefix, n)
	base := block.Addr().As4()
	at := binary.BigEndian.Uint32(base[:])
	for i := range out {
		binary.BigEndian.PutUint32(base[:], at)
		out[i] = netip.PrefixFrom(netip.AddrFrom4(base), length)
		at += 1 << (32 - length)
	}
	return out
}
