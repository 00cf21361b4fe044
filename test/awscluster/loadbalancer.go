package awscluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// TargetGroup is one target group of the control plane's load balancer.
type TargetGroup struct {
	Name, ARN, ListenerARN string
	Port                   int32
}

// loadBalancers gives the specs of the control plane's load balancers, the
// primary one first.
func (b *builder) loadBalancers() []*infrav1.AWSLoadBalancerSpec {
	spec := &b.env.AWSCluster.Spec
	out := []*infrav1.AWSLoadBalancerSpec{spec.ControlPlaneLoadBalancer}
	if spec.SecondaryControlPlaneLoadBalancer != nil {
		out = append(out, spec.SecondaryControlPlaneLoadBalancer)
	}
	return out
}

// loadBalancer makes the control plane's load balancers and records them and
// the endpoint, which is the primary one's.
func (b *builder) loadBalancer(ctx context.Context) error {
	network := &b.env.AWSCluster.Status.Network
	for i, spec := range b.loadBalancers() {
		var err error
		switch spec.LoadBalancerType {
		case infrav1.LoadBalancerTypeClassic:
			err = b.classicLoadBalancer(ctx)
		case infrav1.LoadBalancerTypeNLB, infrav1.LoadBalancerTypeALB:
			status, groups := &network.APIServerELB, &b.env.TargetGroups
			if i > 0 {
				status, groups = &network.SecondaryAPIServerELB, &b.env.SecondaryTargetGroups
			}
			err = b.v2LoadBalancer(ctx, spec, status, groups)
		case infrav1.LoadBalancerTypeDisabled:
			return nil
		default:
			err = fmt.Errorf("load balancer type %q is not played here", spec.LoadBalancerType)
		}
		if err != nil {
			return err
		}
	}
	b.env.AWSCluster.Spec.ControlPlaneEndpoint = clusterv1beta1.APIEndpoint{
		Host: b.env.AWSCluster.Status.Network.APIServerELB.DNSName,
		Port: int32(b.port()),
	}
	return nil
}

// v2LoadBalancer makes a network or application load balancer with a target
// group and a listener for the API server and for each further listener.
func (b *builder) v2LoadBalancer(ctx context.Context, spec *infrav1.AWSLoadBalancerSpec, status *infrav1.LoadBalancer, made *[]TargetGroup) error {
	name := loadBalancerName(spec, b.env.Cluster.Namespace+"-"+b.Name)
	tags := b.clusterTags(name, infrav1.APIServerRoleTagValue, nil)
	subnets, zones := b.loadBalancerSubnets(spec)
	groups := append(append([]string{}, spec.AdditionalSecurityGroups...), b.groups(infrav1.SecurityGroupAPIServerLB)...)
	kind := elbv2types.LoadBalancerTypeEnumNetwork
	attributes := map[string]*string{
		infrav1.LoadBalancerAttributeEnableLoadBalancingCrossZone: aws.String(strconv.FormatBool(spec.CrossZoneLoadBalancing)),
	}
	if spec.LoadBalancerType == infrav1.LoadBalancerTypeALB {
		kind = elbv2types.LoadBalancerTypeEnumApplication
		attributes[infrav1.LoadBalancerAttributeIdleTimeTimeoutSeconds] = aws.String(infrav1.LoadBalancerAttributeIdleTimeDefaultTimeoutSecondsInSeconds)
	}
	out, err := b.ELBV2.CreateLoadBalancer(ctx, &elbv2.CreateLoadBalancerInput{
		Name: aws.String(name), Type: kind, Scheme: elbv2types.LoadBalancerSchemeEnum(*spec.Scheme),
		Subnets: subnets, SecurityGroups: groups, Tags: elbv2Tags(tags), IpAddressType: b.addressType(),
	})
	if err != nil {
		return fmt.Errorf("create load balancer %s: %w", name, err)
	}
	lb := out.LoadBalancers[0]
	arn := aws.ToString(lb.LoadBalancerArn)
	if err := elbv2.NewLoadBalancerAvailableWaiter(b.ELBV2, func(o *elbv2.LoadBalancerAvailableWaiterOptions) {
		o.MinDelay, o.MaxDelay = b.poll, b.poll
	}).Wait(ctx, &elbv2.DescribeLoadBalancersInput{LoadBalancerArns: []string{arn}}, b.patience); err != nil {
		return fmt.Errorf("wait for load balancer %s: %w", name, err)
	}
	if err := b.listeners(ctx, arn, spec, tags, made); err != nil {
		return fmt.Errorf("create listeners of load balancer %s: %w", name, err)
	}
	set := &elbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: aws.String(arn)}
	for key, value := range attributes {
		set.Attributes = append(set.Attributes, elbv2types.LoadBalancerAttribute{Key: aws.String(key), Value: value})
	}
	if _, err := b.ELBV2.ModifyLoadBalancerAttributes(ctx, set); err != nil {
		return fmt.Errorf("set attributes of load balancer %s: %w", name, err)
	}
	*status = infrav1.LoadBalancer{
		ARN: arn, Name: name, DNSName: aws.ToString(lb.DNSName), Scheme: *spec.Scheme,
		AvailabilityZones: zones, SubnetIDs: subnets, SecurityGroupIDs: groups, Tags: tags,
		ELBAttributes: attributes, LoadBalancerType: spec.LoadBalancerType,
		LoadBalancerIPAddressType: infrav1.LoadBalancerIPAddressType(lb.IpAddressType),
	}
	return nil
}

