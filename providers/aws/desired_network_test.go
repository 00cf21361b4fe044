package aws

import (
	"errors"
	"strings"
	"testing"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// withNetwork gives a managed cluster two zones, each with a public and a
// private subnet, as CAPA records them.
func withNetwork(c *infrav1.AWSCluster) {
	c.Spec.NetworkSpec.VPC.InternetGatewayID = pt("igw-1")
	for i, zone := range []string{"a", "b"} {
		n := string(rune('1' + i))
		c.Spec.NetworkSpec.Subnets = append(c.Spec.NetworkSpec.Subnets,
			infrav1.SubnetSpec{
				ID: "c1-subnet-public-" + zone, ResourceID: "subnet-pub" + n, CidrBlock: "10.0." + n + ".0/24", AvailabilityZone: zone,
				IsPublic: true, RouteTableID: pt("rtb-pub" + n), NatGatewayID: pt("nat-" + n),
			},
			infrav1.SubnetSpec{
				ID: "c1-subnet-private-" + zone, ResourceID: "subnet-priv" + n, CidrBlock: "10.0.1" + n + ".0/24", AvailabilityZone: zone,
				RouteTableID: pt("rtb-priv" + n),
			})
	}
	c.Status.Network.NatGatewaysIPs = []string{"203.0.113.1", "203.0.113.2"}
}

// brought makes the cluster's VPC one that the user brought.
func brought(c *infrav1.AWSCluster) {
	c.Spec.NetworkSpec.VPC = infrav1.VPCSpec{ID: "vpc-1", CidrBlock: "10.0.0.0/16"}
	c.Spec.NetworkSpec.Subnets = infrav1.Subnets{
		{ID: "subnet-1", IsPublic: true, AvailabilityZone: "a"},
		{ID: "subnet-2", AvailabilityZone: "a", Tags: infrav1.Tags{"kubernetes.io/cluster/c2": "shared", "kubernetes.io/cluster/c1": "shared"}},
	}
}

func pick(t *testing.T, all map[providers.ID]providers.Resource, kind, id string) providers.Resource {
	t.Helper()
	r, ok := all[providers.ID{Kind: kind, Name: id}]
	if !ok {
		t.Fatalf("no %s %s is wanted", kind, id)
	}
	return r
}

func TestManagedNetwork(t *testing.T) {
	cluster := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		c.Spec.AdditionalTags = infrav1.Tags{"team": "a"}
		c.Spec.NetworkSpec.VPC.SecondaryCidrBlocks = []infrav1.VpcCidrBlock{{IPv4CidrBlock: "100.64.7.0/10"}}
	})
	acl := seenResource(providers.KindNetworkACL, "acl-1", "/vpcId", "vpc-1", "/default", true,
		"/ingress", []string{"50 deny all from 0.0.0.0/0", "32767 deny all from 0.0.0.0/0"}, "/egress", []string{})
	all := get(t, clusterOwner(cluster), genSnapshot(acl))
	tests := []struct {
		kind, id string
		want     map[string]any
	}{
		{providers.KindVPC, "vpc-1", map[string]any{
			"/cidrBlock": "10.0.0.0/16", "/cidrBlocks": "Contains 100.64.0.0/10", "/enableDnsSupport": true, "/enableDnsHostnames": true,
			"/tags/Name": "c1-vpc", "/tags/team": "a", "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role": "common",
			"/tags/sigs.k8s.io~1cluster-api-provider-aws~1cluster~1c1": "owned", "/tags/kubernetes.io~1cluster~1c1": nil,
		}},
		{providers.KindSubnet, "subnet-pub1", map[string]any{
			"/vpcId": "vpc-1", "/cidrBlock": "10.0.1.0/24", "/availabilityZone": "a", "/mapPublicIpOnLaunch": true, "/routeTableId": "rtb-pub1",
			"/tags/Name": "c1-subnet-public-a", "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role": "public",
			"/tags/kubernetes.io~1role~1elb": "1", "/tags/kubernetes.io~1role~1internal-elb": nil, "/tags/kubernetes.io~1cluster~1c1": "owned",
		}},
		{providers.KindSubnet, "subnet-priv2", map[string]any{
			"/mapPublicIpOnLaunch": false, "/tags/Name": "c1-subnet-private-b", "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role": "private",
			"/tags/kubernetes.io~1role~1elb": nil, "/tags/kubernetes.io~1role~1internal-elb": "1",
		}},
		{providers.KindInternetGateway, "igw-1", map[string]any{"/vpcId": "vpc-1", "/egressOnly": false, "/tags/Name": "c1-igw"}},
		{providers.KindNATGateway, "nat-2", map[string]any{"/subnetId": "subnet-pub2", "/state": "OneOf available, pending", "/tags/Name": "c1-nat"}},
		{providers.KindRouteTable, "rtb-pub1", map[string]any{
			"/routes/0.0.0.0~10": "igw-1", "/routes/::~10": nil, "/associations": "Contains subnet-pub1",
			"/tags/Name": "c1-rt-public-a", "/tags/kubernetes.io~1cluster~1c1": "owned",
		}},
		{providers.KindRouteTable, "rtb-priv2", map[string]any{"/routes/0.0.0.0~10": "nat-2", "/associations": "Contains subnet-priv2", "/tags/Name": "c1-rt-private-b"}},
		{providers.KindNetworkACL, "acl-1", map[string]any{
			"/associations": "Contains subnet-priv1, subnet-priv2, subnet-pub1, subnet-pub2",
			"/ingress":      []string{"100 allow all from 0.0.0.0/0", "32767 deny all from 0.0.0.0/0"},
			"/egress":       []string{"100 allow all to 0.0.0.0/0"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.kind+" "+tt.id, func(t *testing.T) {
			r := pick(t, all, tt.kind, tt.id)
			for path, want := range tt.want {
				checkField(t, r, path, want)
			}
		})
	}
	for id, r := range all {
		if r.Unchecked != "" {
			t.Errorf("%s is not compared: %s", id, r.Unchecked)
		}
	}
}

// C16: a VPC and subnets that the user brought must be there, and their tags,
// routes and entries are the user's, whatever the spec has absorbed.
func TestC16BroughtNetwork(t *testing.T) {
	all := get(t, clusterOwner(genAWSCluster(brought)), genSnapshot(seenSubnet("subnet-2", "a", "/routeTableId", "rtb-1")))
	for id, r := range all {
		for path := range r.Fields.All() {
			if strings.HasPrefix(path, "/tags/") && id.Kind != providers.KindSecurityGroup && id.Kind != providers.KindLoadBalancer {
				t.Errorf("%s wants %s", id, path)
			}
		}
		switch id.Kind {
		case providers.KindVPC:
			if len(r.Fields) != 0 {
				t.Errorf("%s wants %v", id, r.Fields)
			}
		case providers.KindSubnet:
			checkField(t, r, "/vpcId", "vpc-1")
			checkField(t, r, "/mapPublicIpOnLaunch", nil)
		case providers.KindSecurityGroup, providers.KindLoadBalancer:
		default:
			t.Errorf("%s is wanted", id)
		}
	}
	pick(t, all, providers.KindVPC, "vpc-1")
	pick(t, all, providers.KindSubnet, "subnet-2")
}

// C62: where something else manages the cluster's infrastructure, what it
// names must be there, and nothing more is wanted.
func TestC62ExternallyManaged(t *testing.T) {
	external := func(c *infrav1.AWSCluster) { c.Annotations = map[string]string{"cluster.x-k8s.io/managed-by": ""} }
	all := get(t, clusterOwner(genAWSCluster(withNetwork, external)), genSnapshot())
	for id, r := range all {
		if id.Kind != providers.KindVPC && id.Kind != providers.KindSubnet {
			t.Errorf("%s is wanted", id)
		}
		for path := range r.Fields.All() {
			if strings.HasPrefix(path, "/tags/") {
				t.Errorf("%s wants %s", id, path)
			}
		}
	}
	if r := pick(t, all, providers.KindVPC, "vpc-1"); len(r.Fields) != 0 {
		t.Errorf("VPC wants %v", r.Fields)
	}
}

// A cluster that was never made is not missing: there is nothing to look for.
func TestClusterNotCreatedYet(t *testing.T) {
	bare := &infrav1.AWSCluster{}
	bare.Name, bare.Namespace = "c1", "prod"
	bare.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: "c1-pub", CidrBlock: "10.0.1.0/24", IsPublic: true, AvailabilityZone: "a"}, {ID: "c1-priv", AvailabilityZone: "a"}}
	o := clusterOwner(bare)
	all := get(t, o, genSnapshot())
	if len(all) < 5 {
		t.Errorf("wanted %v", all)
	}
	for id, r := range all {
		if id.Name != "" || !strings.Contains(r.Unchecked, "not created yet") {
			t.Errorf("%s: %q", id, r.Unchecked)
		}
	}
	unread := genSnapshot()
	unread.Coverage[providers.KindVPC] = errors.New("RequestLimitExceeded")
	got := get(t, o, unread)[providers.ID{Kind: providers.KindVPC}].Unchecked
	if !strings.Contains(got, "RequestLimitExceeded") || strings.Contains(got, "not created") {
		t.Errorf("unread VPCs: %q", got)
	}
}

