package aws

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

func (y *yard) condition(about clusterv1beta1.ConditionType) clusterv1beta1.Condition {
	for _, c := range y.object().Status.Conditions {
		if c.Type == about {
			return c
		}
	}
	return clusterv1beta1.Condition{}
}

// What EC2 takes a minute for is waited for, in words.
func TestBuildClusterWaits(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	y := newYard(t, ec2sim.Options{Clock: clock, Delays: &ec2sim.Delays{NATGateway: time.Minute, LoadBalancer: 3 * time.Minute}}).declare("default", "my-cluster", withNLB)
	ctx := t.Context()
	for range 2 {
		if err := y.pass(ctx); err != nil {
			t.Fatal(err)
		}
		if want := "NAT gateway of zone us-west-2a is pending"; y.waiting != want {
			t.Errorf("waits for %q, want %q", y.waiting, want)
		}
	}
	if c := y.condition(infrav1.NatGatewaysReadyCondition); c.Status != "False" || c.Reason != infrav1.NatGatewaysCreationStartedReason || !strings.Contains(c.Message, "pending") {
		t.Errorf("condition of the NAT gateways: %+v", c)
	}
	if c := y.condition(infrav1.VpcReadyCondition); c.Status != "True" {
		t.Errorf("condition of the VPC: %+v", c)
	}
	if y.object().Status.Ready {
		t.Error("ready without NAT gateways")
	}
	clock.Step(time.Minute)
	for range 2 {
		if err := y.pass(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if want := "load balancer default-my-cluster-apiserver is provisioning"; y.waiting != want {
		t.Errorf("waits for %q, want %q", y.waiting, want)
	}
	clock.Step(3 * time.Minute)
	y.build(ctx)
	if c := y.condition(clusterv1beta1.ReadyCondition); c.Status != "True" || !y.object().Status.Ready {
		t.Errorf("condition of the whole: %+v", c)
	}
	if diff := cmp.Diff(networkCounts, y.counts(ctx)); diff != "" {
		t.Error(diff)
	}
	if gone, err := y.unmakePass(ctx); gone || err != nil {
		t.Fatalf("gone %t, %v, while the NAT gateways are being deleted", gone, err)
	}
	if !strings.HasPrefix(y.waiting, "NAT gateway nat-") {
		t.Errorf("waits for %q", y.waiting)
	}
	clock.Step(time.Minute)
	y.unmake(ctx)
	if left := y.counts(ctx); left != "" {
		t.Errorf("left in the cloud: %s", left)
	}
}

// While EC2 does not show what was made yet, nothing is made twice.
func TestBuildClusterEventually(t *testing.T) {
	y := newYard(t, ec2sim.Options{Consistency: ec2sim.Consistency{HideReads: 2}}).declare("default", "my-cluster")
	for _, action := range []string{"CreateVpc", "CreateInternetGateway", "AllocateAddress", "CreateSubnet", "CreateSecurityGroup", "CreateRouteTable", "CreateNatGateway"} {
		y.cloud.InjectFault(ec2sim.Fault{Action: action, Times: 2, Kind: ec2sim.FaultDrop, AfterSuccess: true})
	}
	tries := 0
	for y.waiting = "yes"; y.waiting != ""; tries++ {
		if err := y.pass(t.Context()); tries > 100 {
			t.Fatalf("it never comes to an end: %v, %s", err, y.waiting)
		}
	}
	for range 3 { // reads that may miss something
		y.census(t.Context())
	}
	if diff := cmp.Diff(classicCounts, y.counts(t.Context())); diff != "" {
		t.Error(diff)
	}
}

// Two clusters of one name in two namespaces never touch each other's.
func TestBuildNamesakes(t *testing.T) {
	ctx := t.Context()
	one := newYard(t, ec2sim.Options{}).declare("one", "my-cluster")
	one.build(ctx)
	before := one.picture(ctx)
	two := one.beside().declare("two", "my-cluster")
	var err error
	for range 5 {
		if err = two.pass(ctx); err != nil {
			break
		}
	}
	if err == nil || !lasting(err) || !strings.Contains(err.Error(), "uid-of-one-my-cluster") || !strings.Contains(err.Error(), "spec.controlPlaneLoadBalancer.name") {
		t.Fatalf("got %v: want whose the load balancer is and what to set", err)
	}
	if c := two.condition(infrav1.LoadBalancerReadyCondition); c.Reason != infrav1.LoadBalancerFailedReason || c.Severity != clusterv1beta1.ConditionSeverityError {
		t.Errorf("condition of the load balancer: %+v", c)
	}
	two.edit(func(a *infrav1.AWSCluster) { a.Spec.ControlPlaneLoadBalancer.Name = ptr("another") })
	two.build(ctx)
	if want := "address 6, classic 2, group 8, igw 2, nat 6, subnet 12, table 12, vpc 2"; two.counts(ctx) != want {
		t.Errorf("the cloud has %s, want %s", two.counts(ctx), want)
	}
	mutations := len(one.cloud.Mutations())
	one.build(ctx)
	if made := one.cloud.Mutations()[mutations:]; len(made) > 0 {
		t.Errorf("the first one was written to: %v", made)
	}
	two.unmake(ctx)
	if diff := cmp.Diff(before, one.picture(ctx)); diff != "" {
		t.Errorf("the first one changed when the second went:\n%s", diff)
	}
	one.unmake(ctx)
	if left := one.counts(ctx); left != "" {
		t.Errorf("left in the cloud: %s", left)
	}
}

// bring makes a network as a user's other tools would.
func (y *yard) bring() (vpc string, subnets []string) {
	y.t.Helper()
	ctx, t := y.t.Context(), y.t
	made := must[*ec2.CreateVpcOutput](t)(y.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: ptr("10.9.0.0/16")}))
	vpc = *made.Vpc.VpcId
	gateway := must[*ec2.CreateInternetGatewayOutput](t)(y.ec2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{}))
	must[*ec2.AttachInternetGatewayOutput](t)(y.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{VpcId: &vpc, InternetGatewayId: gateway.InternetGateway.InternetGatewayId}))
	var nat *string
	for i, block := range []string{"10.9.0.0/20", "10.9.16.0/20"} {
		subnet := must[*ec2.CreateSubnetOutput](t)(y.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: &block, AvailabilityZone: ptr(y.region + "a")}))
		table := must[*ec2.CreateRouteTableOutput](t)(y.ec2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &vpc}))
		must[*ec2.AssociateRouteTableOutput](t)(y.ec2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: table.RouteTable.RouteTableId, SubnetId: subnet.Subnet.SubnetId}))
		route := &ec2.CreateRouteInput{RouteTableId: table.RouteTable.RouteTableId, DestinationCidrBlock: ptr(anyIPv4), NatGatewayId: nat}
		if i == 0 {
			route.GatewayId = gateway.InternetGateway.InternetGatewayId
			address := must[*ec2.AllocateAddressOutput](t)(y.ec2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: ec2types.DomainTypeVpc}))
			out := must[*ec2.CreateNatGatewayOutput](t)(y.ec2.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: subnet.Subnet.SubnetId, AllocationId: address.AllocationId}))
			nat = out.NatGateway.NatGatewayId
		}
		must[*ec2.CreateRouteOutput](t)(y.ec2.CreateRoute(ctx, route))
		subnets = append(subnets, *subnet.Subnet.SubnetId)
	}
	return vpc, subnets
}

