package aws

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/holdfast-io/holdfast/test/moto"
)

// world is a small cluster's network and machines on moto, made with the SDK.
type world struct {
	t     *testing.T
	ec2   *ec2.Client
	elb   *elb.Client
	elbv2 *elbv2.Client

	vpc, private, public, igw, eigw, nat, table, publicTable, acl string
	group, instance, stopped, terminated, volume, eni             string
	classic, network, targetGroup                                 string
}

// must keeps the building of a world readable: it fails the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(out T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, motoServer.Output())
		}
		return out
	}
}

func tagsOf(kind ec2types.ResourceType, pairs ...string) []ec2types.TagSpecification {
	pairs = append(pairs, "sigs.k8s.io/cluster-api-provider-aws/cluster/c1", "owned")
	spec := ec2types.TagSpecification{ResourceType: kind}
	for i := 0; i < len(pairs); i += 2 {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return []ec2types.TagSpecification{spec}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	isolate(t, motoServer.URL)
	ctx := t.Context()
	if err := motoServer.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, ec2: ec2.NewFromConfig(cfg), elb: elb.NewFromConfig(cfg), elbv2: elbv2.NewFromConfig(cfg)}
	w.makeNetwork(ctx)
	w.makeMachines(ctx)
	w.makeBalancers(ctx)
	return w
}

func (w *world) makeNetwork(ctx context.Context) {
	t := w.t
	vpc := must[*ec2.CreateVpcOutput](t)(w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: ptr("10.0.0.0/16"), TagSpecifications: tagsOf(ec2types.ResourceTypeVpc, "Name", "c1-vpc")}))
	w.vpc = *vpc.Vpc.VpcId
	subnet := func(cidr string) string {
		out := must[*ec2.CreateSubnetOutput](t)(w.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &w.vpc, CidrBlock: &cidr, AvailabilityZone: ptr("eu-central-1a"), TagSpecifications: tagsOf(ec2types.ResourceTypeSubnet)}))
		return *out.Subnet.SubnetId
	}
	w.private, w.public = subnet("10.0.0.0/20"), subnet("10.0.16.0/20")
	igw := must[*ec2.CreateInternetGatewayOutput](t)(w.ec2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{TagSpecifications: tagsOf(ec2types.ResourceTypeInternetGateway)}))
	w.igw = *igw.InternetGateway.InternetGatewayId
	must[*ec2.AttachInternetGatewayOutput](t)(w.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{VpcId: &w.vpc, InternetGatewayId: &w.igw}))
	eigw := must[*ec2.CreateEgressOnlyInternetGatewayOutput](t)(w.ec2.CreateEgressOnlyInternetGateway(ctx, &ec2.CreateEgressOnlyInternetGatewayInput{VpcId: &w.vpc}))
	w.eigw = *eigw.EgressOnlyInternetGateway.EgressOnlyInternetGatewayId
	address := must[*ec2.AllocateAddressOutput](t)(w.ec2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: ec2types.DomainTypeVpc}))
	nat := must[*ec2.CreateNatGatewayOutput](t)(w.ec2.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: &w.public, AllocationId: address.AllocationId, TagSpecifications: tagsOf(ec2types.ResourceTypeNatgateway)}))
	w.nat = *nat.NatGateway.NatGatewayId
	table := func(subnet, destination string, target func(*ec2.CreateRouteInput)) string {
		out := must[*ec2.CreateRouteTableOutput](t)(w.ec2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &w.vpc, TagSpecifications: tagsOf(ec2types.ResourceTypeRouteTable)}))
		id := out.RouteTable.RouteTableId
		route := &ec2.CreateRouteInput{RouteTableId: id, DestinationCidrBlock: &destination}
		target(route)
		must[*ec2.CreateRouteOutput](t)(w.ec2.CreateRoute(ctx, route))
		must[*ec2.AssociateRouteTableOutput](t)(w.ec2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: id, SubnetId: &subnet}))
		return *id
	}
	w.publicTable = table(w.public, "0.0.0.0/0", func(in *ec2.CreateRouteInput) { in.GatewayId = &w.igw })
	w.table = table(w.private, "0.0.0.0/0", func(in *ec2.CreateRouteInput) { in.NatGatewayId = &w.nat })
	group := must[*ec2.CreateSecurityGroupOutput](t)(w.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: ptr("c1-node"), Description: ptr("nodes"), VpcId: &w.vpc, TagSpecifications: tagsOf(ec2types.ResourceTypeSecurityGroup)}))
	w.group = *group.GroupId
	must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(w.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &w.group, IpPermissions: []ec2types.IpPermission{
		{IpProtocol: ptr("tcp"), FromPort: ptr[int32](443), ToPort: ptr[int32](443), IpRanges: []ec2types.IpRange{{CidrIp: ptr("10.1.0.0/16")}, {CidrIp: ptr("10.0.0.0/16")}}},
	}}))
}

