package aws

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/sqssim"
)

// simulatedCloud is ec2sim whose events reach a queue, with a network.
type simulatedCloud struct {
	*ec2sim.Server
	queues      *sqssim.Server
	ec2         *ec2.Client
	elbv2       *elbv2.Client
	scope       ec2sim.Scope
	vpc, subnet string
	group       string
}

func newSimulatedCloud(t testing.TB) *simulatedCloud {
	t.Helper()
	const region = "eu-central-1"
	c := &simulatedCloud{queues: sqssim.New(sqssim.Options{})}
	t.Cleanup(c.queues.Close)
	c.queues.Create(queueName, time.Hour)
	c.Server = ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}, OnEvent: func(e ec2sim.Event) { c.queues.Send(queueName, e.Body) }})
	t.Cleanup(c.Close)
	isolate(t, c.URL())
	credential := c.Credentials()[0]
	t.Setenv("AWS_ACCESS_KEY_ID", credential.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", credential.SecretAccessKey)
	t.Setenv("AWS_ENDPOINT_URL_SQS", c.queues.URL())
	c.ec2, c.elbv2 = ec2.NewFromConfig(c.Config(region)), elbv2.NewFromConfig(c.Config(region))
	c.scope = c.DefaultScope(region)
	ctx := context.Background()
	vpc, err := c.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: ptr("10.0.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	c.vpc = *vpc.Vpc.VpcId
	subnet, err := c.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &c.vpc, CidrBlock: ptr("10.0.0.0/20"), AvailabilityZone: ptr("eu-central-1a")})
	if err != nil {
		t.Fatal(err)
	}
	c.subnet = *subnet.Subnet.SubnetId
	group, err := c.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: ptr("g"), Description: ptr("g"), VpcId: &c.vpc})
	if err != nil {
		t.Fatal(err)
	}
	c.group = *group.GroupId
	return c
}