// In a VPC that was brought nothing is made but groups and load balancers, and
// nothing else is touched or goes.
func TestBuildInBroughtVPC(t *testing.T) {
	ctx := t.Context()
	y := newYard(t, ec2sim.Options{})
	vpc, subnets := y.bring()
	brought := func(a *infrav1.AWSCluster) {
		a.Spec.NetworkSpec.VPC.ID = vpc
		a.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: subnets[0]}, {ID: subnets[1]}}
	}
	before := y.declare("prod", "my-cluster", brought).census(ctx)
	tags := y.allTags(ctx)
	y.build(ctx)
	after := y.census(ctx)
	for kind, ids := range before {
		if diff := cmp.Diff(ids, after[kind]); diff != "" {
			t.Errorf("%s differ: %s", kind, diff)
		}
	}
	if len(after["group"]) != 4 || len(after["classic"]) != 1 {
		t.Errorf("the cloud has %s", y.counts(ctx))
	}
	now := y.allTags(ctx)
	maps.DeleteFunc(now, func(id string, _ string) bool { return slices.Contains(after["group"], id) })
	if diff := cmp.Diff(tags, now); diff != "" {
		t.Errorf("tags of what was brought differ:\n%s", diff)
	}
	a := y.object()
	s := a.Spec.NetworkSpec.Subnets
	if !s[0].IsPublic || s[1].IsPublic || s[0].CidrBlock != "10.9.0.0/20" || s[0].AvailabilityZone != y.region+"a" || s[0].NatGatewayID == nil || len(a.Status.Network.NatGatewaysIPs) != 1 || a.Spec.NetworkSpec.VPC.CidrBlock != "10.9.0.0/16" {
		t.Errorf("what the network is like was recorded as %+v, %v", s, a.Status.Network.NatGatewaysIPs)
	}
	// A cluster of the same name beside it.
	two := y.beside().declare("dev", "my-cluster", brought, func(a *infrav1.AWSCluster) {
		a.Spec.ControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{Name: ptr("another")}
	})
	err := two.pass(ctx)
	if err == nil || !lasting(err) || !strings.Contains(err.Error(), "uid-of-prod-my-cluster") || !strings.Contains(err.Error(), "spec.network.securityGroupOverrides") {
		t.Errorf("a namesake in one VPC: %v", err)
	}
	two.unmake(ctx)
	if diff := cmp.Diff(after, y.census(ctx)); diff != "" {
		t.Errorf("a namesake's end took from the other:\n%s", diff)
	}
	y.unmake(ctx)
	if diff := cmp.Diff(before, y.census(ctx)); diff != "" {
		t.Errorf("left or gone (-brought +now):\n%s", diff)
	}
}