// Without ids in the spec the cluster's tags, names and blocks find its parts.
func TestFoundByTags(t *testing.T) {
	cluster := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.VPC = infrav1.VPCSpec{CidrBlock: "10.0.0.0/16"}
		for i := range c.Spec.NetworkSpec.Subnets {
			s := &c.Spec.NetworkSpec.Subnets[i]
			s.ResourceID, s.RouteTableID, s.NatGatewayID = "", nil, nil
		}
		c.Status.Network.SecurityGroups = nil
	})
	in := []any{"/vpcId", "vpc-1"}
	with := func(more ...any) []any { return append(append(append([]any{}, in...), owned()...), more...) }
	net := genSnapshot(
		seenResource(providers.KindVPC, "vpc-1", owned()...),
		seenResource(providers.KindVPC, "vpc-0"),
		seenSubnet("subnet-1", "a", "/cidrBlock", "10.0.1.0/24"), seenSubnet("subnet-2", "a", "/cidrBlock", "10.0.11.0/24"),
		seenSubnet("subnet-3", "b", "/cidrBlock", "10.0.2.0/24"), seenSubnet("subnet-4", "b", "/cidrBlock", "10.0.12.0/24"),
		seenResource(providers.KindInternetGateway, "igw-9", with("/egressOnly", false)...),
		seenResource(providers.KindNATGateway, "nat-9", with("/subnetId", "subnet-1")...),
		seenResource(providers.KindRouteTable, "rtb-1", with("/tags/Name", "c1-rt-private-a", "/associations", []string{"subnet-2"})...),
		seenGroup("sg-1", "c1-node", "vpc-1", owned()...),
	)
	all := get(t, clusterOwner(cluster), net)
	for _, id := range []providers.ID{
		{Kind: providers.KindVPC, Name: "vpc-1"}, {Kind: providers.KindSubnet, Name: "subnet-4"}, {Kind: providers.KindInternetGateway, Name: "igw-9"},
		{Kind: providers.KindNATGateway, Name: "nat-9"}, {Kind: providers.KindRouteTable, Name: "rtb-1"}, {Kind: providers.KindSecurityGroup, Name: "sg-1"},
	} {
		pick(t, all, id.Kind, id.Name)
	}
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-1"), "/routes/0.0.0.0~10", "nat-9")
	if got := reasons(all, providers.KindNATGateway); len(got) != 1 || got[0] != "NAT gateway of zone b not created yet" {
		t.Errorf("reasons %q", got)
	}

	// C50: two VPCs with the tag belong to two clusters of one name.
	net.Resources[providers.ID{Kind: providers.KindVPC, Name: "vpc-2"}] = seenResource(providers.KindVPC, "vpc-2", owned()...)
	all = get(t, clusterOwner(cluster), net)
	if got := reasons(all, providers.KindVPC); len(got) != 1 || !strings.Contains(got[0], "vpc-1, vpc-2") {
		t.Errorf("reasons %q", got)
	}
}

