package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/holdfast-io/holdfast/providers"
)

func loadBalancerTampers() []Tamper {
	return []Tamper{
		{
			Name: "listener deleted", Row: "load balancer",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				tg := e.TargetGroups[0]
				if _, err := e.ELBV2.DeleteListener(ctx, &elbv2.DeleteListenerInput{ListenerArn: aws.String(tg.ListenerARN)}); err != nil {
					return nil, fmt.Errorf("delete listener: %w", err)
				}
				// Without its listener the target group is on no load balancer, so
				// nothing tells its random name any more, and the machines are in
				// no group that counts. moto keeps the two together.
				name := "apiserver-target-*"
				if e.OnMoto {
					name = tg.Name
				}
				return &Damage{Findings: []Finding{e.lbDrift(removed("/listeners", "TCP:6443 to target group "+name))}}, nil
			},
		},
		{
			Name: "health check of the target group changed", Row: "load balancer",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				tg := e.TargetGroups[0]
				own := e.AWSCluster.Spec.ControlPlaneLoadBalancer.HealthCheck
				set := func(ctx context.Context, path string, interval, timeout, healthy, unhealthy int32) error {
					_, err := e.ELBV2.ModifyTargetGroup(ctx, &elbv2.ModifyTargetGroupInput{
						TargetGroupArn: aws.String(tg.ARN), HealthCheckPath: aws.String(path), HealthCheckIntervalSeconds: aws.Int32(interval),
						HealthCheckTimeoutSeconds: aws.Int32(timeout), HealthyThresholdCount: aws.Int32(healthy), UnhealthyThresholdCount: aws.Int32(unhealthy),
					})
					return err
				}
				if err := set(ctx, "/healthz", 30, 20, 10, 9); err != nil {
					return nil, fmt.Errorf("modify target group: %w", err)
				}
				check := func(name string) string { return providers.Pointer("targetGroups", tg.Name, "healthCheck", name) }
				return &Damage{
					Findings: []Finding{e.lbDrift(
						changed(check("path"), "/readyz", "/healthz"), changed(check("interval"), "10", "30"), changed(check("timeout"), "5", "20"),
						changed(check("healthyThreshold"), "3", "10"), changed(check("unhealthyThreshold"), "3", "9"))},
					Undo: func(ctx context.Context) error {
						return set(ctx, "/readyz", int32(*own.IntervalSeconds), int32(*own.TimeoutSeconds), int32(*own.ThresholdCount), int32(*own.UnhealthyThresholdCount))
					},
				}, nil
			},
		},
		{
			Name: "health check of the target group sent elsewhere", Row: "load balancer",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				tg := e.TargetGroups[0]
				set := func(ctx context.Context, protocol elbv2types.ProtocolEnum, port string) error {
					_, err := e.ELBV2.ModifyTargetGroup(ctx, &elbv2.ModifyTargetGroupInput{TargetGroupArn: aws.String(tg.ARN), HealthCheckProtocol: protocol, HealthCheckPort: aws.String(port)})
					return err
				}
				if err := set(ctx, elbv2types.ProtocolEnumHttp, "8080"); err != nil {
					return nil, fmt.Errorf("modify target group: %w", err)
				}
				check := func(name string) string { return providers.Pointer("targetGroups", tg.Name, "healthCheck", name) }
				return &Damage{
					Findings: []Finding{e.lbDrift(changed(check("protocol"), "HTTPS", "HTTP"), changed(check("port"), "6443", "8080"))},
					Undo:     func(ctx context.Context) error { return set(ctx, elbv2types.ProtocolEnumHttps, "6443") },
				}, nil
			},
		},
		{
			Name: "load balancer taken out of a zone", Row: "load balancer",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				own := e.AWSCluster.Status.Network.APIServerELB.SubnetIDs
				set := func(ctx context.Context, subnets []string) error {
					_, err := e.ELBV2.SetSubnets(ctx, &elbv2.SetSubnetsInput{LoadBalancerArn: aws.String(e.lbARN()), Subnets: subnets})
					return err
				}
				if err := set(ctx, own[:2]); err != nil {
					return nil, fmt.Errorf("set subnets: %w", err)
				}
				return &Damage{
					Findings: []Finding{e.lbDrift(removed("/subnets", own[2]))},
					Undo:     func(ctx context.Context) error { return set(ctx, own) },
				}, nil
			},
		},
		{
			Name: "cross-zone balancing switched off", Row: "load balancer",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				set := func(ctx context.Context, on bool) error {
					_, err := e.ELBV2.ModifyLoadBalancerAttributes(ctx, &elbv2.ModifyLoadBalancerAttributesInput{
						LoadBalancerArn: aws.String(e.lbARN()),
						Attributes:      []elbv2types.LoadBalancerAttribute{{Key: aws.String("load_balancing.cross_zone.enabled"), Value: aws.String(fmt.Sprint(on))}},
					})
					return err
				}
				return toggle(ctx, set, e.lbDrift(changed("/attributes/crossZone", "true", "false")))
			},
		},
		{
			Name: "tags of the load balancer removed", Row: "load balancer",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				if _, err := e.ELBV2.RemoveTags(ctx, &elbv2.RemoveTagsInput{ResourceArns: []string{e.lbARN()}, TagKeys: []string{"CostCenter"}}); err != nil {
					return nil, fmt.Errorf("remove tags: %w", err)
				}
				return &Damage{
					Findings: []Finding{e.lbDrift(removed(tagPath("CostCenter"), "4711"))},
					Undo: func(ctx context.Context) error {
						_, err := e.ELBV2.AddTags(ctx, &elbv2.AddTagsInput{ResourceArns: []string{e.lbARN()}, Tags: elbv2Tags(map[string]string{"CostCenter": "4711"})})
						return err
					},
				}, nil
			},
		},
		{
			Name: "security group of the load balancer swapped", Row: "load balancer",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				other, err := e.defaultGroup(ctx)
				if err != nil {
					return nil, err
				}
				own := e.AWSCluster.Status.Network.APIServerELB.SecurityGroupIDs
				set := func(ctx context.Context, groups []string) error {
					_, err := e.ELBV2.SetSecurityGroups(ctx, &elbv2.SetSecurityGroupsInput{LoadBalancerArn: aws.String(e.lbARN()), SecurityGroups: groups})
					return err
				}
				if err := set(ctx, []string{other}); err != nil {
					return nil, fmt.Errorf("set security groups: %w", err)
				}
				return &Damage{
					Findings: []Finding{e.lbDrift(added(securityGroupsPath, other), removed(securityGroupsPath, own[0]))},
					Undo:     func(ctx context.Context) error { return set(ctx, own) },
				}, nil
			},
		},
		{
			Name: "load balancer deleted", Row: "load balancer",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				if _, err := e.ELBV2.DeleteLoadBalancer(ctx, &elbv2.DeleteLoadBalancerInput{LoadBalancerArn: aws.String(e.lbARN())}); err != nil {
					return nil, fmt.Errorf("delete load balancer: %w", err)
				}
				return &Damage{Findings: []Finding{e.clusterGone(providers.KindLoadBalancer, e.lbARN(), "present", "")}}, nil
			},
		},
	}
}

func (e *Environment) lbARN() string { return e.AWSCluster.Status.Network.APIServerELB.ARN }

func (e *Environment) lbDrift(diffs ...Diff) Finding {
	return e.clusterDrift(providers.KindLoadBalancer, e.lbARN(), diffs...)
}

// classicTampers are done to the classic load balancer.
func classicTampers() []Tamper {
	const manifest = "dev-classic.yaml"
	return []Tamper{
		{
			Name: "health check of the classic load balancer changed", Row: "load balancer", Manifest: manifest,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				set := func(ctx context.Context, check *elbtypes.HealthCheck) error {
					_, err := e.ELB.ConfigureHealthCheck(ctx, &elb.ConfigureHealthCheckInput{LoadBalancerName: aws.String(e.lbName()), HealthCheck: check})
					return err
				}
				own := classicHealthCheck(e.AWSCluster.Spec.ControlPlaneLoadBalancer)
				other := *own
				other.Target, other.Interval, other.Timeout = aws.String("TCP:22"), aws.Int32(30), aws.Int32(20)
				other.HealthyThreshold, other.UnhealthyThreshold = aws.Int32(10), aws.Int32(2)
				if err := set(ctx, &other); err != nil {
					return nil, fmt.Errorf("configure health check: %w", err)
				}
				return &Damage{
					Findings: []Finding{e.classicDrift(
						changed("/healthCheck/interval", "5", "30"), changed("/healthCheck/target", "TCP:6443", "TCP:22"), changed("/healthCheck/timeout", "4", "20"),
						changed("/healthCheck/healthyThreshold", "2", "10"), changed("/healthCheck/unhealthyThreshold", "6", "2"))},
					Undo: func(ctx context.Context) error { return set(ctx, own) },
				}, nil
			},
		},
		{
			Name: "listener of the classic load balancer deleted", Row: "load balancer", Manifest: manifest,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				if _, err := e.ELB.DeleteLoadBalancerListeners(ctx, &elb.DeleteLoadBalancerListenersInput{LoadBalancerName: aws.String(e.lbName()), LoadBalancerPorts: []int32{6443}}); err != nil {
					return nil, fmt.Errorf("delete listener: %w", err)
				}
				return &Damage{
					Findings: []Finding{e.classicDrift(removed("/listeners", "TCP:6443 to TCP:6443"))},
					Undo: func(ctx context.Context) error {
						_, err := e.ELB.CreateLoadBalancerListeners(ctx, &elb.CreateLoadBalancerListenersInput{LoadBalancerName: aws.String(e.lbName()), Listeners: []elbtypes.Listener{{
							Protocol: aws.String("TCP"), LoadBalancerPort: 6443, InstanceProtocol: aws.String("TCP"), InstancePort: aws.Int32(6443),
						}}})
						return err
					},
				}, nil
			},
		},
		{
			Name: "idle time of the classic load balancer shortened", Row: "load balancer", Manifest: manifest,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				set := func(ctx context.Context, seconds int32) error {
					_, err := e.ELB.ModifyLoadBalancerAttributes(ctx, &elb.ModifyLoadBalancerAttributesInput{
						LoadBalancerName:       aws.String(e.lbName()),
						LoadBalancerAttributes: &elbtypes.LoadBalancerAttributes{ConnectionSettings: &elbtypes.ConnectionSettings{IdleTimeout: aws.Int32(seconds)}},
					})
					return err
				}
				if err := set(ctx, 60); err != nil {
					return nil, fmt.Errorf("modify attributes: %w", err)
				}
				return &Damage{
					Findings: []Finding{e.classicDrift(changed("/attributes/idleTimeout", "600", "60"))},
					Undo:     func(ctx context.Context) error { return set(ctx, 600) },
				}, nil
			},
		},
		{
			Name: "control plane deregistered from the classic load balancer", Row: "load balancer registration", Manifest: manifest,
			Do: onMachine((*Environment).controlPlane, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				instances := []elbtypes.Instance{{InstanceId: aws.String(m.id)}}
				if _, err := e.ELB.DeregisterInstancesFromLoadBalancer(ctx, &elb.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: aws.String(e.lbName()), Instances: instances}); err != nil {
					return nil, fmt.Errorf("deregister %s: %w", m.id, err)
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, removed(providers.Pointer("loadBalancers", e.lbName()), "registered"))},
					Undo: func(ctx context.Context) error {
						_, err := e.ELB.RegisterInstancesWithLoadBalancer(ctx, &elb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: aws.String(e.lbName()), Instances: instances})
						return err
					},
				}, nil
			}),
		},
		{
			Name: "classic load balancer deleted", Row: "load balancer", Manifest: manifest,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				if _, err := e.ELB.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerName: aws.String(e.lbName())}); err != nil {
					return nil, fmt.Errorf("delete load balancer: %w", err)
				}
				return &Damage{Findings: []Finding{e.clusterGone(providers.KindLoadBalancer, "classic/"+e.lbName(), "present", "")}}, nil
			},
		},
	}
}

func (e *Environment) lbName() string { return e.AWSCluster.Status.Network.APIServerELB.Name }

func (e *Environment) classicDrift(diffs ...Diff) Finding {
	return e.clusterDrift(providers.KindLoadBalancer, "classic/"+e.lbName(), diffs...)
}