// allTags lists every tag of EC2's resources.
func (y *yard) allTags(ctx context.Context) map[string]string {
	out := map[string]string{}
	for _, t := range must[*ec2.DescribeTagsOutput](y.t)(y.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{})).Tags {
		out[*t.ResourceId] += *t.Key + "=" + *t.Value + "\n"
	}
	return out
}

// What the cloud controller manager made for Services goes too, and a stranger
// in the VPC is named and waited for.
func TestUnmakeClusterWithOthers(t *testing.T) {
	ctx := t.Context()
	y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster")
	y.build(ctx)
	a := y.object()
	vpc, subnet := a.Spec.NetworkSpec.VPC.ID, a.Spec.NetworkSpec.Subnets[0].ResourceID
	byCloud := []ec2types.Tag{{Key: ptr("kubernetes.io/cluster/my-cluster"), Value: ptr("owned")}}
	group := must[*ec2.CreateSecurityGroupOutput](t)(y.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: ptr("k8s-elb-abc"), Description: ptr("a Service's"), VpcId: &vpc,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSecurityGroup, Tags: byCloud}},
	}))
	node := a.Status.Network.SecurityGroups[infrav1.SecurityGroupNode].ID
	must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(y.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &node, IpPermissions: []ec2types.IpPermission{
		{IpProtocol: ptr("-1"), UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: group.GroupId}}},
	}}))
	must[*elb.CreateLoadBalancerOutput](t)(y.elb.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
		LoadBalancerName: ptr("a1b2c3"), Subnets: []string{subnet}, SecurityGroups: []string{*group.GroupId},
		Listeners: []elbtypes.Listener{{Protocol: ptr("TCP"), LoadBalancerPort: 80, InstancePort: ptr[int32](30080)}},
		Tags:      []elbtypes.Tag{{Key: ptr("kubernetes.io/cluster/my-cluster"), Value: ptr("owned")}, {Key: ptr("kubernetes.io/service-name"), Value: ptr("default/web")}},
	}))
	image, err := y.cloud.AddImage(y.cloud.DefaultScope(y.region), ec2sim.Image{})
	if err != nil {
		t.Fatal(err)
	}
	stranger := *must[*ec2.RunInstancesOutput](t)(y.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: &image, InstanceType: ec2types.InstanceTypeT3Micro, SubnetId: &subnet, MinCount: ptr[int32](1), MaxCount: ptr[int32](1),
	})).Instances[0].InstanceId
	for range 3 {
		gone, err := y.unmakePass(ctx)
		if gone || err == nil || lasting(err) || !strings.Contains(err.Error(), stranger) {
			t.Fatalf("gone %t, %v: want that %s is waited for", gone, err, stranger)
		}
	}
	if !strings.Contains(y.waiting, stranger) {
		t.Errorf("waits for %q", y.waiting)
	}
	must[*ec2.TerminateInstancesOutput](t)(y.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{stranger}}))
	y.unmake(ctx)
	if left := y.counts(ctx); left != "" {
		t.Errorf("left in the cloud: %s", left)
	}
}