// C50: with its id recorded the cluster keeps its VPC, and the namesake is
// pointed out.
func TestC50Namesake(t *testing.T) {
	net := genSnapshot(seenResource(providers.KindVPC, "vpc-1", owned()...), seenResource(providers.KindVPC, "vpc-2", owned()...))
	r := pick(t, get(t, clusterOwner(genAWSCluster()), net), providers.KindVPC, "vpc-1")
	if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "vpc-2 carries") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestIPv6Network(t *testing.T) {
	cluster := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.VPC.IPv6 = &infrav1.IPv6{CidrBlock: "2001:DB8::/56", EgressOnlyInternetGatewayID: pt("eigw-1")}
		for i := range c.Spec.NetworkSpec.Subnets {
			s := &c.Spec.NetworkSpec.Subnets[i]
			s.IsIPv6, s.IPv6CidrBlock = true, "2001:db8:0:"+string(rune('1'+i))+"::/64"
		}
		c.Spec.NetworkSpec.Subnets[3].CidrBlock = "" // IPv6 only
	})
	acl := seenResource(providers.KindNetworkACL, "acl-1", "/vpcId", "vpc-1", "/default", true)
	all := get(t, clusterOwner(cluster), genSnapshot(acl))
	checkField(t, pick(t, all, providers.KindVPC, "vpc-1"), "/cidrBlocks", "Contains 2001:db8::/56")
	checkField(t, pick(t, all, providers.KindInternetGateway, "eigw-1"), "/egressOnly", true)
	checkField(t, pick(t, all, providers.KindSubnet, "subnet-pub1"), "/ipv6CidrBlock", "2001:db8:0:1::/64")
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-pub1"), "/routes/::~10", "igw-1")
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-priv1"), "/routes/::~10", "eigw-1")
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-priv1"), "/routes/64:ff9b::~196", nil)
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-priv2"), "/routes/64:ff9b::~196", "nat-2")
	checkField(t, pick(t, all, providers.KindNetworkACL, "acl-1"), "/egress", []string{"100 allow all to 0.0.0.0/0", "101 allow all to ::/0"})
	checkField(t, pick(t, all, providers.KindSecurityGroup, "sg-node"), "/ingress", []string{
		"ipip from sg-cp", "ipip from sg-node", "tcp 10250-10250 from sg-cp", "tcp 10250-10250 from sg-node",
		"tcp 179-179 from sg-cp", "tcp 179-179 from sg-node", "tcp 30000-32767 from 0.0.0.0/0", "tcp 30000-32767 from ::/0",
	})
}

