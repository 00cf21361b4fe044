package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

func networkTampers() []Tamper {
	return []Tamper{
		{
			Name: "DNS host names of the VPC switched off", Row: "VPC",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id := e.AWSCluster.Spec.NetworkSpec.VPC.ID
				set := func(ctx context.Context, on bool) error {
					_, err := e.EC2.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: aws.String(id), EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(on)}})
					return err
				}
				return toggle(ctx, set, e.clusterDrift(providers.KindVPC, id, changed("/enableDnsHostnames", "true", "false")))
			},
		},
		{
			Name: "DNS support of the VPC switched off", Row: "VPC",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id := e.AWSCluster.Spec.NetworkSpec.VPC.ID
				set := func(ctx context.Context, on bool) error {
					_, err := e.EC2.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: aws.String(id), EnableDnsSupport: &types.AttributeBooleanValue{Value: aws.Bool(on)}})
					return err
				}
				return toggle(ctx, set, e.clusterDrift(providers.KindVPC, id, changed("/enableDnsSupport", "true", "false")))
			},
		},
		{
			Name: "public subnet stops giving public addresses", Row: "subnets",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id := e.subnet("-public-b").ResourceID
				set := func(ctx context.Context, on bool) error {
					_, err := e.EC2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: aws.String(id), MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(on)}})
					return err
				}
				return toggle(ctx, set, e.clusterDrift(providers.KindSubnet, id, changed("/mapPublicIpOnLaunch", "true", "false")))
			},
		},
		{
			Name: "subnet deleted", Row: "subnets", Manifest: "dev-classic.yaml",
			Do: deleteSubnet,
		},
		{
			Name: "internet gateway detached", Row: "internet gateway, egress-only gateway",
			NotOnSim: "EC2 refuses it while the VPC has public addresses, as those of NAT gateways are",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				vpc := &e.AWSCluster.Spec.NetworkSpec.VPC
				id := *vpc.InternetGatewayID
				if _, err := e.EC2.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: aws.String(id), VpcId: aws.String(vpc.ID)}); err != nil {
					return nil, fmt.Errorf("detach internet gateway %s: %w", id, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindInternetGateway, id, removed("/vpcId", vpc.ID))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: aws.String(id), VpcId: aws.String(vpc.ID)})
						return err
					},
				}, nil
			},
		},
		{
			Name: "NAT gateway deleted", Row: "NAT gateways",
			Do: deleteNATGateway,
		},
		{
			Name: "internet gateway deleted", Row: "internet gateway, egress-only gateway",
			NotOnSim: "EC2 refuses to detach it while the VPC has public addresses, as those of NAT gateways are",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				vpc := &e.AWSCluster.Spec.NetworkSpec.VPC
				id := *vpc.InternetGatewayID
				if _, err := e.EC2.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: aws.String(id), VpcId: aws.String(vpc.ID)}); err != nil {
					return nil, fmt.Errorf("detach internet gateway %s: %w", id, err)
				}
				if _, err := e.EC2.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: aws.String(id)}); err != nil {
					return nil, fmt.Errorf("delete internet gateway %s: %w", id, err)
				}
				return &Damage{Findings: []Finding{e.clusterGone(providers.KindInternetGateway, id, "present", "")}}, nil
			},
		},
		{
			Name: "subnet moved to another network ACL", Row: "network ACLs", Cases: []string{"C29"},
			Do: moveToOtherACL,
		},
		{
			Name: "answers denied by the default network ACL", Row: "network ACLs", Cases: []string{"C29"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				acl, err := e.defaultACL(ctx)
				if err != nil {
					return nil, err
				}
				if _, err := e.EC2.CreateNetworkAclEntry(ctx, &ec2.CreateNetworkAclEntryInput{
					NetworkAclId: aws.String(acl), RuleNumber: aws.Int32(60), Protocol: aws.String("-1"), RuleAction: types.RuleActionDeny,
					Egress: aws.Bool(true), CidrBlock: aws.String("10.0.64.0/18"),
				}); err != nil {
					return nil, fmt.Errorf("add entry to network ACL %s: %w", acl, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindNetworkACL, acl, added("/egress", "60 deny all to 10.0.64.0/18"))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.DeleteNetworkAclEntry(ctx, &ec2.DeleteNetworkAclEntryInput{NetworkAclId: aws.String(acl), RuleNumber: aws.Int32(60), Egress: aws.Bool(true)})
						return err
					},
				}, nil
			},
		},
		{
			Name: "traffic denied by the default network ACL", Row: "network ACLs", Cases: []string{"C29"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				acl, err := e.defaultACL(ctx)
				if err != nil {
					return nil, err
				}
				if _, err := e.EC2.CreateNetworkAclEntry(ctx, &ec2.CreateNetworkAclEntryInput{
					NetworkAclId: aws.String(acl), RuleNumber: aws.Int32(50), Protocol: aws.String("17"), RuleAction: types.RuleActionDeny,
					Egress: aws.Bool(false), CidrBlock: aws.String(anyIPv4), PortRange: &types.PortRange{From: aws.Int32(53), To: aws.Int32(53)},
				}); err != nil {
					return nil, fmt.Errorf("add entry to network ACL %s: %w", acl, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindNetworkACL, acl, added("/ingress", "50 deny udp 53-53 from 0.0.0.0/0"))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.DeleteNetworkAclEntry(ctx, &ec2.DeleteNetworkAclEntryInput{NetworkAclId: aws.String(acl), RuleNumber: aws.Int32(50), Egress: aws.Bool(false)})
						return err
					},
				}, nil
			},
		},
	}
}

