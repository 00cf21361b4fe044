package awscluster

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// bastionType is the instance type of a bastion whose spec names none.
const bastionType = "t3.micro"

// bastion launches the bastion in the first public subnet, with no more than
// its own group, and records it in the status.
func (b *builder) bastion(ctx context.Context) error {
	spec := &b.env.AWSCluster.Spec
	if !spec.Bastion.Enabled {
		return nil
	}
	name := b.Name + "-bastion"
	tags := b.clusterTags(name, infrav1.BastionRoleTagValue, nil)
	subnet := spec.NetworkSpec.Subnets.FilterPublic()[0]
	kind := spec.Bastion.InstanceType
	if kind == "" {
		kind = bastionType
	}
	in := &ec2.RunInstancesInput{
		ImageId: aws.String(spec.Bastion.AMI), InstanceType: types.InstanceType(kind),
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), KeyName: aws.String(b.keyName(&infrav1.AWSMachineSpec{})),
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))),
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnet.GetResourceID()), Groups: b.groups(infrav1.SecurityGroupBastion),
		}},
	}
	for _, of := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface} {
		in.TagSpecifications = append(in.TagSpecifications, tagSpec(of, tags)...)
	}
	made, err := b.runInstances(ctx, []*ec2.RunInstancesInput{in})
	if err != nil {
		return fmt.Errorf("bastion: %w", err)
	}
	i := &made[0]
	b.env.AWSCluster.Status.Bastion = &infrav1.Instance{
		ID: aws.ToString(i.InstanceId), State: infrav1.InstanceStateRunning, Type: kind, SubnetID: subnet.GetResourceID(),
		ImageID: spec.Bastion.AMI, SSHKeyName: in.KeyName, SecurityGroupIDs: in.NetworkInterfaces[0].Groups, Tags: tags,
		PrivateIP: i.PrivateIpAddress, PublicIP: i.PublicIpAddress, AvailabilityZone: subnet.AvailabilityZone,
	}
	return nil
}