// Edge zones have no NAT gateway of their own, and their carrier gateway is
// wanted by its recorded id.
func TestEdgeZones(t *testing.T) {
	local, wave := infrav1.ZoneTypeLocalZone, infrav1.ZoneTypeWavelengthZone
	cluster := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.VPC.CarrierGatewayID = pt("cagw-1")
		c.Spec.NetworkSpec.Subnets = append(c.Spec.NetworkSpec.Subnets,
			infrav1.SubnetSpec{ID: "lz", ResourceID: "subnet-lz", AvailabilityZone: "lax", ZoneType: &local, ParentZoneName: pt("b"), RouteTableID: pt("rtb-lz")},
			infrav1.SubnetSpec{ID: "lz2", ResourceID: "subnet-lz2", AvailabilityZone: "sfo", ZoneType: &local, RouteTableID: pt("rtb-lz2")},
			// A regular zone without a NAT gateway has no other zone's.
			infrav1.SubnetSpec{ID: "c", ResourceID: "subnet-c", AvailabilityZone: "c", RouteTableID: pt("rtb-c")},
			infrav1.SubnetSpec{ID: "subnet-given", AvailabilityZone: "a"},
			infrav1.SubnetSpec{ID: "wl", ResourceID: "subnet-wl", AvailabilityZone: "wl", ZoneType: &wave, IsPublic: true, RouteTableID: pt("rtb-wl")})
	})
	all := get(t, clusterOwner(cluster), genSnapshot())
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-lz"), "/routes/0.0.0.0~10", "nat-2")
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-lz2"), "/routes/0.0.0.0~10", "nat-1")
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-wl"), "/routes/0.0.0.0~10", "cagw-1")
	checkField(t, pick(t, all, providers.KindSubnet, "subnet-wl"), "/mapPublicIpOnLaunch", nil)
	checkField(t, pick(t, all, providers.KindSubnet, "subnet-given"), "/mapPublicIpOnLaunch", nil)
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-c"), "/routes/0.0.0.0~10", nil)
	checkField(t, pick(t, all, providers.KindSubnet, "subnet-wl"), "/tags/kubernetes.io~1role~1elb", nil)
}

