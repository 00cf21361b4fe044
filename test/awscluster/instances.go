package awscluster

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// runInstances launches with one call an instance, in order, and reads them
// back when they run, for a launch answers before volumes are attached.
func (b *builder) runInstances(ctx context.Context, inputs []*ec2.RunInstancesInput) ([]types.Instance, error) {
	ids := make([]string, 0, len(inputs))
	for _, in := range inputs {
		out, err := b.EC2.RunInstances(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("run instance: %w", err)
		}
		ids = append(ids, aws.ToString(out.Instances[0].InstanceId))
	}
	found := make(map[string]types.Instance, len(ids))
	const batch = 100
	for start := 0; start < len(ids); start += batch {
		in := &ec2.DescribeInstancesInput{InstanceIds: ids[start:min(start+batch, len(ids))]}
		out, err := ec2.NewInstanceRunningWaiter(b.EC2, func(o *ec2.InstanceRunningWaiterOptions) {
			o.MinDelay, o.MaxDelay = b.poll, b.poll
		}).WaitForOutput(ctx, in, b.patience)
		if err != nil {
			return nil, fmt.Errorf("wait for instances to run: %w", err)
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				found[aws.ToString(i.InstanceId)] = i
			}
		}
	}
	instances := make([]types.Instance, 0, len(ids))
	for _, id := range ids {
		instances = append(instances, found[id])
	}
	return instances, nil
}

// runInput gives the call that CAPA makes for a machine.
func (b *builder) runInput(m *clusterv1.Machine, am *infrav1.AWSMachine) (*ec2.RunInstancesInput, error) {
	spec := &am.Spec
	subnet, err := b.machineSubnet(m, spec)
	if err != nil {
		return nil, err
	}
	groups := b.groups(infrav1.SecurityGroupNode, infrav1.SecurityGroupLB)
	if isControlPlane(m) {
		groups = append(groups, b.groups(infrav1.SecurityGroupControlPlane)...)
	}
	in := &ec2.RunInstancesInput{
		ImageId: spec.AMI.ID, InstanceType: types.InstanceType(spec.InstanceType),
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(b.bootstrap(m.Name)))),
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnet), Groups: groups, AssociatePublicIpAddress: spec.PublicIP,
		}},
		MetadataOptions:     metadataOptions(spec.InstanceMetadataOptions),
		BlockDeviceMappings: b.blockDevices(spec),
	}
	if key := b.keyName(spec); key != "" {
		in.KeyName = aws.String(key)
	}
	if spec.IAMInstanceProfile != "" {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: aws.String(spec.IAMInstanceProfile)}
	}
	if o := spec.SpotMarketOptions; o != nil {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{
			MarketType:  types.MarketTypeSpot,
			SpotOptions: &types.SpotMarketOptions{MaxPrice: o.MaxPrice, SpotInstanceType: types.SpotInstanceTypeOneTime, InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate},
		}
	}
	if spec.Tenancy != "" || spec.PlacementGroupName != "" {
		in.Placement = &types.Placement{Tenancy: types.Tenancy(spec.Tenancy)}
		if spec.PlacementGroupName != "" {
			in.Placement.GroupName = aws.String(spec.PlacementGroupName)
		}
	}
	tags := b.machineTags(m, am)
	for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface} {
		in.TagSpecifications = append(in.TagSpecifications, tagSpec(kind, tags)...)
	}
	return in, nil
}

// bootstrap is what a machine boots with.
func (b *builder) bootstrap(name string) string {
	out := "#cloud-config\nhostname: " + name + "\n"
	if b.userData != nil {
		out += b.userData(name)
	}
	return out
}

// machineTags are the tags of a machine's instance, volumes and interfaces.
func (b *builder) machineTags(m *clusterv1.Machine, am *infrav1.AWSMachine) infrav1.Tags {
	role := "node"
	if isControlPlane(m) {
		role = "control-plane"
	}
	return infrav1.Build(infrav1.BuildParams{
		ClusterName: b.Name,
		Lifecycle:   infrav1.ResourceLifecycleOwned,
		Name:        aws.String(am.Name),
		Role:        aws.String(role),
		Additional:  b.additionalTags(am),
	}.WithCloudProvider(b.Name).WithMachineName(m))
}

