package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/vmware/govmomi/vim25/mo"
	vimtypes "github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/management"
)

// operator is somebody with keys to the clouds, and with no idea that Cluster
// API is there.
type operator struct {
	cloud   *management.AWSCloud
	aws     awscluster.Clients
	vcenter *management.VSphereCloud
}

// untag takes a tag from an instance.
func (o *operator) untag(ctx context.Context, instance, key string) error {
	return o.cloud.Tag(ctx, instance, key, "")
}

// tag reads a tag of an instance; empty is none.
func (o *operator) tag(ctx context.Context, instance, key string) (string, error) {
	i, err := o.cloud.Instance(ctx, instance)
	if err != nil {
		return "", err
	}
	for _, t := range i.Tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value), nil
		}
	}
	return "", nil
}

// ssh is the door that is opened.
func ssh() []types.IpPermission {
	return []types.IpPermission{{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22),
		IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}},
	}}
}

// open lets the whole world reach SSH.
func (o *operator) open(ctx context.Context, group string) error {
	_, err := o.aws.EC2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: ssh()})
	return err
}

// isOpen tells whether the door is.
func (o *operator) isOpen(ctx context.Context, group string) (bool, error) {
	out, err := o.aws.EC2.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{
		Filters: []types.Filter{{Name: aws.String("group-id"), Values: []string{group}}},
	})
	if err != nil {
		return false, fmt.Errorf("read the rules of %s: %w", group, err)
	}
	for _, r := range out.SecurityGroupRules {
		if !aws.ToBool(r.IsEgress) && aws.ToString(r.CidrIpv4) == "0.0.0.0/0" && aws.ToInt32(r.FromPort) <= 22 && aws.ToInt32(r.ToPort) >= 22 {
			return true, nil
		}
	}
	return false, nil
}

// resize makes an instance another type, which takes a stop.
func (o *operator) resize(ctx context.Context, instance, to string) error {
	ids := []string{instance}
	if _, err := o.aws.EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids}); err != nil {
		return fmt.Errorf("stop %s: %w", instance, err)
	}
	if err := ec2.NewInstanceStoppedWaiter(o.aws.EC2, func(w *ec2.InstanceStoppedWaiterOptions) {
		w.MinDelay, w.MaxDelay = pollTime, pollTime
	}).Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, time.Minute); err != nil {
		return fmt.Errorf("wait for the stop of %s: %w", instance, err)
	}
	if _, err := o.aws.EC2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{
		InstanceId: &instance, InstanceType: &types.AttributeValue{Value: &to},
	}); err != nil {
		return fmt.Errorf("change the type of %s: %w", instance, err)
	}
	if _, err := o.aws.EC2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids}); err != nil {
		return fmt.Errorf("start %s: %w", instance, err)
	}
	return nil
}

// terminate ends an instance.
func (o *operator) terminate(ctx context.Context, instance string) error {
	_, err := o.aws.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{instance}})
	return err
}

// shrink gives a virtual machine less memory, which takes a stop.
func (o *operator) shrink(ctx context.Context, uuid string, mib int64) error {
	vm, err := o.vcenter.VirtualMachine(ctx, uuid)
	if err != nil {
		return err
	}
	if vm == nil {
		return fmt.Errorf("shrink %s: no such virtual machine", uuid)
	}
	if err := o.vcenter.Power(ctx, uuid, false); err != nil {
		return err
	}
	task, err := vm.Reconfigure(ctx, vimtypes.VirtualMachineConfigSpec{MemoryMB: mib})
	if err == nil {
		err = task.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("change the memory of %s: %w", uuid, err)
	}
	return o.vcenter.Power(ctx, uuid, true)
}

// memory reads how much a virtual machine has.
func (o *operator) memory(ctx context.Context, uuid string) (int32, error) {
	vm, err := o.vcenter.VirtualMachine(ctx, uuid)
	if err != nil {
		return 0, err
	}
	if vm == nil {
		return 0, fmt.Errorf("read the memory of %s: no such virtual machine", uuid)
	}
	var props mo.VirtualMachine
	if err := vm.Properties(ctx, vm.Reference(), []string{"config.hardware.memoryMB"}, &props); err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", uuid, err)
	}
	return props.Config.Hardware.MemoryMB, nil
}
