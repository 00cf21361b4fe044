package aws

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/moto"
)

// world is a small cluster's network and machines on moto, made with the SDK.
type world struct {
	t     *testing.T
	ec2   *ec2.Client
	elb   *elb.Client
	elbv2 *elbv2.Client

	vpc, private, public, igw, eigw, nat, table, publicTable string
	group, instance, stopped, terminated, volume             string
	classic, network, targetGroup                            string
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

func TestObserveOnMoto(t *testing.T) {
	w := newWorld(t)
	p := provider(t)
	scope, err := p.Scope(t.Context(), observedCluster("c1"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (providers.Scope{Provider: Name, Account: moto.Account, Region: "eu-central-1"}); scope != want {
		t.Fatalf("scope %+v, want %+v", scope, want)
	}
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	for key, err := range snap.Coverage {
		if err != nil {
			t.Errorf("coverage of %s: %v", key, err)
		}
	}
	for name, tc := range map[string]struct {
		id   providers.ID
		want map[string]any
	}{
		"instance": {providers.ID{Kind: providers.KindInstance, Name: w.instance}, map[string]any{
			"/state": "running", "/instanceType": "m5.large", "/imageId": moto.Image, "/securityGroups": []string{w.group}, "/subnetId": w.private, "/vpcId": w.vpc,
			"/availabilityZone": "eu-central-1a", "/publicIp": false, "/keyName": "ops", "/spot": false, "/rootDeviceName": "/dev/sda1", "/tenancy": "default",
			"/metadataOptions/httpTokens": "required", "/metadataOptions/httpPutResponseHopLimit": int64(2), "/scheduledEvents": []string(nil),
			"/rootVolume/size": int64(80), "/rootVolume/type": "gp3", "/rootVolume/encrypted": true, "/rootVolume/iops": int64(3000), "/rootVolume/throughput": nil,
			"/nonRootVolumes/~1dev~1sdb/size": int64(20), "/nonRootVolumes/~1dev~1sdb/type": "gp2",
			"/tags/Name": "c1-md-0", "/tags/a~1b~0c": "x", "/loadBalancers/c1-apiserver": "registered", "/loadBalancers/apiserver-target-1": "registered",
		}},
		"stopped": {providers.ID{Kind: providers.KindInstance, Name: w.stopped}, map[string]any{
			"/state": "stopped", "/stateReason": "Client.UserInitiatedShutdown", "/loadBalancers/c1-apiserver": nil, "/instanceType": "m5.large",
		}},
		"terminated": {providers.ID{Kind: providers.KindInstance, Name: w.terminated}, map[string]any{"/state": "terminated", "/instanceType": nil}},
		"volume":     {providers.ID{Kind: providers.KindVolume, Name: w.volume}, map[string]any{"/size": int64(8), "/state": "available", "/attachments": []string(nil)}},
		"group": {providers.ID{Kind: providers.KindSecurityGroup, Name: w.group}, map[string]any{
			"/vpcId": w.vpc, "/description": "nodes", "/ingress": []string{"tcp 443-443 from 10.0.0.0/16", "tcp 443-443 from 10.1.0.0/16"}, "/egress": []string{"all to 0.0.0.0/0"},
		}},
		"VPC":            {providers.ID{Kind: providers.KindVPC, Name: w.vpc}, map[string]any{"/cidrBlock": "10.0.0.0/16", "/enableDnsSupport": true, "/enableDnsHostnames": false, "/tags/Name": "c1-vpc"}},
		"private subnet": {providers.ID{Kind: providers.KindSubnet, Name: w.private}, map[string]any{"/vpcId": w.vpc, "/cidrBlock": "10.0.0.0/20", "/routeTableId": w.table, "/mapPublicIpOnLaunch": false}},
		"public subnet":  {providers.ID{Kind: providers.KindSubnet, Name: w.public}, map[string]any{"/routeTableId": w.publicTable}},
		"gateway":        {providers.ID{Kind: providers.KindInternetGateway, Name: w.igw}, map[string]any{"/vpcId": w.vpc, "/egressOnly": false}},
		"egress only":    {providers.ID{Kind: providers.KindInternetGateway, Name: w.eigw}, map[string]any{"/vpcId": w.vpc, "/egressOnly": true}},
		"NAT gateway":    {providers.ID{Kind: providers.KindNATGateway, Name: w.nat}, map[string]any{"/vpcId": w.vpc, "/subnetId": w.public, "/state": "available"}},
		"route table":    {providers.ID{Kind: providers.KindRouteTable, Name: w.table}, map[string]any{"/routes/0.0.0.0~10": w.nat, "/routes/10.0.0.0~116": "local", "/associations": []string{w.private}, "/main": false}},
		"classic": {providers.ID{Kind: providers.KindLoadBalancer, Name: "classic/" + w.classic}, map[string]any{
			"/type": "classic", "/scheme": "internet-facing", "/listeners": []string{"TCP:6443 to TCP:6443"}, "/targets": []string{w.instance}, "/attributes/crossZone": false, "/attributes/idleTimeout": int64(60),
		}},
		"network": {providers.ID{Kind: providers.KindLoadBalancer, Name: w.network}, map[string]any{
			"/type": "network", "/scheme": "internal", "/listeners": []string{"TCP:6443 to target group apiserver-target-1"}, "/targets": []string{w.instance}, "/subnets": []string{w.private},
			"/targetGroups/apiserver-target-1/port": int64(6443), "/targetGroups/apiserver-target-1/protocol": "TCP", "/targetGroups/apiserver-target-1/healthCheck/protocol": "HTTPS",
			"/targetGroups/apiserver-target-1/healthCheck/path": "/readyz", "/targetGroups/apiserver-target-1/healthCheck/interval": int64(10), "/attributes/crossZone": false,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := snap.Resources[tc.id]
			if r == nil {
				t.Fatalf("%s is not in the snapshot", tc.id)
			}
			got := fieldsOf(r)
			for path, want := range tc.want {
				if diff := cmp.Diff(want, got[path]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
			if r.Gone == "" && name != "egress only" && name != "terminated" && !cmp.Equal(r.ClusterTags, []string{"c1"}) {
				t.Errorf("cluster tags %v", r.ClusterTags)
			}
		})
	}
	if gone := snap.Resources[providers.ID{Kind: providers.KindInstance, Name: w.terminated}].Gone; gone != "terminated: Client.UserInitiatedShutdown" {
		t.Errorf("the terminated instance is gone as %q", gone)
	}
	if !snap.Resources[providers.ID{Kind: providers.KindInstance, Name: w.stopped}].Closes("/loadBalancers/c1-apiserver") {
		t.Error("an instance that is in no load balancer does not show it")
	}
	wantReads(t, p)
}

// wantReads checks that nothing but reads was called.
func wantReads(t *testing.T, p *Provider) {
	t.Helper()
	for call := range p.Calls() {
		if !strings.HasPrefix(call.Operation, "Describe") && call.Operation != "GetCallerIdentity" {
			t.Errorf("%s %s is not a read of the catalog", call.Service, call.Operation)
		}
	}
}

func TestConfirmOnMoto(t *testing.T) {
	w := newWorld(t)
	p := provider(t)
	scope := scopeOf(t, p)
	exist := []providers.ID{
		{Kind: providers.KindInstance, Name: w.instance}, {Kind: providers.KindInstance, Name: w.terminated}, {Kind: providers.KindVolume, Name: w.volume},
		{Kind: providers.KindSecurityGroup, Name: w.group}, {Kind: providers.KindVPC, Name: w.vpc}, {Kind: providers.KindSubnet, Name: w.private},
		{Kind: providers.KindInternetGateway, Name: w.igw}, {Kind: providers.KindInternetGateway, Name: w.eigw}, {Kind: providers.KindNATGateway, Name: w.nat},
		{Kind: providers.KindRouteTable, Name: w.table}, {Kind: providers.KindLoadBalancer, Name: w.network}, {Kind: providers.KindLoadBalancer, Name: "classic/" + w.classic},
	}
	absent := []providers.ID{
		{Kind: providers.KindInstance, Name: "i-0123456789abcdef0"}, {Kind: providers.KindInstance, Name: "i-0123456789abcdef1"}, {Kind: providers.KindInstance, Name: "not an id"},
		{Kind: providers.KindVolume, Name: "vol-0123456789abcdef0"}, {Kind: providers.KindNetworkInterface, Name: "eni-0123456789abcdef0"}, {Kind: providers.KindSecurityGroup, Name: "sg-0123456789abcdef0"},
		{Kind: providers.KindVPC, Name: "vpc-0123456789abcdef0"}, {Kind: providers.KindSubnet, Name: "subnet-0123456789abcdef0"}, {Kind: providers.KindInternetGateway, Name: "igw-0123456789abcdef0"},
		{Kind: providers.KindInternetGateway, Name: "eigw-0123456789abcdef0"}, {Kind: providers.KindNATGateway, Name: "nat-0123456789abcdef0"}, {Kind: providers.KindRouteTable, Name: "rtb-0123456789abcdef0"},
		{Kind: providers.KindNetworkACL, Name: "acl-0123456789abcdef0"}, {Kind: providers.KindLoadBalancer, Name: w.network + "0"}, {Kind: providers.KindLoadBalancer, Name: "classic/none"},
	}
	got, err := p.Confirm(t.Context(), scope, append(exist, absent...))
	if err != nil {
		t.Fatal(err)
	}
	for id, err := range got.Unconfirmed {
		t.Errorf("unconfirmed %s: %v", id, err)
	}
	for _, id := range exist {
		if got.Resources[id] == nil {
			t.Errorf("%s exists and was not found", id)
		}
	}
	for _, id := range absent {
		if got.Resources[id] != nil {
			t.Errorf("%s does not exist and was found", id)
		}
	}
	if r := got.Resources[exist[1]]; r == nil || r.Gone == "" {
		t.Errorf("the terminated instance is %+v: want it to be gone", r)
	}
	wantReads(t, p)
}

// Two looks at the same state are equal, in the same words.
func TestObserveIsRepeatable(t *testing.T) {
	newWorld(t)
	p := provider(t)
	scope := scopeOf(t, p)
	look := func() map[string]map[string]any {
		snap, err := p.Observe(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]map[string]any{}
		for id, r := range snap.Resources {
			out[id.String()] = fieldsOf(r)
			out[id.String()]["closed"] = r.Closed
		}
		return out
	}
	if diff := cmp.Diff(look(), look()); diff != "" {
		t.Error(diff)
	}
}