func (c *simulatedCloud) seed(t testing.TB, n int) []string {
	t.Helper()
	image, err := c.AddImage(c.scope, ec2sim.Image{})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := c.SeedInstances(c.scope, ec2sim.InstanceSpec{Count: n, ImageID: image, SubnetIDs: []string{c.subnet}, SecurityGroupIDs: []string{c.group}, InstanceType: "m5.large"})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// What the simulator tells of its calls is understood as what the calls
// changed, whoever made up its records.
func TestWatchSimulator(t *testing.T) {
	c := newSimulatedCloud(t)
	ids := c.seed(t, 3)
	p := watchProvider(t, Events{QueueName: queueName})
	scope := scopeOf(t, p)
	ctx := t.Context()
	instance := "Instance/" + ids[0]
	described, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids[:1]})
	if err != nil {
		t.Fatal(err)
	}
	volume := *described.Reservations[0].Instances[0].BlockDeviceMappings[0].Ebs.VolumeId
	nlb, err := c.elbv2.CreateLoadBalancer(ctx, &elbv2.CreateLoadBalancerInput{Name: ptr("c1-apiserver"), Type: elbv2types.LoadBalancerTypeEnumNetwork, Subnets: []string{c.subnet}})
	if err != nil {
		t.Fatal(err)
	}
	arn := *nlb.LoadBalancers[0].LoadBalancerArn
	target, err := c.elbv2.CreateTargetGroup(ctx, &elbv2.CreateTargetGroupInput{Name: ptr("apiserver"), Protocol: elbv2types.ProtocolEnumTcp, Port: ptr[int32](6443), VpcId: &c.vpc})
	if err != nil {
		t.Fatal(err)
	}
	table, err := c.ec2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &c.vpc})
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := c.ec2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{})
	if err != nil {
		t.Fatal(err)
	}
	tableID, gatewayID := table.RouteTable.RouteTableId, gateway.InternetGateway.InternetGatewayId
	if _, err := p.Observe(ctx, scope); err != nil {
		t.Fatal(err)
	}
	c.queues.Create(queueName, time.Hour) // what came so far is setting up
	w := start(t, p, scope)
	for _, tc := range []struct {
		what string
		do   func() error
		want []string // ids, "" of which is a gap
	}{
		{"CreateTags", func() error {
			_, err := c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{ids[0], c.subnet}, Tags: []ec2types.Tag{{Key: ptr("a"), Value: ptr("vpc-0123456789abcdef0")}}})
			return err
		}, []string{instance, "Subnet/" + c.subnet}},
		{"ModifyInstanceMetadataOptions", func() error {
			_, err := c.ec2.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{InstanceId: &ids[0], HttpTokens: ec2types.HttpTokensStateOptional})
			return err
		}, []string{instance}},
		{"ModifyVolume", func() error {
			_, err := c.ec2.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &volume, Size: ptr[int32](200)})
			return err
		}, []string{instance, "Volume/" + volume}},
		{"AuthorizeSecurityGroupIngress", func() error {
			_, err := c.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &c.group, IpPermissions: []ec2types.IpPermission{{IpProtocol: ptr("tcp"), FromPort: ptr[int32](22), ToPort: ptr[int32](22), IpRanges: []ec2types.IpRange{{CidrIp: ptr("0.0.0.0/0")}}}}})
			return err
		}, []string{"SecurityGroup/" + c.group}},
		{"AttachInternetGateway", func() error {
			_, err := c.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: gatewayID, VpcId: &c.vpc})
			return err
		}, []string{"InternetGateway/" + *gatewayID}},
		{"CreateRoute", func() error {
			_, err := c.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: tableID, DestinationCidrBlock: ptr("0.0.0.0/0"), GatewayId: gatewayID})
			return err
		}, []string{"RouteTable/" + *tableID}},
		{"AssociateRouteTable", func() error {
			_, err := c.ec2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: tableID, SubnetId: &c.subnet})
			return err
		}, []string{"RouteTable/" + *tableID, "Subnet/" + c.subnet}},
		{"RegisterTargets", func() error {
			_, err := c.elbv2.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: target.TargetGroups[0].TargetGroupArn, Targets: []elbv2types.TargetDescription{{Id: &ids[0]}}})
			return err
		}, []string{instance}},
		{"CreateListener", func() error {
			_, err := c.elbv2.CreateListener(ctx, &elbv2.CreateListenerInput{LoadBalancerArn: &arn, Port: ptr[int32](6443), Protocol: elbv2types.ProtocolEnumTcp, DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: target.TargetGroups[0].TargetGroupArn}}})
			return err
		}, []string{"LoadBalancer/" + arn}},
		{"StopInstances", func() error {
			_, err := c.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids[:1]})
			return err
		}, []string{instance}},
		{"spot interruption: terminate", func() error {
			return c.TerminateInstance(c.scope, ids[1], "Server.SpotInstanceTermination", "Instance terminated")
		}, []string{"Instance/" + ids[1]}},
		{"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", func() error {
			_, err := c.ScheduleEvent(c.scope, ids[2], ec2sim.ScheduledEvent{Code: "instance-retirement"})
			return err
		}, []string{"Instance/" + ids[2]}},
	} {
		if err := tc.do(); err != nil {
			t.Fatalf("%s: %v", tc.what, err)
		}
		for {
			e := w.next()
			if strings.HasPrefix(e.What, "instance ") {
				continue // the states that it passes
			}
			got := idTexts(e.IDs)
			slices.Sort(got)
			slices.Sort(tc.want)
			if e.What != tc.what || !slices.Equal(got, tc.want) || e.Gap {
				t.Errorf("%s: told of %s, %v, gap %t; want %v", tc.what, e.What, got, e.Gap, tc.want)
			}
			if strings.HasPrefix(e.What, strings.ToUpper(e.What[:1])) && !strings.Contains(e.What, "_") && e.By != "arn:aws:iam::123456789012:user/ec2sim" {
				t.Errorf("%s: by %q", tc.what, e.By)
			}
			break
		}
	}
	// What is refused is told of by the simulator, and ignored.
	before := p.EventCounts()[EventFailed]
	if _, err := c.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{"i-0123456789abcdef9"}}); err == nil {
		t.Fatal("an instance that does not exist was stopped")
	}
	eventually(t, "the refused call was not ignored as such", func() bool { return p.EventCounts()[EventFailed] == before+1 })
}

// From a change to what the daemon is told, at 1,000 machines, each changed
// once: the queue's share of the way from an event to a condition.
func BenchmarkWatchLatency(b *testing.B) {
	c := newSimulatedCloud(b)
	ids := c.seed(b, 1000)
	p, err := New(newNothing(), WithEvents(Events{QueueName: queueName}))
	if err != nil {
		b.Fatal(err)
	}
	told := make(chan providers.Event, 10_000)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- p.Watch(ctx, providers.Scope{Provider: Name, Account: "123456789012", Region: "eu-central-1"}, func(e providers.Event) { told <- e })
	}()
	var waits []time.Duration
	for n := 0; b.Loop(); n++ {
		id := ids[n%len(ids)]
		if _, err := c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: ptr("n"), Value: ptr("v")}}}); err != nil {
			b.Fatal(err)
		}
		changed := time.Now()
		for e := range told {
			if len(e.IDs) == 1 && e.IDs[0].Name == id {
				break
			}
		}
		waits = append(waits, time.Since(changed))
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(p.Calls()[Call{Service: "SQS", Operation: "ReceiveMessage"}])/float64(len(waits)), "receives/change")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
