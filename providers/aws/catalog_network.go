package aws

import "github.com/holdfast-io/holdfast/providers"

var (
	vpcRow     = row(providers.KindVPC)
	subnetRow  = row(providers.KindSubnet)
	gatewayRow = row(providers.KindInternetGateway)
	natRow     = row(providers.KindNATGateway)
	tableRow   = row(providers.KindRouteTable)
	aclRow     = row(providers.KindNetworkACL)
	groupRow   = row(providers.KindSecurityGroup)
)

// Texts that many rows share.
const (
	sourceOwnTags = "EC2 API: CreateTags; CAPA: api/v1beta2 Build"
	compareTags   = "case-sensitive, only wanted keys; aws: keys and other clusters' ownership are foreign"
	fromTags      = "AWSCluster spec.additionalTags; ownership, role and name; in a VPC that CAPA keeps"
	compareExists = "existence: absent twice, past the creation grace, is missing; owned and wanted by nobody is an orphan"
)

// catalogNetwork are the fields of an AWSCluster's network.
var catalogNetwork = []providers.CatalogRow{
	vpcRow("/state", "AWSCluster spec.network.vpc.id", immutable, compareExists, "EC2 API: DescribeVpcs"),
	vpcRow("/cidrBlock", "AWSCluster spec.network.vpc.cidrBlock, of a VPC that CAPA keeps", immutable, "masked prefix", "EC2 API: Vpc, CidrBlock"),
	vpcRow("/cidrBlocks", "AWSCluster spec.network.vpc.secondaryCidrBlocks and ipv6.cidrBlock", inPlace, "each wanted prefix is there; others are not judged", "EC2 API: AssociateVpcCidrBlock; CAPA: associateSecondaryCidrs"),
	vpcRow("/enableDnsSupport", "always true, in a VPC that CAPA keeps", inPlace, "exactly", "EC2 API: ModifyVpcAttribute; CAPA: ensureManagedVPCAttributes"),
	vpcRow("/enableDnsHostnames", "always true, in a VPC that CAPA keeps", inPlace, "exactly", "EC2 API: ModifyVpcAttribute; CAPA: ensureManagedVPCAttributes"),
	vpcRow("/tags/KEY", fromTags, inPlace, compareTags, sourceOwnTags),

	subnetRow("/state", "AWSCluster spec.network.subnets", immutable, compareExists, "EC2 API: DescribeSubnets"),
	subnetRow("/vpcId", "AWSCluster spec.network.vpc.id", immutable, "exactly", "EC2 API: Subnet, VpcId"),
	subnetRow("/availabilityZone", "AWSCluster spec.network.subnets[].availabilityZone", immutable, "exactly", "EC2 API: Subnet, AvailabilityZone"),
	subnetRow("/cidrBlock", "AWSCluster spec.network.subnets[].cidrBlock", immutable, "masked prefix", "EC2 API: Subnet, CidrBlock"),
	subnetRow("/ipv6CidrBlock", "AWSCluster spec.network.subnets[].ipv6CidrBlock", immutable, "masked prefix", "EC2 API: Subnet, Ipv6CidrBlockAssociationSet"),
	subnetRow("/mapPublicIpOnLaunch", "AWSCluster spec.network.subnets[].isPublic as declared, of subnets that CAPA made", inPlace, "exactly; an isPublic that CAPA wrote over the user's is adopted drift", "EC2 API: ModifySubnetAttribute; CAPA: createSubnet"),
	subnetRow("/routeTableId", "AWSCluster spec.network.subnets[].routeTableId, of a VPC that CAPA keeps", inPlace, "exactly; a subnet that names no table has its VPC's main one", "EC2 API: ReplaceRouteTableAssociation"),
	subnetRow("/tags/KEY", "AWSCluster spec.network.subnets[].tags and spec.additionalTags; ownership, role, load balancer role and name; in a VPC that CAPA keeps", inPlace, compareTags, "EC2 API: CreateTags; CAPA: getSubnetTagParams"),

	gatewayRow("/state", "AWSCluster spec.network.vpc.internetGatewayId, spec.network.vpc.ipv6.egressOnlyInternetGatewayId", immutable, compareExists, "EC2 API: DescribeInternetGateways, DescribeEgressOnlyInternetGateways"),
	gatewayRow("/vpcId", "AWSCluster spec.network.vpc.id", inPlace, "the VPC that it is attached to", "EC2 API: AttachInternetGateway"),
	gatewayRow("/egressOnly", "egress-only for IPv6 from private subnets", immutable, "exactly", "EC2 API: CreateEgressOnlyInternetGateway"),
	gatewayRow("/tags/KEY", fromTags, inPlace, compareTags, sourceOwnTags),

	natRow("/state", "one NAT gateway for each zone with a private subnet: AWSCluster spec.network.subnets[].natGatewayId", immutable, "available or pending; deleted or failed is gone", "EC2 API: NatGateway, State; CAPA: reconcileNatGateways"),
	natRow("/vpcId", "AWSCluster spec.network.vpc.id", immutable, "exactly", "EC2 API: NatGateway, VpcId"),
	natRow("/subnetId", "the zone's first public subnet", immutable, "exactly", "EC2 API: CreateNatGateway, SubnetId"),
	natRow("/tags/KEY", fromTags, inPlace, compareTags, sourceOwnTags),

	tableRow("/state", "AWSCluster spec.network.subnets[].routeTableId", immutable, compareExists, "EC2 API: DescribeRouteTables"),
	tableRow("/vpcId", "AWSCluster spec.network.vpc.id", immutable, "exactly", "EC2 API: RouteTable, VpcId"),
	tableRow("/associations", "the subnets that the table was made for", inPlace, "each wanted subnet is associated; others are not judged", "EC2 API: AssociateRouteTable"),
	tableRow("/routes/DESTINATION", "isPublic as declared: the internet gateway for public subnets, NAT and egress-only gateways for private ones", inPlace, "target id; a deleted route and a black hole differ; a private subnet's table has no route to an internet gateway, also where CAPA has adopted it", "EC2 API: CreateRoute, ReplaceRoute; CAPA: getRoutesForSubnet"),
	tableRow("/tags/KEY", fromTags, inPlace, compareTags, sourceOwnTags),

	aclRow("/state", "the default network ACL of a VPC that CAPA keeps", immutable, compareExists, "EC2 API: DescribeNetworkAcls"),
	aclRow("/associations", "the cluster's subnets", inPlace, "each wanted subnet is associated; others are not judged", "EC2 API: ReplaceNetworkAclAssociation"),
	aclRow("/ingress", "allow all, as EC2 makes it", inPlace, "set of entries with their numbers", "EC2 API: CreateNetworkAclEntry"),
	aclRow("/egress", "allow all, as EC2 makes it", inPlace, "set of entries with their numbers", "EC2 API: CreateNetworkAclEntry"),

	groupRow("/state", "AWSCluster spec.network.securityGroupOverrides, status.networkStatus.securityGroups", immutable, compareExists, "EC2 API: DescribeSecurityGroups"),
	groupRow("/vpcId", "AWSCluster spec.network.vpc.id", immutable, "exactly", "EC2 API: SecurityGroup, VpcId"),
	groupRow("/ingress", "AWSCluster spec.network.cni, additionalControlPlaneIngressRules, additionalNodeIngressRules, nodePortIngressRuleCidrBlocks, load balancers' ingressRules, spec.bastion, and CAPA's own rules", inPlace, "set of (protocol, ports, peer), one for each peer; the description is no part of a rule; the lb group may have more", "EC2 API: AuthorizeSecurityGroupIngress; CAPA: getSecurityGroupIngressRules"),
	groupRow("/egress", "AWSCluster spec.network.vpc.emptyRoutesDefaultVPCSecurityGroup, of the VPC's default group", inPlace, "set of (protocol, ports, peer); nothing else can declare egress, so nothing else is compared", "EC2 API: RevokeSecurityGroupEgress"),
	groupRow("/tags/KEY", "AWSCluster spec.additionalTags; ownership, role and name; the cloud provider's tag on the lb group alone", inPlace, compareTags, "EC2 API: CreateTags; CAPA: getSecurityGroupTagParams"),
}
