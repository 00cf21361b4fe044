package aws

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/holdfast-io/holdfast/providers"
)

// tableOf finds the association that a subnet has of its own, and the table
// that it names; both are empty where the subnet inherits the main table.
func (w *writing) tableOf(ctx context.Context, subnet string) (association, table string, err error) {
	out, err := w.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{
		Filters: (&choice{ids: []string{subnet}, byFilter: true}).filter("association.subnet-id"),
	})
	if err != nil {
		return "", "", applyError(err, "find the route table of "+subnet)
	}
	for i := range out.RouteTables {
		t := &out.RouteTables[i]
		for j := range t.Associations {
			if deref(t.Associations[j].SubnetId) == subnet {
				return deref(t.Associations[j].RouteTableAssociationId), deref(t.RouteTableId), nil
			}
		}
	}
	return "", "", nil
}

// associate gives a subnet a table, in one step where it has another, so that
// it is never without its routes in between.
func (w *writing) associate(ctx context.Context, subnet, table string) error {
	association, now, err := w.tableOf(ctx, subnet)
	switch {
	case err != nil || now == table:
		return err
	case association != "":
		_, err = w.ec2.ReplaceRouteTableAssociation(ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: &association, RouteTableId: &table})
	default:
		_, err = w.ec2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{SubnetId: &subnet, RouteTableId: &table})
	}
	return w.called(err, "associate %s with %s", subnet, table)
}

// subnetTable is not for subnets that are to inherit: nothing wants that of
// one that has a table.
func (w *writing) subnetTable(ctx context.Context, fields []providers.FieldChange) error {
	if fields[0].Want.IsAbsent() {
		return unsupported("%s is wanted without a route table", w.Resource)
	}
	return w.associate(ctx, w.Resource.Name, fields[0].Want.Text())
}

func (w *writing) tableAssociations(ctx context.Context, fields []providers.FieldChange) error {
	for _, f := range w.due(fields) {
		if err := w.associate(ctx, f.Want.Text(), w.Resource.Name); err != nil {
			return err
		}
	}
	return nil
}

// routeTargets are the targets that a route can be given, by what their ids
// begin with (CreateRoute).
var routeTargets = map[string]func(in *ec2.CreateRouteInput, id *string){
	"igw":  func(in *ec2.CreateRouteInput, id *string) { in.GatewayId = id },
	"vgw":  func(in *ec2.CreateRouteInput, id *string) { in.GatewayId = id },
	"nat":  func(in *ec2.CreateRouteInput, id *string) { in.NatGatewayId = id },
	"eigw": func(in *ec2.CreateRouteInput, id *string) { in.EgressOnlyInternetGatewayId = id },
	"cagw": func(in *ec2.CreateRouteInput, id *string) { in.CarrierGatewayId = id },
	"i":    func(in *ec2.CreateRouteInput, id *string) { in.InstanceId = id },
	"eni":  func(in *ec2.CreateRouteInput, id *string) { in.NetworkInterfaceId = id },
	"tgw":  func(in *ec2.CreateRouteInput, id *string) { in.TransitGatewayId = id },
	"pcx":  func(in *ec2.CreateRouteInput, id *string) { in.VpcPeeringConnectionId = id },
}

func routeTarget(id string) func(*ec2.CreateRouteInput, *string) {
	prefix, _, _ := strings.Cut(id, "-")
	return routeTargets[prefix]
}

func checkRoutes(c *providers.Change, fields []providers.FieldChange) error {
	for _, f := range fields {
		if id := f.Want.Text(); !f.Want.IsAbsent() && routeTarget(id) == nil {
			return unsupported("%s of %s: a route to %q cannot be made", f.Path, c.Resource, id)
		}
		if f.Want.IsAbsent() && f.Have.Text() == "local" {
			return unsupported("%s of %s: the local route cannot be deleted", f.Path, c.Resource)
		}
	}
	return nil
}

func (w *writing) writeRoutes(ctx context.Context, fields []providers.FieldChange) error {
	for _, f := range w.due(fields) {
		in := routeTo(w.Resource.Name, lastSegment(f.Path))
		if f.Want.IsAbsent() {
			if err := w.deleteRoute(ctx, in, lastSegment(f.Path)); err != nil {
				return err
			}
			continue
		}
		// The route is there and its target is not: pointing it there again mends
		// nothing, and mends itself once the target is back.
		if w.live.Fields.Get(f.Path).Value.Text() == blackhole+f.Want.Text() {
			return moved("%s of %s leads to %s, which does not exist any more or is detached", f.Path, w.Resource, f.Want.Text())
		}
		routeTarget(f.Want.Text())(in, ptr(f.Want.Text()))
		if err := w.setRoute(ctx, in, lastSegment(f.Path), !w.live.Fields.Get(f.Path).Value.IsAbsent()); err != nil {
			return err
		}
	}
	return nil
}

// blackhole precedes the target of a route whose target is gone; see route.
const blackhole = "blackhole "

// routeTo names a route by its table and destination.
func routeTo(table, destination string) *ec2.CreateRouteInput {
	in := &ec2.CreateRouteInput{RouteTableId: &table}
	switch {
	case strings.HasPrefix(destination, "pl-"):
		in.DestinationPrefixListId = &destination
	case strings.Contains(destination, ":"):
		in.DestinationIpv6CidrBlock = &destination
	default:
		in.DestinationCidrBlock = &destination
	}
	return in
}

// setRoute makes a route or points one elsewhere, which also mends a black
// hole. Where the route came or went since it was read, EC2 says so, and the
// other call is the right one.
func (w *writing) setRoute(ctx context.Context, in *ec2.CreateRouteInput, destination string, exists bool) error {
	for _, replace := range []bool{exists, !exists} {
		var err error
		if replace {
			_, err = w.ec2.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{
				RouteTableId: in.RouteTableId, DestinationCidrBlock: in.DestinationCidrBlock, DestinationIpv6CidrBlock: in.DestinationIpv6CidrBlock,
				DestinationPrefixListId: in.DestinationPrefixListId, GatewayId: in.GatewayId, NatGatewayId: in.NatGatewayId,
				EgressOnlyInternetGatewayId: in.EgressOnlyInternetGatewayId, CarrierGatewayId: in.CarrierGatewayId, InstanceId: in.InstanceId,
				NetworkInterfaceId: in.NetworkInterfaceId, TransitGatewayId: in.TransitGatewayId, VpcPeeringConnectionId: in.VpcPeeringConnectionId,
			})
		} else {
			_, err = w.ec2.CreateRoute(ctx, in)
		}
		other := []string{"RouteAlreadyExists"}
		if replace {
			other = []string{"InvalidRoute.NotFound", "InvalidParameterValue"}
		}
		if replace == exists && slices.Contains(other, apiCode(err)) {
			continue
		}
		return w.called(err, "route %s of %s", destination, w.Resource.Name)
	}
	return nil
}

func (w *writing) deleteRoute(ctx context.Context, in *ec2.CreateRouteInput, destination string) error {
	_, err := w.ec2.DeleteRoute(ctx, &ec2.DeleteRouteInput{
		RouteTableId: in.RouteTableId, DestinationCidrBlock: in.DestinationCidrBlock,
		DestinationIpv6CidrBlock: in.DestinationIpv6CidrBlock, DestinationPrefixListId: in.DestinationPrefixListId,
	})
	if apiCode(err) == "InvalidRoute.NotFound" {
		err = nil
	}
	return w.called(err, "delete route %s of %s", destination, w.Resource.Name)
}
