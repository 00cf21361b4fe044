package aws

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/providers"
)

// detailsAtOnce bounds the single reads that run at the same time.
const detailsAtOnce = 4

// readVPCAttributes reads the DNS attributes of the clusters' VPCs. EC2 gives
// one attribute of one VPC in each call (DescribeVpcAttribute).
func (o *observation) readVPCAttributes(ctx context.Context) {
	if o.failed(providers.KindVPC) {
		o.cover("VPC attributes", providers.ErrNotRead, partDNSSupport, partDNSHostnames)
		return
	}
	o.cover("", nil, partDNSSupport, partDNSHostnames)
	var g errgroup.Group
	g.SetLimit(detailsAtOnce)
	read := 0
	for _, vpc := range o.seenVPCs {
		if !o.interest.vpcs[vpc.ID.Name] {
			continue
		}
		if read++; read > mostVPCs {
			o.cover("VPC attributes", fmt.Errorf("%w: %d", errManyVPCs, mostVPCs), partDNSSupport, partDNSHostnames)
			break
		}
		g.Go(func() error { o.readDNS(ctx, vpc); return nil })
	}
	_ = g.Wait() // failures are in coverage
}

func (o *observation) readDNS(ctx context.Context, vpc *providers.Resource) {
	read := func(attribute ec2types.VpcAttributeName) (*ec2.DescribeVpcAttributeOutput, error) {
		return o.ec2.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &vpc.ID.Name, Attribute: attribute})
	}
	what := "attributes of " + vpc.ID.Name
	support, err := read(ec2types.VpcAttributeNameEnableDnsSupport)
	switch {
	case isNotFound(err): // deleted since it was listed
		vpc.Unknown = "deleted while it was being read"
		return
	case err != nil:
		o.cover(what, err, partDNSSupport)
	case support.EnableDnsSupport != nil:
		o.truth(vpc, "/enableDnsSupport", support.EnableDnsSupport.Value)
	}
	names, err := read(ec2types.VpcAttributeNameEnableDnsHostnames)
	switch {
	case err != nil:
		o.cover(what, err, partDNSHostnames)
	case names.EnableDnsHostnames != nil:
		o.truth(vpc, "/enableDnsHostnames", names.EnableDnsHostnames.Value)
	}
}
