package ec2sim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// pages reads DescribeInstances page by page and gives each page's size.
func (w *world) pages(t *testing.T, in ec2.DescribeInstancesInput) (sizes []int, ids []string) {
	t.Helper()
	for {
		out := must(w.ec2.DescribeInstances(t.Context(), &in))(t)
		n := 0
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				ids = append(ids, *i.InstanceId)
				n++
			}
		}
		sizes = append(sizes, n)
		if out.NextToken == nil || len(sizes) > 20 {
			return sizes, ids
		}
		in.NextToken = out.NextToken
	}
}

// DescribeInstances (API reference), MaxResults: 5 to 1000 instances, not
// reservations, a page; not together with instance ids.
func TestPaging(t *testing.T) {
	w := newWorld(t, ec2sim.Options{Delays: &ec2sim.Delays{}})
	n := w.network(t)
	w.run(t, n, func(in *ec2.RunInstancesInput) { in.MinCount, in.MaxCount = aws.Int32(12), aws.Int32(12) })
	first := *w.run(t, n).InstanceId

	sizes, ids := w.pages(t, ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
	if diff := cmp.Diff([]int{5, 5, 3}, sizes); diff != "" {
		t.Errorf("pages of one reservation of 12 and one of 1 (-want +got):\n%s", diff)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 13 {
		t.Errorf("%d different instances, want 13", len(ids))
	}
	if sizes, _ := w.pages(t, ec2.DescribeInstancesInput{}); !slices.Equal(sizes, []int{13}) {
		t.Errorf("without MaxResults the pages are %v, want all in one", sizes)
	}
	for name, c := range map[string]struct {
		in   ec2.DescribeInstancesInput
		code string
	}{
		"over 1000":     {ec2.DescribeInstancesInput{MaxResults: aws.Int32(1001)}, "InvalidParameterValue"},
		"under 5":       {ec2.DescribeInstancesInput{MaxResults: aws.Int32(4)}, "InvalidParameterValue"},
		"with ids":      {ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), InstanceIds: []string{first}}, "InvalidParameterCombination"},
		"a wrong token": {ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), NextToken: aws.String("x")}, "InvalidNextToken"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.ec2.DescribeInstances(t.Context(), &c.in)
			wantCode(t, err, c.code, 400)
		})
	}
	other := must(w.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{MaxResults: aws.Int32(5)}))(t)
	_, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{NextToken: other.NextToken})
	wantCode(t, err, "InvalidNextToken", 400)
}

// A page is stable while instances that were already read go away.
func TestPagingWhileTerminating(t *testing.T) {
	w := newWorld(t, ec2sim.Options{Delays: &ec2sim.Delays{}})
	n := w.network(t)
	w.run(t, n, func(in *ec2.RunInstancesInput) { in.MinCount, in.MaxCount = aws.Int32(10), aws.Int32(10) })
	running := []types.Filter{{Name: aws.String("instance-state-name"), Values: []string{"running"}}}
	out := must(w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), Filters: running}))(t)
	must(w.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{*out.Reservations[0].Instances[0].InstanceId}}))(t)
	sizes, _ := w.pages(t, ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), Filters: running, NextToken: out.NextToken})
	if !slices.Equal(sizes, []int{5}) {
		t.Errorf("the second page has %v, want the other 5", sizes)
	}
}

