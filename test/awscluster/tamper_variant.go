package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// bastionTampers are done to a cluster with a bastion. Its instance is the
// AWSCluster's own.
func bastionTampers() []Tamper {
	return []Tamper{
		{
			Name: "bastion stopped", Row: "bastion", Variant: variantBastion,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id := e.AWSCluster.Status.Bastion.ID
				if err := e.stop(ctx, id); err != nil {
					return nil, err
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindInstance, id, changed("/state", "running", "stopped"))},
					Undo:     func(ctx context.Context) error { return e.start(ctx, id) },
				}, nil
			},
		},
		{
			Name: "bastion let into the nodes' group", Row: "bastion", Variant: variantBastion,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id, own, node := e.AWSCluster.Status.Bastion.ID, e.group(infrav1.SecurityGroupBastion), e.group(infrav1.SecurityGroupNode)
				undo, err := e.regroup(ctx, id, []string{own, node}, []string{own})
				return damage(undo, err, e.clusterDrift(providers.KindInstance, id, added(securityGroupsPath, node)))
			},
		},
		{
			Name: "bastion opened to the world", Row: "bastion", Variant: variantBastion,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupBastion)
				undo, err := e.allow(ctx, group, tcpFromIP(22, 22, anyIPv4, ""))
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, group, added(ingressPath, "tcp 22-22 from 0.0.0.0/0")))
			},
		},
		{
			Name: "bastion shut out of the control plane", Row: "bastion", Variant: variantBastion,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group, bastion := e.group(infrav1.SecurityGroupControlPlane), e.group(infrav1.SecurityGroupBastion)
				undo, err := e.deny(ctx, group, tcpFromGroup(22, 22, bastion, "SSH"))
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, group, removed(ingressPath, "tcp 22-22 from "+bastion)))
			},
		},
		{
			Name: "bastion loses its role tag", Row: "bastion", Variant: variantBastion,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id, role := e.AWSCluster.Status.Bastion.ID, infrav1.NameAWSClusterAPIRole
				undo, err := e.retag(ctx, id, nil, []string{role}, map[string]string{role: infrav1.BastionRoleTagValue}, nil)
				return damage(undo, err, e.clusterDrift(providers.KindInstance, id, removed(tagPath(role), infrav1.BastionRoleTagValue)))
			},
		},
		{
			Name: "bastion terminated", Row: "bastion", Variant: variantBastion,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id := e.AWSCluster.Status.Bastion.ID
				if err := e.terminate(ctx, id); err != nil {
					return nil, err
				}
				return &Damage{Findings: []Finding{e.clusterGone(providers.KindInstance, id, "running", "terminated: "+userShutdown)}}, nil
			},
		},
	}
}

// secondaryTampers are done to the second load balancer of a control plane.
func secondaryTampers() []Tamper {
	lb := func(e *Environment) *infrav1.LoadBalancer { return &e.AWSCluster.Status.Network.SecondaryAPIServerELB }
	return []Tamper{
		{
			Name: "control plane deregistered from the second load balancer", Row: "load balancer registration", Variant: variantSecondary,
			Do: onMachine((*Environment).controlPlane, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				tg := e.SecondaryTargetGroups[0]
				target := []elbv2types.TargetDescription{{Id: aws.String(m.id), Port: aws.Int32(tg.Port)}}
				if _, err := e.ELBV2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{TargetGroupArn: aws.String(tg.ARN), Targets: target}); err != nil {
					return nil, fmt.Errorf("deregister %s: %w", m.id, err)
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, removed(providers.Pointer("loadBalancers", tg.Name), "registered"))},
					Undo: func(ctx context.Context) error {
						_, err := e.ELBV2.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: aws.String(tg.ARN), Targets: target})
						return err
					},
				}, nil
			}),
		},
		{
			Name: "cross-zone balancing of the second load balancer switched on", Row: "load balancer", Variant: variantSecondary,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				arn := lb(e).ARN
				set := func(ctx context.Context, off bool) error {
					_, err := e.ELBV2.ModifyLoadBalancerAttributes(ctx, &elbv2.ModifyLoadBalancerAttributesInput{
						LoadBalancerArn: aws.String(arn),
						Attributes:      []elbv2types.LoadBalancerAttribute{{Key: aws.String("load_balancing.cross_zone.enabled"), Value: aws.String(fmt.Sprint(!off))}},
					})
					return err
				}
				return toggle(ctx, set, e.clusterDrift(providers.KindLoadBalancer, arn, changed("/attributes/crossZone", "false", "true")))
			},
		},
		{
			Name: "listener of the second load balancer added", Row: "load balancer", Variant: variantSecondary,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				arn, tg := lb(e).ARN, e.SecondaryTargetGroups[1]
				out, err := e.ELBV2.CreateListener(ctx, &elbv2.CreateListenerInput{
					LoadBalancerArn: aws.String(arn), Port: aws.Int32(22), Protocol: elbv2types.ProtocolEnumTcp,
					DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: aws.String(tg.ARN)}},
				})
				if err != nil {
					return nil, fmt.Errorf("create listener: %w", err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindLoadBalancer, arn, added("/listeners", "TCP:22 to target group "+tg.Name))},
					Undo: func(ctx context.Context) error {
						_, err := e.ELBV2.DeleteListener(ctx, &elbv2.DeleteListenerInput{ListenerArn: out.Listeners[0].ListenerArn})
						return err
					},
				}, nil
			},
		},
		{
			Name: "further listener's port shut in the lb group", Row: "a rule", Variant: variantSecondary,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupLB)
				undo, err := e.deny(ctx, group, tcpFromIP(8132, 8132, "10.0.0.0/16", "Allow NLB traffic to the control plane instances on port 8132."))
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, group, removed(ingressPath, "tcp 8132-8132 from 10.0.0.0/16")))
			},
		},
		{
			Name: "second load balancer deleted", Row: "load balancer", Variant: variantSecondary,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				arn := lb(e).ARN
				if _, err := e.ELBV2.DeleteLoadBalancer(ctx, &elbv2.DeleteLoadBalancerInput{LoadBalancerArn: aws.String(arn)}); err != nil {
					return nil, fmt.Errorf("delete load balancer: %w", err)
				}
				return &Damage{Findings: []Finding{e.clusterGone(providers.KindLoadBalancer, arn, "present", "")}}, nil
			},
		},
	}
}

