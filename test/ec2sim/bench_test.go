package ec2sim_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// seeded is a server with n instances on a /16 for each 60,000.
func seeded(tb testing.TB, n int) (*ec2sim.Server, *ec2.Client) {
	tb.Helper()
	s := ec2sim.New(ec2sim.Options{})
	tb.Cleanup(s.Close)
	client := ec2.NewFromConfig(once(s.Config(region)))
	ctx := tb.Context()
	spec := ec2sim.InstanceSpec{Count: n, InstanceType: "m5.large", Tags: func(n int) []ec2sim.Tag {
		return []ec2sim.Tag{{Key: "Name", Value: fmt.Sprint("node-", n)}, {Key: "sigs.k8s.io/cluster-api-provider-aws/cluster/c1", Value: "owned"}}
	}}
	fail := func(err error) {
		if err != nil {
			tb.Helper()
			tb.Fatal(err)
		}
	}
	var err error
	spec.ImageID, err = s.AddImage(s.DefaultScope(region), ec2sim.Image{Name: "base"})
	fail(err)
	for block := range n/60000 + 1 {
		cidr := fmt.Sprintf("10.%d.0.0/16", block)
		v, err := client.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: &cidr})
		fail(err)
		sub, err := client.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: v.Vpc.VpcId, CidrBlock: &cidr})
		fail(err)
		spec.SubnetIDs = append(spec.SubnetIDs, *sub.Subnet.SubnetId)
	}
	_, err = s.SeedInstances(s.DefaultScope(region), spec)
	fail(err)
	return s, client
}

// BenchmarkPage is one page of a thousand instances of ten thousand, without
// the SDK's own decoding.
func BenchmarkPage(b *testing.B) {
	s, _ := seeded(b, 10000)
	page := ec2sim.ServePage(b, s)
	b.ReportAllocs()
	for b.Loop() {
		if n := page(); n < 1_000_000 {
			b.Fatalf("a page of %d bytes", n)
		}
	}
}

func BenchmarkSeed(b *testing.B) {
	for b.Loop() {
		seeded(b, 10000)
	}
}

// TestSeedThousands: all seeded instances are described, in 10 pages.
func TestSeedThousands(t *testing.T) {
	s, client := seeded(t, 10000)
	s.ResetCalls()
	seen := map[string]bool{}
	pages := ec2.NewDescribeInstancesPaginator(client, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(1000), Filters: []types.Filter{
		{Name: aws.String("instance-state-name"), Values: []string{"running"}},
	}})
	for pages.HasMorePages() {
		page := must(pages.NextPage(t.Context()))(t)
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				seen[*i.InstanceId] = true
			}
		}
	}
	if len(seen) != 10000 || len(s.Calls()) != 10 {
		t.Errorf("%d instances in %d calls, want 10000 in 10", len(seen), len(s.Calls()))
	}
	if len(s.Mutations()) != 0 {
		t.Errorf("mutations %v", s.Mutations())
	}
}
