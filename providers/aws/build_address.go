package aws

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// address gives the Elastic IP of a NAT gateway.
func (b *building) address(ctx context.Context, c *providers.Creation) (string, error) {
	v := b.view()
	tags := v.clusterTags(v.name+"-eip-"+infrav1.CommonRoleTagValue, infrav1.CommonRoleTagValue, nil)
	maps.DeleteFunc(tags, func(key, _ string) bool { return foreignTag(v.name, key) })
	tags[ownerTag], tags[madeForTag] = b.uid(), c.Token
	return b.makeOnce(ctx, func() (string, error) {
		found, err := b.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{Filters: where("tag:"+ownerTag, b.uid(), "tag:"+madeForTag, c.Token)})
		if err != nil {
			return "", buildError(err, "look for an Elastic IP")
		}
		var ids []string
		for i := range found.Addresses {
			ids = append(ids, deref(found.Addresses[i].AllocationId))
		}
		return lowest(ids), nil
	}, func() (string, error) {
		out, err := b.ec2.AllocateAddress(ctx, &ec2.AllocateAddressInput{
			Domain: ec2types.DomainTypeVpc, TagSpecifications: tagSpec(ec2types.ResourceTypeElasticIp, tags),
		}, once)
		if err != nil {
			return "", buildError(err, "allocate an Elastic IP for the NAT gateway")
		}
		return deref(out.AllocationId), nil
	})
}

// markAddress leaves an address alone that is not the cluster's: somebody may
// have given the gateway one of his.
func (b *building) markAddress(ctx context.Context, id string) error {
	out, err := b.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{AllocationIds: []string{id}})
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return buildError(err, "read "+id)
	}
	for i := range out.Addresses {
		tags := ec2TagMap(out.Addresses[i].Tags)
		if !b.owned(tags) || tags[ownerTag] == b.uid() {
			continue
		}
		_, err := b.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: ptr(ownerTag), Value: ptr(b.uid())}}})
		if err != nil {
			return buildError(err, "tag "+id)
		}
	}
	return nil
}

// releaseAddresses lets the owner's Elastic IPs go. One that something still
// uses keeps the VPC.
func (b *building) releaseAddresses(ctx context.Context) error {
	out, err := b.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{Filters: where("tag:"+ownerTag, b.uid())})
	if err != nil {
		return buildError(err, "look for Elastic IPs")
	}
	for i := range out.Addresses {
		a := &out.Addresses[i]
		if err := b.freeAddress(ctx, a); err != nil {
			return err
		}
		_, err := b.ec2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: a.AllocationId})
		if err != nil && !isNotFound(err) {
			return buildError(err, "release "+deref(a.AllocationId))
		}
	}
	return nil
}

// freeAddress takes an address from an interface that is gone. One that is there
// keeps it.
func (b *building) freeAddress(ctx context.Context, a *ec2types.Address) error {
	if deref(a.AssociationId) == "" {
		return nil
	}
	at := deref(a.NetworkInterfaceId)
	out, err := b.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: where("network-interface-id", at)})
	if err != nil {
		return buildError(err, "look for "+at)
	}
	if len(out.NetworkInterfaces) > 0 || at == "" {
		return fmt.Errorf("release %s: %s still uses it", deref(a.AllocationId), first(deref(a.InstanceId), at, deref(a.AssociationId)))
	}
	_, err = b.ec2.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: a.AssociationId})
	if err != nil && !isNotFound(err) {
		return buildError(err, "take "+deref(a.AllocationId)+" from "+at)
	}
	return nil
}