// ownVPCTampers are done to a cluster in a VPC that its user brought. What
// that user does to the network is no drift, unless it exposes a private
// subnet or takes away what the cluster stands on.
func ownVPCTampers() []Tamper {
	return []Tamper{
		{
			Name: "user's VPC configured by the user", Row: "VPC", Variant: variantOwnVPC,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				vpc, subnet := e.AWSCluster.Spec.NetworkSpec.VPC.ID, e.sideOf(true).ResourceID
				if _, err := e.EC2.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: aws.String(vpc), EnableDnsSupport: &types.AttributeBooleanValue{Value: aws.Bool(false)}}); err != nil {
					return nil, fmt.Errorf("switch off DNS support of %s: %w", vpc, err)
				}
				if _, err := e.EC2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: aws.String(subnet), MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(true)}}); err != nil {
					return nil, fmt.Errorf("map public addresses in %s: %w", subnet, err)
				}
				if _, err := e.retag(ctx, vpc, map[string]string{"managed-by": "pulumi"}, nil, nil, nil); err != nil {
					return nil, err
				}
				return noFindings(func(ctx context.Context) error {
					_, err := e.EC2.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: aws.String(vpc), EnableDnsSupport: &types.AttributeBooleanValue{Value: aws.Bool(true)}})
					return err
				}), nil
			},
		},
		{
			Name: "private subnet of the user's opened to the internet", Row: "a private subnet with an internet-gateway route", Variant: variantOwnVPC,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				private := e.sideOf(false)
				gateway, err := e.gatewayOf(ctx, e.sideOf(true))
				if err != nil {
					return nil, err
				}
				const half = "128.0.0.0/1"
				if _, err := e.EC2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: private.RouteTableID, DestinationCidrBlock: aws.String(half), GatewayId: aws.String(gateway)}); err != nil {
					return nil, fmt.Errorf("add route to %s: %w", *private.RouteTableID, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindRouteTable, *private.RouteTableID, added(providers.Pointer("routes", half), gateway))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: private.RouteTableID, DestinationCidrBlock: aws.String(half)})
						return err
					},
				}, nil
			},
		},
		{
			Name: "rule of the cluster's own group in the user's VPC", Row: "a rule", Variant: variantOwnVPC,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupControlPlane)
				undo, err := e.allow(ctx, group, tcpFromIP(6443, 6443, anyIPv4, ""))
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, group, added(ingressPath, "tcp 6443-6443 from 0.0.0.0/0")))
			},
		},
		{
			Name: "rule of another group in the user's VPC", Row: "a rule", Variant: variantOwnVPC,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group, err := e.defaultGroup(ctx)
				if err != nil {
					return nil, err
				}
				undo, err := e.allow(ctx, group, tcpFromIP(22, 22, anyIPv4, ""))
				return damage(undo, err)
			},
		},
		{
			Name: "security group detached from an instance in the user's VPC", Row: "security groups on the primary interface", Variant: variantOwnVPC,
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				node, lb := e.group(infrav1.SecurityGroupNode), e.group(infrav1.SecurityGroupLB)
				undo, err := e.regroup(ctx, m.id, []string{node}, []string{node, lb})
				return damage(undo, err, machineDrift(m, removed(securityGroupsPath, lb)))
			}),
		},
	}
}

// sideOf gives the first subnet of a side.
func (e *Environment) sideOf(public bool) *infrav1.SubnetSpec {
	subnets := e.AWSCluster.Spec.NetworkSpec.Subnets
	for i := range subnets {
		if subnets[i].IsPublic == public {
			return &subnets[i]
		}
	}
	panic("cluster " + e.Cluster.Name + " lacks subnets of one side")
}

// gatewayOf finds the internet gateway that a public subnet's table leads to.
func (e *Environment) gatewayOf(ctx context.Context, sn *infrav1.SubnetSpec) (string, error) {
	out, err := e.EC2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{*sn.RouteTableID}})
	if err != nil {
		return "", fmt.Errorf("read route table %s: %w", *sn.RouteTableID, err)
	}
	for _, r := range out.RouteTables[0].Routes {
		if aws.ToString(r.DestinationCidrBlock) == anyIPv4 {
			return aws.ToString(r.GatewayId), nil
		}
	}
	return "", fmt.Errorf("route table %s has no default route", *sn.RouteTableID)
}
