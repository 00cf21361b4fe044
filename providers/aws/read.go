package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// choice narrows a read to some ids: by the API's own parameter, which says
// what does not exist, or by a filter, which takes ids of any form. Nil reads
// the whole region in pages.
type choice struct {
	ids      []string
	byFilter bool
	// field is what a filter looks at, where it is not the kind's own id.
	field string
}

func (c *choice) named() []string {
	if c == nil || c.byFilter {
		return nil
	}
	return c.ids
}

func (c *choice) filter(name string) []ec2types.Filter {
	if c == nil || !c.byFilter {
		return nil
	}
	if c.field != "" {
		name = c.field
	}
	return []ec2types.Filter{{Name: &name, Values: c.ids}}
}

// size is left out with ids, as DescribeInstances refuses it there.
func (c *choice) size(n int32) *int32 {
	if c != nil {
		return nil
	}
	return &n
}

// reader reads one kind after another from EC2, converting page by page so
// that no page outlives its conversion.
type reader struct {
	*session
	converter
}

func (r reader) instances(ctx context.Context, only *choice) (out []seenInstance, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
			InstanceIds: only.named(), Filters: only.filter("instance-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.Reservations {
			for j := range page.Reservations[i].Instances {
				out = append(out, r.instance(&page.Reservations[i].Instances[j]))
			}
		}
		return page.NextToken, nil
	})
	return out, err
}

// events reads the scheduled events of running instances, by instance.
func (r reader) events(ctx context.Context, only *choice) (map[string][]string, error) {
	out := map[string][]string{}
	err := pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{
			InstanceIds: only.named(), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.InstanceStatuses {
			s := &page.InstanceStatuses[i]
			if events := scheduledEvents(s.Events); len(events) > 0 {
				out[deref(s.InstanceId)] = events
			}
		}
		return page.NextToken, nil
	})
	return out, err
}

func (r reader) volumes(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{
			VolumeIds: only.named(), Filters: only.filter("volume-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.Volumes {
			out = append(out, r.volume(&page.Volumes[i]))
		}
		return page.NextToken, nil
	})
	return out, err
}

func (r reader) interfaces(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{
			NetworkInterfaceIds: only.named(), Filters: only.filter("network-interface-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.NetworkInterfaces {
			out = append(out, r.networkInterface(&page.NetworkInterfaces[i]))
		}
		return page.NextToken, nil
	})
	return out, err
}

func (r reader) groups(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
			GroupIds: only.named(), Filters: only.filter("group-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.SecurityGroups {
			out = append(out, r.securityGroup(&page.SecurityGroups[i]))
		}
		return page.NextToken, nil
	})
	if err == nil {
		adoptForeignRules(out)
	}
	return out, err
}

func (r reader) vpcs(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{
			VpcIds: only.named(), Filters: only.filter("vpc-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.Vpcs {
			out = append(out, r.vpc(&page.Vpcs[i]))
		}
		return page.NextToken, nil
	})
	return out, err
}

func (r reader) subnets(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
			SubnetIds: only.named(), Filters: only.filter("subnet-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.Subnets {
			out = append(out, r.subnet(&page.Subnets[i]))
		}
		return page.NextToken, nil
	})
	return out, err
}

func (r reader) internetGateways(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{
			InternetGatewayIds: only.named(), Filters: only.filter("internet-gateway-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.InternetGateways {
			g := &page.InternetGateways[i]
			out = append(out, r.internetGateway(g.InternetGatewayId, false, g.Attachments, g.Tags))
		}
		return page.NextToken, nil
	})
	return out, err
}

// egressOnlyGateways knows no filter by id.
func (r reader) egressOnlyGateways(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeEgressOnlyInternetGateways(ctx, &ec2.DescribeEgressOnlyInternetGatewaysInput{
			EgressOnlyInternetGatewayIds: only.named(), MaxResults: only.size(egressOnlyPage), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.EgressOnlyInternetGateways {
			g := &page.EgressOnlyInternetGateways[i]
			out = append(out, r.internetGateway(g.EgressOnlyInternetGatewayId, true, g.Attachments, g.Tags))
		}
		return page.NextToken, nil
	})
	return out, err
}

func (r reader) natGateways(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{
			NatGatewayIds: only.named(), Filter: only.filter("nat-gateway-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.NatGateways {
			out = append(out, r.natGateway(&page.NatGateways[i]))
		}
		return page.NextToken, nil
	})
	return out, err
}

func (r reader) routeTables(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{
			RouteTableIds: only.named(), Filters: only.filter("route-table-id"), MaxResults: only.size(routeTablePage), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.RouteTables {
			out = append(out, r.routeTable(&page.RouteTables[i]))
		}
		return page.NextToken, nil
	})
	return out, err
}

func (r reader) networkACLs(ctx context.Context, only *choice) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.ec2.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{
			NetworkAclIds: only.named(), Filters: only.filter("network-acl-id"), MaxResults: only.size(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		for i := range page.NetworkAcls {
			out = append(out, r.networkACL(&page.NetworkAcls[i]))
		}
		return page.NextToken, nil
	})
	return out, err
}

func ptr[T any](v T) *T { return &v }