func (w *world) makeMachines(ctx context.Context) {
	t := w.t
	launch := func(name string) ec2types.Instance {
		out := must[*ec2.RunInstancesOutput](t)(w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
			ImageId: ptr(moto.Image), InstanceType: ec2types.InstanceTypeM5Large, MinCount: ptr[int32](1), MaxCount: ptr[int32](1),
			SubnetId: &w.private, SecurityGroupIds: []string{w.group}, KeyName: ptr("ops"),
			BlockDeviceMappings: []ec2types.BlockDeviceMapping{
				{DeviceName: ptr("/dev/sda1"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: ptr[int32](80), VolumeType: ec2types.VolumeTypeGp3, Encrypted: ptr(true)}},
				{DeviceName: ptr("/dev/sdb"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: ptr[int32](20), VolumeType: ec2types.VolumeTypeGp2}},
			},
			MetadataOptions:   &ec2types.InstanceMetadataOptionsRequest{HttpTokens: ec2types.HttpTokensStateRequired, HttpPutResponseHopLimit: ptr[int32](2)},
			TagSpecifications: tagsOf(ec2types.ResourceTypeInstance, "Name", name, "a/b~c", "x"),
		}))
		return out.Instances[0]
	}
	w.instance = *launch("c1-md-0").InstanceId
	w.stopped = *launch("c1-md-1").InstanceId
	w.terminated = *launch("c1-md-2").InstanceId
	must[*ec2.StopInstancesOutput](t)(w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{w.stopped}}))
	must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{w.terminated}}))
	volume := must[*ec2.CreateVolumeOutput](t)(w.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: ptr("eu-central-1a"), Size: ptr[int32](8), TagSpecifications: tagsOf(ec2types.ResourceTypeVolume, "CSIVolumeName", "pvc-1")}))
	w.volume = *volume.VolumeId
}

func (w *world) makeBalancers(ctx context.Context) {
	t := w.t
	tags := []elbtypes.Tag{{Key: ptr("sigs.k8s.io/cluster-api-provider-aws/cluster/c1"), Value: ptr("owned")}}
	w.classic = "c1-apiserver"
	must[*elb.CreateLoadBalancerOutput](t)(w.elb.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
		LoadBalancerName: &w.classic, Subnets: []string{w.public}, SecurityGroups: []string{w.group}, Tags: tags,
		Listeners: []elbtypes.Listener{{Protocol: ptr("TCP"), LoadBalancerPort: 6443, InstanceProtocol: ptr("TCP"), InstancePort: ptr[int32](6443)}},
	}))
	must[*elb.RegisterInstancesWithLoadBalancerOutput](t)(w.elb.RegisterInstancesWithLoadBalancer(ctx, &elb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &w.classic, Instances: []elbtypes.Instance{{InstanceId: &w.instance}}}))
	nlb := must[*elbv2.CreateLoadBalancerOutput](t)(w.elbv2.CreateLoadBalancer(ctx, &elbv2.CreateLoadBalancerInput{
		Name: ptr("c1-nlb"), Type: elbv2types.LoadBalancerTypeEnumNetwork, Scheme: elbv2types.LoadBalancerSchemeEnumInternal, Subnets: []string{w.private},
		Tags: []elbv2types.Tag{{Key: ptr("sigs.k8s.io/cluster-api-provider-aws/cluster/c1"), Value: ptr("owned")}},
	}))
	w.network = *nlb.LoadBalancers[0].LoadBalancerArn
	w.targetGroup = "apiserver-target-1"
	group := must[*elbv2.CreateTargetGroupOutput](t)(w.elbv2.CreateTargetGroup(ctx, &elbv2.CreateTargetGroupInput{
		Name: &w.targetGroup, Protocol: elbv2types.ProtocolEnumTcp, Port: ptr[int32](6443), VpcId: &w.vpc, HealthCheckProtocol: elbv2types.ProtocolEnumHttps, HealthCheckPath: ptr("/readyz"), HealthCheckIntervalSeconds: ptr[int32](10),
	}))
	arn := group.TargetGroups[0].TargetGroupArn
	must[*elbv2.CreateListenerOutput](t)(w.elbv2.CreateListener(ctx, &elbv2.CreateListenerInput{LoadBalancerArn: &w.network, Protocol: elbv2types.ProtocolEnumTcp, Port: ptr[int32](6443),
		DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: arn}}}))
	must[*elbv2.RegisterTargetsOutput](t)(w.elbv2.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: arn, Targets: []elbv2types.TargetDescription{{Id: &w.instance}}}))
}

func TestDump(t *testing.T) {
	newWorld(t)
	p := provider(t)
	scope, err := p.Scope(t.Context(), observedCluster("c1"))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	for k, e := range snap.Coverage {
		t.Log(k, e)
	}
	for _, kind := range []string{"Instance", "Volume", "NetworkInterface", "SecurityGroup", "VPC", "Subnet", "InternetGateway", "NATGateway", "RouteTable", "NetworkACL", "LoadBalancer"} {
		for _, r := range snap.OfKind(kind) {
			f := map[string]any{}
			for k, v := range r.Fields {
				f[k] = v.Value.Any()
			}
			b, _ := json.Marshal(f)
			t.Log(r.ID, r.Name, r.Gone, r.Unknown, r.ForeignTo, r.ClusterTags, r.Closed, string(b))
		}
	}
	t.Log(p.Calls())
	_ = os.Stdout
}