// additionalTags are the user's tags of a machine: the cluster's, overridden by
// the machine's own.
func (b *builder) additionalTags(am *infrav1.AWSMachine) infrav1.Tags {
	tags := infrav1.Tags{}
	tags.Merge(b.env.AWSCluster.Spec.AdditionalTags)
	tags.Merge(am.Spec.AdditionalTags)
	return tags
}

// machineSubnet finds the machine's subnet as CAPA does: named by id, else the
// first of the failure domain, else the first at all; private unless the
// machine is to have a public address.
func (b *builder) machineSubnet(m *clusterv1.Machine, spec *infrav1.AWSMachineSpec) (string, error) {
	all := b.env.AWSCluster.Spec.NetworkSpec.Subnets
	if spec.Subnet != nil {
		if spec.Subnet.ID == nil {
			return "", fmt.Errorf("AWSMachine %s: subnets by filter are not played here", m.Name)
		}
		return *spec.Subnet.ID, nil
	}
	side := all.FilterPrivate()
	if aws.ToBool(spec.PublicIP) {
		side = all.FilterPublic()
	}
	if m.Spec.FailureDomain != "" {
		side = side.FilterByZone(m.Spec.FailureDomain)
	}
	if len(side) == 0 {
		return "", fmt.Errorf("machine %s: no subnet in failure domain %q", m.Name, m.Spec.FailureDomain)
	}
	return side[0].GetResourceID(), nil
}

func (b *builder) blockDevices(spec *infrav1.AWSMachineSpec) []types.BlockDeviceMapping {
	var out []types.BlockDeviceMapping
	if spec.RootVolume != nil {
		out = append(out, blockDevice(b.rootDevices[aws.ToString(spec.AMI.ID)], spec.RootVolume))
	}
	for i := range spec.NonRootVolumes {
		out = append(out, blockDevice(spec.NonRootVolumes[i].DeviceName, &spec.NonRootVolumes[i]))
	}
	return out
}

func blockDevice(name string, v *infrav1.Volume) types.BlockDeviceMapping {
	ebs := &types.EbsBlockDevice{
		DeleteOnTermination: aws.Bool(true),
		VolumeSize:          aws.Int32(int32(v.Size)),
		Encrypted:           v.Encrypted,
		VolumeType:          types.VolumeType(v.Type),
		Throughput:          int32p(v.Throughput),
	}
	if v.IOPS != 0 {
		ebs.Iops = aws.Int32(int32(v.IOPS))
	}
	if v.EncryptionKey != "" {
		ebs.Encrypted, ebs.KmsKeyId = aws.Bool(true), aws.String(v.EncryptionKey)
	}
	return types.BlockDeviceMapping{DeviceName: aws.String(name), Ebs: ebs}
}

func metadataOptions(o *infrav1.InstanceMetadataOptions) *types.InstanceMetadataOptionsRequest {
	if o == nil {
		return nil
	}
	return &types.InstanceMetadataOptionsRequest{
		HttpEndpoint:            types.InstanceMetadataEndpointState(o.HTTPEndpoint),
		HttpProtocolIpv6:        types.InstanceMetadataProtocolState(o.HTTPProtocolIPv6),
		HttpPutResponseHopLimit: aws.Int32(int32(o.HTTPPutResponseHopLimit)),
		HttpTokens:              types.HttpTokensState(o.HTTPTokens),
		InstanceMetadataTags:    types.InstanceMetadataTagsState(o.InstanceMetadataTags),
	}
}

func isControlPlane(m *clusterv1.Machine) bool {
	_, ok := m.Labels[clusterv1.MachineControlPlaneLabel]
	return ok
}
