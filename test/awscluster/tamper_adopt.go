package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// adoptionTampers are drift that CAPA itself has made its own since.
func adoptionTampers() []Tamper {
	return []Tamper{{
		Name: "private subnet opened to the internet, and adopted", Row: "a private subnet with an internet-gateway route",
		Do: adoptPublicSubnet,
	}}
}

// adoptPublicSubnet plays what CAPA v2.13 does when it meets an internet
// gateway's route in a private subnet's table: it takes the subnet for public,
// writes so into the AWSCluster, and tags subnet and table accordingly.
func adoptPublicSubnet(ctx context.Context, e *Environment) (*Damage, error) {
	sn, gateway := e.subnet("-private-b"), *e.AWSCluster.Spec.NetworkSpec.VPC.InternetGatewayID
	nat, table := *e.subnet("-public-b").NatGatewayID, *sn.RouteTableID
	reroute := func(ctx context.Context, in *ec2.ReplaceRouteInput) error {
		in.RouteTableId, in.DestinationCidrBlock = aws.String(table), aws.String(anyIPv4)
		if _, err := e.EC2.ReplaceRoute(ctx, in); err != nil {
			return fmt.Errorf("replace default route of %s: %w", table, err)
		}
		return nil
	}
	if err := reroute(ctx, &ec2.ReplaceRouteInput{GatewayId: aws.String(gateway)}); err != nil {
		return nil, err
	}
	sn.IsPublic = true
	const role = infrav1.NameAWSClusterAPIRole
	untagSubnet, err := e.retag(ctx, sn.ResourceID, map[string]string{role: "public", tagExternalELB: "1"}, nil,
		map[string]string{role: "private"}, []string{tagExternalELB})
	if err != nil {
		return nil, err
	}
	private := fmt.Sprintf("%s-rt-private-%s", e.Cluster.Name, sn.AvailabilityZone)
	public := fmt.Sprintf("%s-rt-public-%s", e.Cluster.Name, sn.AvailabilityZone)
	untagTable, err := e.retag(ctx, table, map[string]string{"Name": public}, nil, map[string]string{"Name": private}, nil)
	if err != nil {
		return nil, err
	}
	return &Damage{
		Findings: []Finding{
			e.clusterDrift(providers.KindRouteTable, table,
				adopted(changed(defaultRoute, nat, gateway)), adopted(changed(tagPath("Name"), private, public))),
			e.clusterDrift(providers.KindSubnet, sn.ResourceID, adopted(changed(tagPath(role), "private", "public"))),
		},
		Undo: both(untagSubnet, both(untagTable, func(ctx context.Context) error {
			sn.IsPublic = false
			return reroute(ctx, &ec2.ReplaceRouteInput{NatGatewayId: aws.String(nat)})
		})),
	}, nil
}