// toggle switches something off; its undo switches it on again.
func toggle(ctx context.Context, set func(context.Context, bool) error, findings ...Finding) (*Damage, error) {
	if err := set(ctx, false); err != nil {
		return nil, fmt.Errorf("switch off: %w", err)
	}
	return &Damage{Findings: findings, Undo: func(ctx context.Context) error { return set(ctx, true) }}, nil
}

// deleteSubnet deletes a subnet that holds no machine, after taking it out of
// its route table as EC2 demands.
func deleteSubnet(ctx context.Context, e *Environment) (*Damage, error) {
	sn := e.subnet("-private-b")
	association, err := e.association(ctx, sn.ResourceID)
	if err != nil {
		return nil, err
	}
	if _, err := e.EC2.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: aws.String(association)}); err != nil {
		return nil, fmt.Errorf("disassociate route table of subnet %s: %w", sn.ResourceID, err)
	}
	if _, err := e.EC2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: aws.String(sn.ResourceID)}); err != nil {
		return nil, fmt.Errorf("delete subnet %s: %w", sn.ResourceID, err)
	}
	damage := &Damage{Findings: []Finding{
		e.clusterGone(providers.KindSubnet, sn.ResourceID, "present", ""),
		e.clusterDrift(providers.KindRouteTable, *sn.RouteTableID, removed("/associations", sn.ResourceID)),
	}}
	if !e.OnMoto { // moto keeps the association of the network ACL
		acl, err := e.defaultACL(ctx)
		if err != nil {
			return nil, err
		}
		damage.Findings = append(damage.Findings, e.clusterDrift(providers.KindNetworkACL, acl, removed("/associations", sn.ResourceID)))
	}
	return damage, nil
}

// association finds a subnet's route table association.
func (e *Environment) association(ctx context.Context, subnet string) (string, error) {
	out, err := e.EC2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{
		Filters: []types.Filter{{Name: aws.String("association.subnet-id"), Values: []string{subnet}}},
	})
	if err != nil {
		return "", fmt.Errorf("find route table of subnet %s: %w", subnet, err)
	}
	for _, t := range out.RouteTables {
		for _, a := range t.Associations {
			if aws.ToString(a.SubnetId) == subnet {
				return aws.ToString(a.RouteTableAssociationId), nil
			}
		}
	}
	return "", fmt.Errorf("subnet %s has no route table", subnet)
}