// "Filtering using the API" (EC2 user guide, list and filter resources).
func TestFilters(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	tag := func(key, value string) func(*ec2.RunInstancesInput) {
		return func(in *ec2.RunInstancesInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: "instance", Tags: []types.Tag{{Key: &key, Value: &value}}}}
		}
	}
	a := *w.run(t, n, tag("role", "worker")).InstanceId
	b := *w.run(t, n, tag("role", "w*rker"), func(in *ec2.RunInstancesInput) { in.InstanceType = "c5.large" }).InstanceId
	c := *w.run(t, n, tag("Role", "worker")).InstanceId
	filter := func(pairs ...string) (filters []types.Filter) {
		for i := 0; i < len(pairs); i += 2 {
			filters = append(filters, types.Filter{Name: &pairs[i], Values: strings.Split(pairs[i+1], ",")})
		}
		return filters
	}
	nic := *w.instance(t, a).NetworkInterfaces[0].NetworkInterfaceId
	for name, test := range map[string]struct {
		filters []types.Filter
		want    []string
	}{
		"tag value":         {filter("tag:role", "worker"), []string{a}},
		"wildcard":          {filter("tag:role", "w*"), []string{a, b}},
		"escaped wildcard":  {filter("tag:role", `w\*rker`), []string{b}},
		"question mark":     {filter("tag:role", "w?rker"), []string{a, b}},
		"case":              {filter("tag-key", "Role"), []string{c}},
		"any of two values": {filter("instance-type", "c5.large,m5.large"), []string{a, b, c}},
		"both filters":      {filter("instance-type", "c5.large", "tag:role", "worker"), nil},
		"state":             {filter("instance-state-name", "running"), nil},
		"vpc":               {filter("vpc-id", n.vpc, "subnet-id", n.subnet), []string{a, b, c}},
		"group name":        {filter("instance.group-name", "nodes"), []string{a, b, c}},
		"interface":         {filter("network-interface.network-interface-id", nic), []string{a}},
		"attachment":        {filter("network-interface.attachment.instance-id", b), []string{b}},
		"interface's group": {filter("network-interface.group-id", n.group), []string{a, b, c}},
		"ids":               {filter("instance-id", a+","+b), []string{a, b}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := w.pages(t, ec2.DescribeInstancesInput{Filters: test.filters})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	many := strings.TrimSuffix(strings.Repeat("x,", 201), ",")
	for name, test := range map[string]struct {
		filters []types.Filter
		code    string
	}{
		"unknown":  {filter("colour", "blue"), "InvalidParameterValue"},
		"too many": {filter("instance-id", many), "FilterLimitExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: test.filters})
			wantCode(t, err, test.code, 400)
		})
	}
}

// "Error codes for the Amazon EC2 API": ids that do not exist or cannot.
func TestIDErrors(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	here := *w.run(t, n).InstanceId
	x := "0123456789abcdef0"
	ctx := t.Context()
	for code, err := range map[string]error{
		"InvalidInstanceID.NotFound":          second(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{here, "i-" + x, "i-" + x[:16] + "1"}})),
		"InvalidInstanceID.Malformed":         second(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"i-nonsense"}})),
		"InvalidVpcID.NotFound":               second(w.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{"vpc-" + x}})),
		"InvalidSubnetID.NotFound":            second(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-" + x}})),
		"InvalidGroup.NotFound":               second(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-" + x}})),
		"InvalidGroupId.Malformed":            second(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"nodes"}})),
		"InvalidVolume.NotFound":              second(w.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{"vol-" + x}})),
		"InvalidNetworkInterfaceID.NotFound":  second(w.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eni-" + x}})),
		"InvalidInternetGatewayID.NotFound":   second(w.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{InternetGatewayIds: []string{"igw-" + x}})),
		"NatGatewayNotFound":                  second(w.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{NatGatewayIds: []string{"nat-" + x}})),
		"InvalidRouteTableID.NotFound":        second(w.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{"rtb-" + x}})),
		"InvalidNetworkAclID.NotFound":        second(w.ec2.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{NetworkAclIds: []string{"acl-" + x}})),
		"InvalidAMIID.NotFound":               second(w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{"ami-" + x}})),
		"InvalidAllocationID.NotFound":        second(w.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{AllocationIds: []string{"eipalloc-" + x}})),
		"InvalidAddress.NotFound":             second(w.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{PublicIps: []string{"192.0.2.1"}})),
		"InvalidKeyPair.NotFound":             second(w.ec2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{KeyNames: []string{"none"}})),
		"InvalidPlacementGroup.Unknown":       second(w.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{GroupNames: []string{"none"}})),
		"InvalidSecurityGroupRuleId.NotFound": second(w.ec2.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: []string{"sgr-" + x}})),
	} {
		t.Run(code, func(t *testing.T) {
			problem := wantCode(t, err, code, 400)
			if code == "InvalidInstanceID.NotFound" && (!strings.Contains(problem.ErrorMessage(), "i-"+x+", i-"+x[:16]+"1") || strings.Contains(problem.ErrorMessage(), here)) {
				t.Errorf("%q must name both missing ids and not the other", problem.ErrorMessage())
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }
