package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// defaultRoute is the path of the route to everywhere.
var defaultRoute = providers.Pointer("routes", anyIPv4)

func routeTampers() []Tamper {
	return []Tamper{
		{
			Name: "default route of a private subnet deleted", Row: "route tables",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				table, nat := *e.subnet("-private-a").RouteTableID, *e.subnet("-public-a").NatGatewayID
				if _, err := e.EC2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: aws.String(table), DestinationCidrBlock: aws.String(anyIPv4)}); err != nil {
					return nil, fmt.Errorf("delete default route of %s: %w", table, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindRouteTable, table, removed(defaultRoute, nat))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: aws.String(table), DestinationCidrBlock: aws.String(anyIPv4), NatGatewayId: aws.String(nat)})
						return err
					},
				}, nil
			},
		},
		{
			Name: "private subnet opened to the internet", Row: "a private subnet with an internet-gateway route",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				gateway := *e.AWSCluster.Spec.NetworkSpec.VPC.InternetGatewayID
				return e.reroute(ctx, &ec2.ReplaceRouteInput{GatewayId: aws.String(gateway)}, gateway)
			},
		},
		{
			Name: "private route sent to an instance", Row: "route tables",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				m, err := e.worker()
				if err != nil {
					return nil, err
				}
				return e.reroute(ctx, &ec2.ReplaceRouteInput{InstanceId: aws.String(m.id)}, m.id)
			},
		},
		{
			Name: "route table deleted", Row: "route tables", Manifest: "dev-classic.yaml",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				sn := e.subnet("-private-a")
				association, err := e.association(ctx, sn.ResourceID)
				if err != nil {
					return nil, err
				}
				if _, err := e.EC2.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: aws.String(association)}); err != nil {
					return nil, fmt.Errorf("disassociate route table of subnet %s: %w", sn.ResourceID, err)
				}
				if _, err := e.EC2.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: sn.RouteTableID}); err != nil {
					return nil, fmt.Errorf("delete route table %s: %w", *sn.RouteTableID, err)
				}
				main, err := e.mainTable(ctx)
				if err != nil {
					return nil, err
				}
				return &Damage{Findings: []Finding{
					e.clusterGone(providers.KindRouteTable, *sn.RouteTableID, "present", ""),
					e.clusterDrift(providers.KindSubnet, sn.ResourceID, changed("/routeTableId", *sn.RouteTableID, main)),
				}}, nil
			},
		},
		{
			Name: "private subnet put into a public route table", Row: "route tables",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				private, public := e.subnet("-private-c"), e.subnet("-public-c")
				if err := e.reassociate(ctx, private.ResourceID, *public.RouteTableID); err != nil {
					return nil, err
				}
				return &Damage{
					Findings: []Finding{
						e.clusterDrift(providers.KindRouteTable, *private.RouteTableID, removed("/associations", private.ResourceID)),
						e.clusterDrift(providers.KindSubnet, private.ResourceID, changed("/routeTableId", *private.RouteTableID, *public.RouteTableID)),
					},
					Undo: func(ctx context.Context) error { return e.reassociate(ctx, private.ResourceID, *private.RouteTableID) },
				}, nil
			},
		},
	}
}

// reroute changes the target of private-b's default route.
func (e *Environment) reroute(ctx context.Context, in *ec2.ReplaceRouteInput, target string) (*Damage, error) {
	table, nat := *e.subnet("-private-b").RouteTableID, *e.subnet("-public-b").NatGatewayID
	in.RouteTableId, in.DestinationCidrBlock = aws.String(table), aws.String(anyIPv4)
	if _, err := e.EC2.ReplaceRoute(ctx, in); err != nil {
		return nil, fmt.Errorf("replace default route of %s: %w", table, err)
	}
	return &Damage{
		Findings: []Finding{e.clusterDrift(providers.KindRouteTable, table, changed(defaultRoute, nat, target))},
		Undo: func(ctx context.Context) error {
			_, err := e.EC2.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{RouteTableId: aws.String(table), DestinationCidrBlock: aws.String(anyIPv4), NatGatewayId: aws.String(nat)})
			return err
		},
	}, nil
}

func (e *Environment) reassociate(ctx context.Context, subnet, table string) error {
	association, err := e.association(ctx, subnet)
	if err != nil {
		return err
	}
	if _, err := e.EC2.ReplaceRouteTableAssociation(ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: aws.String(association), RouteTableId: aws.String(table)}); err != nil {
		return fmt.Errorf("move subnet %s to route table %s: %w", subnet, table, err)
	}
	return nil
}

// mainTable finds the route table that subnets without one of their own use.
func (e *Environment) mainTable(ctx context.Context) (string, error) {
	out, err := e.EC2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{
		{Name: aws.String("vpc-id"), Values: []string{e.AWSCluster.Spec.NetworkSpec.VPC.ID}},
		{Name: aws.String("association.main"), Values: []string{"true"}},
	}})
	if err != nil || len(out.RouteTables) != 1 {
		return "", fmt.Errorf("find main route table: %w", err)
	}
	return aws.ToString(out.RouteTables[0].RouteTableId), nil
}
