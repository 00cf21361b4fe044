package awscluster

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// classicIdleTimeout is what CAPA sets on every classic load balancer.
const classicIdleTimeout = 10 * time.Minute

// classicLoadBalancer makes a classic load balancer with its health check and
// attributes.
func (b *builder) classicLoadBalancer(ctx context.Context) error {
	spec := b.env.AWSCluster.Spec.ControlPlaneLoadBalancer
	name := loadBalancerName(spec, b.Name)
	tags := b.clusterTags(name, infrav1.APIServerRoleTagValue, nil)
	subnets, zones := b.loadBalancerSubnets(spec)
	groups := append(append([]string{}, spec.AdditionalSecurityGroups...), b.groups(infrav1.SecurityGroupAPIServerLB)...)
	out, err := b.ELB.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
		LoadBalancerName: aws.String(name), Scheme: aws.String(string(*spec.Scheme)),
		Subnets: subnets, SecurityGroups: groups, Tags: elbTags(tags),
		Listeners: []elbtypes.Listener{{
			Protocol: aws.String("TCP"), LoadBalancerPort: int32(b.port()),
			InstanceProtocol: aws.String("TCP"), InstancePort: aws.Int32(infrav1.DefaultAPIServerPort),
		}},
	})
	if err != nil {
		return fmt.Errorf("create classic load balancer %s: %w", name, err)
	}
	if _, err := b.ELB.ConfigureHealthCheck(ctx, &elb.ConfigureHealthCheckInput{
		LoadBalancerName: aws.String(name), HealthCheck: classicHealthCheck(spec),
	}); err != nil {
		return fmt.Errorf("configure health check of load balancer %s: %w", name, err)
	}
	if _, err := b.ELB.ModifyLoadBalancerAttributes(ctx, &elb.ModifyLoadBalancerAttributesInput{
		LoadBalancerName: aws.String(name),
		LoadBalancerAttributes: &elbtypes.LoadBalancerAttributes{
			CrossZoneLoadBalancing: &elbtypes.CrossZoneLoadBalancing{Enabled: spec.CrossZoneLoadBalancing},
			ConnectionSettings:     &elbtypes.ConnectionSettings{IdleTimeout: aws.Int32(int32(classicIdleTimeout.Seconds()))},
		},
	}); err != nil {
		return fmt.Errorf("set attributes of load balancer %s: %w", name, err)
	}
	b.env.AWSCluster.Status.Network.APIServerELB = infrav1.LoadBalancer{
		Name: name, DNSName: aws.ToString(out.DNSName), Scheme: *spec.Scheme,
		AvailabilityZones: zones, SubnetIDs: subnets, SecurityGroupIDs: groups, Tags: tags,
		ClassicElbAttributes:      infrav1.ClassicELBAttributes{IdleTimeout: classicIdleTimeout, CrossZoneLoadBalancing: spec.CrossZoneLoadBalancing},
		LoadBalancerType:          infrav1.LoadBalancerTypeClassic,
		LoadBalancerIPAddressType: infrav1.LoadBalancerIPAddressTypeIPv4,
	}
	return nil
}

func classicHealthCheck(spec *infrav1.AWSLoadBalancerSpec) *elbtypes.HealthCheck {
	target := fmt.Sprintf("TCP:%d", infrav1.DefaultAPIServerPort)
	if p := spec.HealthCheckProtocol; p != nil {
		target = fmt.Sprintf("%s:%d", p, infrav1.DefaultAPIServerPort)
		if *p == infrav1.ELBProtocolHTTP || *p == infrav1.ELBProtocolHTTPS {
			target += infrav1.DefaultAPIServerHealthCheckPath
		}
	}
	return &elbtypes.HealthCheck{
		Target:             aws.String(target),
		Interval:           aws.Int32(infrav1.DefaultAPIServerHealthCheckIntervalSec),
		Timeout:            aws.Int32(infrav1.DefaultAPIServerHealthCheckTimeoutSec),
		HealthyThreshold:   aws.Int32(infrav1.DefaultAPIServerHealthThresholdCount),
		UnhealthyThreshold: aws.Int32(infrav1.DefaultAPIServerUnhealthThresholdCount),
	}
}
