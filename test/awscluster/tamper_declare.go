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

// declarationTampers write the same thing in other words, on either side, or
// declare what nobody has made. They are about meaning, not spelling.
func declarationTampers() []Tamper {
	return []Tamper{
		{
			Name: "one rule declared in several words", Row: "a rule", Cases: []string{"C02", "C04"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				// All protocols have no ports, a prefix is masked, and a block
				// that is listed twice is one.
				undo, err := e.declareRules(ctx, types.IpPermission{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{
					{CidrIp: aws.String("198.51.100.0/24")}, {CidrIp: aws.String("203.0.113.0/24")},
				}}, infrav1.IngressRule{
					Description: "office", Protocol: infrav1.SecurityGroupProtocolAll, FromPort: 8080, ToPort: 8080,
					CidrBlocks: []string{"203.0.113.7/24", "198.51.100.0/24", "203.0.113.0/24"},
				})
				return damage(undo, err)
			},
		},
		{
			Name: "security group declared by a filter", Row: "security groups on the primary interface", Cases: []string{"C11", "C12"},
			Do: onMachine((*Environment).worker, declareByFilter),
		},
		{
			Name: "subnet shared with another cluster", Row: "tags", Cases: []string{"C16"},
			Do: func(_ context.Context, e *Environment) (*Damage, error) {
				// The other cluster is deleted and its tag with it; this one's
				// spec had copied it.
				sn := e.subnet("-private-a")
				sn.Tags["kubernetes.io/cluster/other"] = "shared"
				return noFindings(func(context.Context) error {
					delete(sn.Tags, "kubernetes.io/cluster/other")
					return nil
				}), nil
			},
		},
		{
			Name: "secondary block of the VPC declared", Row: "VPC",
			Do: func(_ context.Context, e *Environment) (*Damage, error) {
				vpc := &e.AWSCluster.Spec.NetworkSpec.VPC
				vpc.SecondaryCidrBlocks = []infrav1.VpcCidrBlock{{IPv4CidrBlock: "10.9.0.0/16"}}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindVPC, vpc.ID, removed("/cidrBlocks", "10.9.0.0/16"))},
					Undo: func(context.Context) error {
						vpc.SecondaryCidrBlocks = nil
						return nil
					},
				}, nil
			},
		},
		{
			Name: "block of a subnet declared anew", Row: "subnets",
			Do: func(_ context.Context, e *Environment) (*Damage, error) {
				sn := e.subnet("-private-c")
				own := sn.CidrBlock
				sn.CidrBlock = "10.0.96.0/19"
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindSubnet, sn.ResourceID, changed("/cidrBlock", "10.0.96.0/19", own))},
					Undo: func(context.Context) error {
						sn.CidrBlock = own
						return nil
					},
				}, nil
			},
		},
		{
			Name: "load balancer declared internal", Row: "load balancer",
			Do: declareInternal,
		},
		{
			Name: "interface declared and not attached", Row: "security groups on the primary interface",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				id, err := e.createInterface(ctx, map[string]string{"Name": "by hand"})
				if err != nil {
					return nil, err
				}
				const missing = "eni-0fffffffffffffff0"
				m.aws.Spec.NetworkInterfaces = []string{id, missing}
				f := machineDrift(m, removed("/instanceId", m.id), removed("/deviceIndex", "0"))
				f.Kind, f.ID = providers.KindNetworkInterface, id
				gone := machineDrift(m, Diff{Path: "/state", Type: detector.Removed, Want: "present"})
				gone.Kind, gone.ID, gone.Status = providers.KindNetworkInterface, missing, detector.Missing
				return &Damage{
					Findings: []Finding{f, gone},
					Undo: func(ctx context.Context) error {
						m.aws.Spec.NetworkInterfaces = nil
						return e.deleteInterface(ctx, id)
					},
				}, nil
			}),
		},
	}
}

// declareRules adds a rule to the nodes' group and its declaration to the spec.
func (e *Environment) declareRules(ctx context.Context, live types.IpPermission, declared infrav1.IngressRule) (func(context.Context) error, error) {
	undo, err := e.allow(ctx, e.group(infrav1.SecurityGroupNode), live)
	if err != nil {
		return nil, err
	}
	network := &e.AWSCluster.Spec.NetworkSpec
	before := network.AdditionalNodeIngressRules
	network.AdditionalNodeIngressRules = append(before[:len(before):len(before)], declared)
	return func(ctx context.Context) error {
		network.AdditionalNodeIngressRules = before
		return undo(ctx)
	}, nil
}

// declareByFilter names an additional group by a filter. A group of the same
// name stands in an abandoned VPC, and is never meant.
func declareByFilter(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
	const name = "applications"
	group, err := e.createGroup(ctx, name, map[string]string{"Name": name})
	if err != nil {
		return nil, err
	}
	vpc, err := e.EC2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.200.0.0/16")})
	if err != nil {
		return nil, fmt.Errorf("create VPC: %w", err)
	}
	decoy, err := e.EC2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{VpcId: vpc.Vpc.VpcId, GroupName: aws.String(name), Description: aws.String(name)})
	if err != nil {
		return nil, fmt.Errorf("create security group %s: %w", name, err)
	}
	own := []string{e.group(infrav1.SecurityGroupNode), e.group(infrav1.SecurityGroupLB)}
	detach, err := e.regroup(ctx, m.id, append(own[:2:2], group), own)
	if err != nil {
		return nil, err
	}
	m.aws.Spec.AdditionalSecurityGroups = []infrav1.AWSResourceReference{{Filters: []infrav1.Filter{{Name: "group-name", Values: []string{name}}}}}
	return noFindings(func(ctx context.Context) error {
		m.aws.Spec.AdditionalSecurityGroups = nil
		if err := detach(ctx); err != nil {
			return err
		}
		for _, id := range []string{group, *decoy.GroupId} {
			if err := e.deleteGroup(ctx, id); err != nil {
				return err
			}
		}
		_, err := e.EC2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: vpc.Vpc.VpcId})
		return err
	}), nil
}

// declareInternal changes the scheme, with all that hangs on it: an internal
// load balancer stands in the private subnets, and kubelets reach it from the
// VPC's own block instead of through NAT gateways.
func declareInternal(_ context.Context, e *Environment) (*Damage, error) {
	spec := e.AWSCluster.Spec.ControlPlaneLoadBalancer
	internal, before := infrav1.ELBSchemeInternal, spec.Scheme
	spec.Scheme = &internal
	drift := []Diff{changed("/scheme", "internal", "internet-facing")}
	for _, sn := range e.AWSCluster.Spec.NetworkSpec.Subnets {
		if sn.IsPublic {
			drift = append(drift, added("/subnets", sn.ResourceID))
		} else {
			drift = append(drift, removed("/subnets", sn.ResourceID))
		}
	}
	rules := []Diff{removed(ingressPath, "tcp 6443-6443 from "+e.AWSCluster.Spec.NetworkSpec.VPC.CidrBlock)}
	for _, ip := range e.AWSCluster.Status.Network.NatGatewaysIPs {
		rules = append(rules, added(ingressPath, "tcp 6443-6443 from "+ip+"/32"))
	}
	return &Damage{
		Findings: []Finding{
			e.lbDrift(drift...),
			e.clusterDrift(providers.KindSecurityGroup, e.group(infrav1.SecurityGroupAPIServerLB), rules...),
		},
		Undo: func(context.Context) error {
			spec.Scheme = before
			return nil
		},
	}, nil
}