func (b *builder) listeners(ctx context.Context, arn string, spec *infrav1.AWSLoadBalancerSpec, tags infrav1.Tags, made *[]TargetGroup) error {
	if err := b.listener(ctx, arn, spec, tags, made, "apiserver-target-", infrav1.ELBProtocolTCP, infrav1.DefaultAPIServerPort, apiServerHealthCheck(spec)); err != nil {
		return err
	}
	for _, l := range spec.AdditionalListeners {
		check := &elbv2.CreateTargetGroupInput{
			HealthCheckProtocol: elbv2types.ProtocolEnum(l.Protocol),
			HealthCheckPort:     aws.String(strconv.FormatInt(l.Port, 10)),
		}
		if err := b.listener(ctx, arn, spec, tags, made, "additional-listener-", l.Protocol, l.Port, check); err != nil {
			return err
		}
	}
	return nil
}

// apiServerHealthCheck gives the check that CAPA configures, with what the spec
// overrides.
func apiServerHealthCheck(spec *infrav1.AWSLoadBalancerSpec) *elbv2.CreateTargetGroupInput {
	check := &elbv2.CreateTargetGroupInput{
		HealthCheckProtocol: elbv2types.ProtocolEnumTcp,
		HealthCheckPort:     aws.String(infrav1.DefaultAPIServerPortString),
	}
	if spec.HealthCheckProtocol != nil {
		check.HealthCheckProtocol = elbv2types.ProtocolEnum(strings.ToUpper(spec.HealthCheckProtocol.String()))
	}
	if p := check.HealthCheckProtocol; p == elbv2types.ProtocolEnumHttp || p == elbv2types.ProtocolEnumHttps {
		check.HealthCheckPath = aws.String(infrav1.DefaultAPIServerHealthCheckPath)
	}
	if o := spec.HealthCheck; o != nil {
		check.HealthCheckIntervalSeconds = int32p(o.IntervalSeconds)
		check.HealthCheckTimeoutSeconds = int32p(o.TimeoutSeconds)
		check.HealthyThresholdCount = int32p(o.ThresholdCount)
		check.UnhealthyThresholdCount = int32p(o.UnhealthyThresholdCount)
	}
	return check
}