// What could not be read is never taken for gone.
func TestDoomedNeedsAllThatIsRead(t *testing.T) {
	ctx := t.Context()
	y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster")
	y.build(ctx)
	for _, action := range []string{"DescribeLoadBalancers", "DescribeNatGateways", "DescribeVpcs", "DescribeSecurityGroups"} {
		remove := y.cloud.InjectFault(ec2sim.Fault{Action: action, Kind: ec2sim.FaultError, Code: "UnauthorizedOperation", Status: http.StatusForbidden})
		if gone, err := y.unmakePass(ctx); gone || err == nil {
			t.Errorf("without %s: gone %t, %v", action, gone, err)
		}
		remove()
	}
	if diff := cmp.Diff(classicCounts, y.counts(ctx)); diff != "" {
		t.Error(diff)
	}
}

// A cluster whose objects are moved to another management cluster has another
// UID and no status there, and is the same cluster.
func TestBuildMovedCluster(t *testing.T) {
	ctx := t.Context()
	for name, brought := range map[string]bool{"own VPC": false, "brought VPC": true} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, ec2sim.Options{})
			mod := func(*infrav1.AWSCluster) {}
			if brought {
				vpc, subnets := y.bring()
				mod = func(a *infrav1.AWSCluster) {
					a.Spec.NetworkSpec.VPC.ID = vpc
					a.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: subnets[0]}, {ID: subnets[1]}}
				}
			}
			y.declare("default", "my-cluster", mod)
			before := y.counts(ctx)
			y.build(ctx)
			built, status := y.counts(ctx), y.object().Status
			y.edit(func(a *infrav1.AWSCluster) { a.UID, a.Status = "another-uid", infrav1.AWSClusterStatus{} })
			mutations := len(y.cloud.Mutations())
			y.build(ctx)
			if made := y.cloud.Mutations()[mutations:]; len(made) > 0 {
				t.Errorf("it was written to: %v", made)
			}
			if now := y.object().Status; !cmp.Equal(status.Network, now.Network) || !cmp.Equal(status.FailureDomains, now.FailureDomains) {
				t.Errorf("the status is not what it was:\n%s", cmp.Diff(status, now))
			}
			if y.counts(ctx) != built {
				t.Errorf("the cloud has %s, and had %s", y.counts(ctx), built)
			}
			y.unmake(ctx)
			if left := y.counts(ctx); left != before {
				t.Errorf("left in the cloud: %s, before: %s", left, before)
			}
		})
	}
}

// The blocks of subnets are CAPA's.
func TestDefaultSubnets(t *testing.T) {
	blocks := func(subnets infrav1.Subnets, public bool) (out []string) {
		for _, s := range subnets {
			if s.IsPublic == public {
				out = append(out, s.CidrBlock)
			}
		}
		return out
	}
	for _, tc := range []struct {
		block, schema   string
		zones           int
		public, private []string
	}{
		{"10.0.0.0/16", "PreferPrivate", 3, []string{"10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20"}, []string{"10.0.64.0/18", "10.0.128.0/18", "10.0.192.0/18"}},
		{"10.0.0.0/16", "PreferPublic", 3, []string{"10.0.64.0/18", "10.0.128.0/18", "10.0.192.0/18"}, []string{"10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20"}},
		{"10.0.0.0/16", "PreferPrivate", 1, []string{"10.0.0.0/17"}, []string{"10.0.128.0/17"}},
		{"10.20.0.0/16", "PreferPrivate", 2, []string{"10.20.0.0/19", "10.20.32.0/19"}, []string{"10.20.64.0/18", "10.20.128.0/18"}},
		{"192.168.255.0/24", "PreferPrivate", 3, []string{"192.168.255.0/28", "192.168.255.16/28", "192.168.255.32/28"}, []string{"192.168.255.64/26", "192.168.255.128/26", "192.168.255.192/26"}},
	} {
		schema := infrav1.SubnetSchemaType(tc.schema)
		got, err := defaultSubnets("c", &infrav1.VPCSpec{CidrBlock: tc.block, SubnetSchema: &schema}, []string{"a", "b", "c"}[:tc.zones])
		if err != nil {
			t.Errorf("%s: %v", tc.block, err)
			continue
		}
		if diff := cmp.Diff([][]string{tc.public, tc.private}, [][]string{blocks(got, true), blocks(got, false)}); diff != "" {
			t.Errorf("%s, %s, %d zones:\n%s", tc.block, tc.schema, tc.zones, diff)
		}
		if got[0].ID != "c-subnet-public-a" || got[1].ID != "c-subnet-private-a" {
			t.Errorf("the names are %s and %s", got[0].ID, got[1].ID)
		}
	}
}