// C29: the default ACL of a managed VPC has a baseline. One that was not read
// is not compared, and never in sync.
func TestC29NetworkACL(t *testing.T) {
	unread := genSnapshot()
	unread.Coverage[providers.KindNetworkACL] = errors.New("UnauthorizedOperation")
	for name, net := range map[string]*providers.Snapshot{"UnauthorizedOperation": unread, "was not seen": genSnapshot()} {
		all := get(t, clusterOwner(genAWSCluster(withNetwork)), net)
		if got := reasons(all, providers.KindNetworkACL); len(got) != 1 || !strings.Contains(got[0], name) {
			t.Errorf("reasons %q", got)
		}
	}
}

func TestBadBlocks(t *testing.T) {
	cluster := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.VPC.CidrBlock = "10.0.0.0"
		c.Spec.NetworkSpec.VPC.SecondaryCidrBlocks = []infrav1.VpcCidrBlock{{IPv4CidrBlock: "x"}}
		c.Spec.NetworkSpec.Subnets[0].CidrBlock = "10.0.1.0/240"
		c.Spec.NetworkSpec.NodePortIngressRuleCidrBlocks = infrav1.CidrBlocks{"10.0.0.0/8", "everywhere"}
	})
	all := get(t, clusterOwner(cluster), genSnapshot())
	words := strings.Join(append(append(reasons(all, providers.KindVPC), reasons(all, providers.KindSubnet)...), reasons(all, providers.KindSecurityGroup)...), "\n")
	for _, want := range []string{`"10.0.0.0"`, `secondaryCidrBlocks[0]: CIDR "x"`, `"10.0.1.0/240"`, `nodePortIngressRuleCidrBlocks: CIDR "everywhere"`} {
		if !strings.Contains(words, want) {
			t.Errorf("no reason names %s in:\n%s", want, words)
		}
	}
}

// A cluster on its way out claims what is its own and wants nothing of it.
func TestClusterBeingDeleted(t *testing.T) {
	cluster := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		now := c.CreationTimestamp
		c.DeletionTimestamp = &now
	})
	all := get(t, clusterOwner(cluster), genSnapshot())
	pick(t, all, providers.KindVPC, "vpc-1")
	for id, r := range all {
		if !r.Unsettled || len(r.Fields) > 0 || r.Unchecked != "" {
			t.Errorf("%s: %+v", id, r)
		}
	}
}