func (b *builder) listener(ctx context.Context, arn string, spec *infrav1.AWSLoadBalancerSpec, tags infrav1.Tags, into *[]TargetGroup, prefix string, protocol infrav1.ELBProtocol, port int64, group *elbv2.CreateTargetGroupInput) error {
	orDefault := func(field **int32, value int32) {
		if *field == nil {
			*field = aws.Int32(value)
		}
	}
	seed := prefix + strconv.FormatInt(port, 10)
	if into == &b.env.SecondaryTargetGroups {
		seed = "secondary/" + seed
	}
	group.Name = aws.String(prefix + b.Suffix(seed))
	group.Protocol, group.Port = elbv2types.ProtocolEnum(protocol), aws.Int32(int32(port))
	group.VpcId = aws.String(b.env.AWSCluster.Spec.NetworkSpec.VPC.ID)
	group.HealthCheckEnabled = aws.Bool(true)
	group.IpAddressType = b.targetAddressType()
	group.Tags = elbv2Tags(tags)
	orDefault(&group.HealthCheckIntervalSeconds, infrav1.DefaultAPIServerHealthCheckIntervalSec)
	orDefault(&group.HealthCheckTimeoutSeconds, infrav1.DefaultAPIServerHealthCheckTimeoutSec)
	orDefault(&group.HealthyThresholdCount, infrav1.DefaultAPIServerHealthThresholdCount)
	orDefault(&group.UnhealthyThresholdCount, infrav1.DefaultAPIServerUnhealthThresholdCount)
	made, err := b.ELBV2.CreateTargetGroup(ctx, group)
	if err != nil {
		return fmt.Errorf("target group %s: %w", *group.Name, err)
	}
	tg := made.TargetGroups[0]
	if err := b.targetGroupAttributes(ctx, aws.ToString(tg.TargetGroupArn), spec); err != nil {
		return fmt.Errorf("attributes of target group %s: %w", *group.Name, err)
	}
	l, err := b.ELBV2.CreateListener(ctx, &elbv2.CreateListenerInput{
		LoadBalancerArn: aws.String(arn), Port: aws.Int32(int32(port)), Protocol: elbv2types.ProtocolEnum(protocol),
		DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: tg.TargetGroupArn}},
		Tags:           elbv2Tags(tags),
	})
	if err != nil {
		return fmt.Errorf("listener on port %d: %w", port, err)
	}
	*into = append(*into, TargetGroup{
		Name: *group.Name, ARN: aws.ToString(tg.TargetGroupArn),
		ListenerARN: aws.ToString(l.Listeners[0].ListenerArn), Port: int32(port),
	})
	return nil
}

func (b *builder) targetGroupAttributes(ctx context.Context, arn string, spec *infrav1.AWSLoadBalancerSpec) error {
	set := &elbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: aws.String(arn)}
	add := func(key, value string) {
		set.Attributes = append(set.Attributes, elbv2types.TargetGroupAttribute{Key: aws.String(key), Value: aws.String(value)})
	}
	if spec.LoadBalancerType == infrav1.LoadBalancerTypeNLB {
		add(infrav1.TargetGroupAttributeEnableConnectionTermination, "false")
		add(infrav1.TargetGroupAttributeUnhealthyDrainingIntervalSeconds, "300")
	}
	if !spec.PreserveClientIP {
		add(infrav1.TargetGroupAttributeEnablePreserveClientIP, "false")
	}
	_, err := b.ELBV2.ModifyTargetGroupAttributes(ctx, set)
	return err
}

// loadBalancerSubnets gives one subnet for each zone, of the side that the
// scheme asks for.
func (b *builder) loadBalancerSubnets(spec *infrav1.AWSLoadBalancerSpec) (subnets, zones []string) {
	all := b.env.AWSCluster.Spec.NetworkSpec.Subnets
	side := all.FilterPrivate()
	if infrav1.ELBSchemeInternetFacing.Equals(spec.Scheme) || len(side) == 0 {
		side = all.FilterPublic()
	}
	seen := map[string]bool{}
	for _, sn := range side {
		if !seen[sn.AvailabilityZone] {
			seen[sn.AvailabilityZone] = true
			subnets, zones = append(subnets, sn.GetResourceID()), append(zones, sn.AvailabilityZone)
		}
	}
	return subnets, zones
}

// loadBalancerName is the spec's name or CAPA's own; names of clusters that are
// too long for it are not played here.
func loadBalancerName(spec *infrav1.AWSLoadBalancerSpec, cluster string) string {
	if spec.Name != nil {
		return *spec.Name
	}
	return strings.ReplaceAll(cluster, ".", "-") + "-" + infrav1.APIServerRoleTagValue
}

func int32p(v *int64) *int32 {
	if v == nil {
		return nil
	}
	return aws.Int32(int32(*v))
}