// deleteNATGateway deletes a zone's way out. The route that led to it stays, as
// a black hole; moto does not model that, and shows the route as it was.
func deleteNATGateway(ctx context.Context, e *Environment) (*Damage, error) {
	id, table := *e.subnet("-public-a").NatGatewayID, *e.subnet("-private-a").RouteTableID
	if _, err := e.EC2.DeleteNatGateway(ctx, &ec2.DeleteNatGatewayInput{NatGatewayId: aws.String(id)}); err != nil {
		return nil, fmt.Errorf("delete NAT gateway %s: %w", id, err)
	}
	if err := ec2.NewNatGatewayDeletedWaiter(e.EC2, func(o *ec2.NatGatewayDeletedWaiterOptions) {
		o.MinDelay, o.MaxDelay = tamperPoll, tamperPoll
	}).Wait(ctx, &ec2.DescribeNatGatewaysInput{NatGatewayIds: []string{id}}, tamperPatience); err != nil {
		return nil, fmt.Errorf("wait for NAT gateway %s to be deleted: %w", id, err)
	}
	gone := e.clusterGone(providers.KindNATGateway, id, "available, pending", "deleted")
	if e.OnMoto {
		return &Damage{Findings: []Finding{gone}}, nil
	}
	return &Damage{Findings: []Finding{
		gone,
		e.clusterDrift(providers.KindRouteTable, table, changed(defaultRoute, id, "blackhole "+id)),
	}}, nil
}

func (e *Environment) defaultACL(ctx context.Context) (string, error) {
	out, err := e.EC2.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{Filters: []types.Filter{
		{Name: aws.String("vpc-id"), Values: []string{e.AWSCluster.Spec.NetworkSpec.VPC.ID}},
		{Name: aws.String("default"), Values: []string{"true"}},
	}})
	if err != nil || len(out.NetworkAcls) != 1 {
		return "", fmt.Errorf("find default network ACL: %w", err)
	}
	return aws.ToString(out.NetworkAcls[0].NetworkAclId), nil
}

// moveToOtherACL puts a subnet under a network ACL that lets nothing through.
func moveToOtherACL(ctx context.Context, e *Environment) (*Damage, error) {
	own, err := e.defaultACL(ctx)
	if err != nil {
		return nil, err
	}
	subnet := e.subnet("-private-c").ResourceID
	made, err := e.EC2.CreateNetworkAcl(ctx, &ec2.CreateNetworkAclInput{VpcId: aws.String(e.AWSCluster.Spec.NetworkSpec.VPC.ID)})
	if err != nil {
		return nil, fmt.Errorf("create network ACL: %w", err)
	}
	other := aws.ToString(made.NetworkAcl.NetworkAclId)
	if err := e.underACL(ctx, subnet, other); err != nil {
		return nil, err
	}
	return &Damage{
		Findings: []Finding{e.clusterDrift(providers.KindNetworkACL, own, removed("/associations", subnet))},
		Undo: func(ctx context.Context) error {
			if err := e.underACL(ctx, subnet, own); err != nil {
				return err
			}
			_, err := e.EC2.DeleteNetworkAcl(ctx, &ec2.DeleteNetworkAclInput{NetworkAclId: aws.String(other)})
			return err
		},
	}, nil
}

func (e *Environment) underACL(ctx context.Context, subnet, acl string) error {
	out, err := e.EC2.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{
		Filters: []types.Filter{{Name: aws.String("association.subnet-id"), Values: []string{subnet}}},
	})
	if err != nil {
		return fmt.Errorf("find network ACL of subnet %s: %w", subnet, err)
	}
	for _, a := range out.NetworkAcls {
		for _, as := range a.Associations {
			if aws.ToString(as.SubnetId) != subnet {
				continue
			}
			if _, err := e.EC2.ReplaceNetworkAclAssociation(ctx, &ec2.ReplaceNetworkAclAssociationInput{AssociationId: as.NetworkAclAssociationId, NetworkAclId: aws.String(acl)}); err != nil {
				return fmt.Errorf("move subnet %s to network ACL %s: %w", subnet, acl, err)
			}
			return nil
		}
	}
	return fmt.Errorf("subnet %s has no network ACL", subnet)
}
