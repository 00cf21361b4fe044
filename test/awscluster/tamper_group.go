package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

const ingressPath = "/ingress"

func groupTampers() []Tamper {
	return []Tamper{
		{
			Name: "SSH opened to the world", Row: "a rule",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupNode)
				undo, err := e.allow(ctx, group, tcpFromIP(22, 22, anyIPv4, ""))
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, group, added(ingressPath, "tcp 22-22 from 0.0.0.0/0")))
			},
		},
		{
			Name: "everything opened to one address", Row: "a rule", Cases: []string{"C02"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupControlPlane)
				undo, err := e.allow(ctx, group, types.IpPermission{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String("203.0.113.7/32")}}})
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, group, added(ingressPath, "all from 203.0.113.7/32")))
			},
		},
		{
			Name: "etcd rule revoked", Row: "security groups",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupControlPlane)
				undo, err := e.deny(ctx, group, tcpFromGroup(2379, 2379, group, "etcd"))
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, group, removed(ingressPath, "tcp 2379-2379 from "+group)))
			},
		},
		{
			Name: "node ports narrowed to one host", Row: "a rule", Cases: []string{"C04"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupNode)
				allowAgain, err := e.deny(ctx, group, tcpFromIP(30000, 32767, "10.0.0.0/16", "Node Port Services"))
				if err != nil {
					return nil, err
				}
				denyAgain, err := e.allow(ctx, group, tcpFromIP(30000, 32767, "10.0.0.9/32", ""))
				return damage(both(denyAgain, allowAgain), err, e.clusterDrift(providers.KindSecurityGroup, group,
					added(ingressPath, "tcp 30000-32767 from 10.0.0.9/32"), removed(ingressPath, "tcp 30000-32767 from 10.0.0.0/16")))
			},
		},
		{
			Name: "rule made again with another description", Row: "a rule", Cases: []string{"C05"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupNode)
				original := tcpFromIP(30000, 32767, "10.0.0.0/16", "Node Port Services")
				if _, err := e.deny(ctx, group, original); err != nil {
					return nil, err
				}
				denyAgain, err := e.allow(ctx, group, tcpFromIP(30000, 32767, "10.0.0.0/16", "made by hand"))
				if err != nil {
					return nil, err
				}
				return noFindings(both(denyAgain, func(ctx context.Context) error {
					_, err := e.allow(ctx, group, original)
					return err
				})), nil
			},
		},
		{
			Name: "egress cut, which the spec is silent on", Row: "security groups", Cases: []string{"C13"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupNode)
				all := []types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String(anyIPv4)}}}}
				if _, err := e.EC2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: aws.String(group), IpPermissions: all}); err != nil {
					return nil, fmt.Errorf("revoke egress of %s: %w", group, err)
				}
				return noFindings(func(ctx context.Context) error {
					_, err := e.EC2.AuthorizeSecurityGroupEgress(ctx, &ec2.AuthorizeSecurityGroupEgressInput{GroupId: aws.String(group), IpPermissions: all})
					return err
				}), nil
			},
		},
		{
			Name: "rules given back to the default group", Row: "security groups", Cases: []string{"C13"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group, err := e.defaultGroup(ctx)
				if err != nil {
					return nil, err
				}
				denyAgain, err := e.allow(ctx, group, tcpFromIP(1, 65535, "10.0.0.0/8", ""))
				if err != nil {
					return nil, err
				}
				all := []types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String(anyIPv4)}}}}
				if _, err := e.EC2.AuthorizeSecurityGroupEgress(ctx, &ec2.AuthorizeSecurityGroupEgressInput{GroupId: aws.String(group), IpPermissions: all}); err != nil {
					return nil, fmt.Errorf("authorize egress of %s: %w", group, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindSecurityGroup, group,
						added(ingressPath, "tcp 1-65535 from 10.0.0.0/8"), added("/egress", "all to 0.0.0.0/0"))},
					Undo: both(denyAgain, func(ctx context.Context) error {
						_, err := e.EC2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: aws.String(group), IpPermissions: all})
						return err
					}),
				}, nil
			},
		},
		{
			Name: "security group deleted", Row: "security groups",
			NotOnSim: "EC2 refuses to delete a group that is in use",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupAPIServerLB)
				if err := e.deleteGroup(ctx, group); err != nil {
					return nil, fmt.Errorf("delete security group %s: %w", group, err)
				}
				return &Damage{Findings: []Finding{e.clusterGone(providers.KindSecurityGroup, group, "present", "")}}, nil
			},
		},
		{
			Name: "rule of the load balancer controller", Row: "a rule", Cases: []string{"C07"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group, lb := e.group(infrav1.SecurityGroupNode), e.group(infrav1.SecurityGroupLB)
				undo, err := e.allow(ctx, group, tcpFromGroup(8080, 8080, lb, "elbv2.k8s.aws/targetGroupBinding=shared"))
				finding := e.clusterDrift(providers.KindSecurityGroup, group, added(ingressPath, "tcp 8080-8080 from "+lb))
				finding.Status = detector.Foreign
				return damage(undo, err, finding)
			},
		},
		{
			Name: "rule from the world in the load balancer controller's name", Row: "a rule", Cases: []string{"C07"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupNode)
				undo, err := e.allow(ctx, group, tcpFromIP(22, 22, anyIPv4, "elbv2.k8s.aws/targetGroupBinding=shared"))
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, group, added(ingressPath, "tcp 22-22 from 0.0.0.0/0")))
			},
		},
	}
}

func tcpFromIP(from, to int32, cidr, text string) types.IpPermission {
	r := types.IpRange{CidrIp: aws.String(cidr)}
	if text != "" {
		r.Description = aws.String(text)
	}
	return types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(from), ToPort: aws.Int32(to), IpRanges: []types.IpRange{r}}
}

func tcpFromGroup(from, to int32, group, text string) types.IpPermission {
	return types.IpPermission{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(from), ToPort: aws.Int32(to),
		UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: aws.String(group), Description: aws.String(text)}},
	}
}

// allow adds an ingress rule; its undo takes it away.
func (e *Environment) allow(ctx context.Context, group string, rule types.IpPermission) (func(context.Context) error, error) {
	if _, err := e.EC2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: aws.String(group), IpPermissions: []types.IpPermission{rule}}); err != nil {
		return nil, fmt.Errorf("authorize ingress of %s: %w", group, err)
	}
	return func(ctx context.Context) error {
		_, err := e.EC2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: aws.String(group), IpPermissions: []types.IpPermission{rule}})
		return err
	}, nil
}

// deny takes an ingress rule away; its undo adds it again.
func (e *Environment) deny(ctx context.Context, group string, rule types.IpPermission) (func(context.Context) error, error) {
	if _, err := e.EC2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: aws.String(group), IpPermissions: []types.IpPermission{rule}}); err != nil {
		return nil, fmt.Errorf("revoke ingress of %s: %w", group, err)
	}
	return func(ctx context.Context) error {
		_, err := e.allow(ctx, group, rule)
		return err
	}, nil
}

// both does one undo after the other.
func both(first, second func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := first(ctx); err != nil {
			return err
		}
		return second(ctx)
	}
}
