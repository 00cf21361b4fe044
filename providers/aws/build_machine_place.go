package aws

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// interfaces gives the launch its primary interface, or those that the user
// brought.
func (l *launching) interfaces(ctx context.Context, in *ec2.RunInstancesInput) error {
	groups, err := l.groups()
	if err != nil {
		return err
	}
	spec := &l.m.Spec
	if len(spec.NetworkInterfaces) > 0 {
		if err := l.groupInterfaces(ctx, groups); err != nil {
			return err
		}
		for index, id := range spec.NetworkInterfaces {
			in.NetworkInterfaces = append(in.NetworkInterfaces, ec2types.InstanceNetworkInterfaceSpecification{
				NetworkInterfaceId: ptr(id), DeviceIndex: ptr(int32(index)),
			})
		}
	} else {
		subnet, ipv6, err := l.subnet()
		if err != nil {
			return err
		}
		eni := ec2types.InstanceNetworkInterfaceSpecification{
			DeviceIndex: ptr[int32](0), SubnetId: &subnet, Groups: groups, AssociatePublicIpAddress: spec.PublicIP,
		}
		if ipv6 {
			// A target group of IPv6 takes instances that have a primary address of it.
			eni.PrimaryIpv6, eni.Ipv6AddressCount = ptr(true), ptr[int32](1)
		}
		in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{eni}
	}
	if spec.NetworkInterfaceType != "" {
		in.NetworkInterfaces[0].InterfaceType = ptr(string(spec.NetworkInterfaceType))
	}
	return nil
}

// groups are the planned ones, all of which must be there by now.
func (l *launching) groups() ([]string, error) {
	v := l.Want.Fields.Get(pathSecurityGroups).Value
	if v.Provisional() {
		return nil, providers.ErrPending
	}
	return v.Elements(), nil
}

// groupInterfaces gives the cluster's groups to the interfaces that the user
// brought, before they are taken, as nothing may be left to do after a launch
// whose answer is lost.
func (l *launching) groupInterfaces(ctx context.Context, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	for _, id := range l.m.Spec.NetworkInterfaces {
		_, err := l.ec2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &id, Groups: groups})
		if err != nil {
			return launchError(err, "set the security groups of "+id+", which spec.networkInterfaces names")
		}
	}
	return nil
}

// subnet gives where the instance goes, and whether it gets a primary IPv6
// address there: the planned subnet, else CAPA's choice, which is the first one
// of the AWSCluster in the Machine's failure domain (in any where it names
// none): a private one, or a public one for spec.publicIP.
func (l *launching) subnet() (id string, ipv6 bool, err error) {
	if f, planned := l.Want.Fields.Lookup(pathSubnetID); planned {
		id, err = l.plannedSubnet(f)
	} else {
		id, err = l.chosenSubnet()
	}
	if err != nil {
		return "", false, err
	}
	ipv6, err = l.primaryIPv6(id)
	return id, ipv6, err
}

// plannedSubnet prefers a subnet of the AWSCluster where filters leave a choice.
func (l *launching) plannedSubnet(f providers.Field) (string, error) {
	ids := f.Value.Elements()
	if !f.Value.IsSet() {
		ids = []string{f.Value.Text()}
	}
	if f.Value.Provisional() {
		return "", providers.ErrPending
	}
	if len(ids) == 0 {
		return "", refused("spec.subnet allows no subnet")
	}
	if l.cluster != nil {
		own := l.cluster.Spec.NetworkSpec.Subnets
		if i := slices.IndexFunc(ids, func(id string) bool { return own.FindByID(id) != nil }); i >= 0 {
			return ids[i], nil
		}
	}
	return ids[0], nil
}

func (l *launching) chosenSubnet() (string, error) {
	if l.cluster == nil {
		return "", refused("the AWSCluster of %s is not known, and spec.subnet names no subnet", l.Owner.Ref)
	}
	subnets, side := l.cluster.Spec.NetworkSpec.Subnets.FilterPrivate(), "private"
	if deref(l.m.Spec.PublicIP) {
		subnets, side = l.cluster.Spec.NetworkSpec.Subnets.FilterPublic(), "public"
	}
	subnets = subnets.FilterNonCni()
	where := ""
	if machine := l.Owner.Machine; machine != nil && machine.Spec.FailureDomain != "" {
		subnets = subnets.FilterByZone(machine.Spec.FailureDomain)
		where = " in " + machine.Spec.FailureDomain + ", the Machine's failureDomain"
	}
	if len(subnets) == 0 {
		return "", refused("the AWSCluster has no %s subnet%s: add one, or name one in spec.subnet", side, where)
	}
	if id := subnets[0].GetResourceID(); isSubnetID(id) {
		return id, nil
	}
	return "", providers.ErrPending
}

// primaryIPv6 follows CAPA: in a VPC with IPv6 an instance gets one where its
// subnet has a block of it, unless the spec says otherwise.
func (l *launching) primaryIPv6(subnet string) (bool, error) {
	asked := deref(l.m.Spec.AssignPrimaryIPv6)
	enabled := l.cluster != nil && l.cluster.Spec.NetworkSpec.VPC.IsIPv6Enabled()
	has := false
	if enabled {
		s := l.cluster.Spec.NetworkSpec.Subnets.FindByID(subnet)
		has = s != nil && s.IsIPv6
	}
	switch {
	case asked == infrav1.PrimaryIPv6AssignmentStateDisabled:
		return false, nil
	case asked == infrav1.PrimaryIPv6AssignmentStateEnabled && !has:
		return false, refused("spec.assignPrimaryIPv6 is enabled, and %s is no subnet of the AWSCluster with an IPv6 block", subnet)
	default:
		return has, nil
	}
}
