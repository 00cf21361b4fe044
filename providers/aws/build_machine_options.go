package aws

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// market follows CAPA: a spot instance ends when it is interrupted and is asked
// for once, as one machine is one instance.
func (l *launching) market(in *ec2.RunInstancesInput) error {
	spec := &l.m.Spec
	kind := spec.MarketType
	if kind == "" && spec.SpotMarketOptions != nil {
		kind = infrav1.MarketTypeSpot
	}
	switch {
	case kind == infrav1.MarketTypeCapacityBlock && spec.SpotMarketOptions != nil:
		return refused("spec.marketType is CapacityBlock, and spec.spotMarketOptions asks for spot: leave one out")
	case kind == infrav1.MarketTypeSpot && spec.CapacityReservationID != nil:
		return refused("a spot instance uses no capacity reservation: leave out spec.capacityReservationId, or spot")
	case kind == infrav1.MarketTypeCapacityBlock && spec.CapacityReservationID == nil:
		return refused("spec.marketType is CapacityBlock: name the block in spec.capacityReservationId")
	case kind == infrav1.MarketTypeCapacityBlock:
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeCapacityBlock}
	case kind == infrav1.MarketTypeSpot:
		spot := &ec2types.SpotMarketOptions{
			InstanceInterruptionBehavior: ec2types.InstanceInterruptionBehaviorTerminate,
			SpotInstanceType:             ec2types.SpotInstanceTypeOneTime,
		}
		if o := spec.SpotMarketOptions; o != nil && deref(o.MaxPrice) != "" {
			spot.MaxPrice = o.MaxPrice
		}
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeSpot, SpotOptions: spot}
	}
	return nil
}

func (l *launching) reservation(in *ec2.RunInstancesInput) {
	id, preference := l.m.Spec.CapacityReservationID, l.m.Spec.CapacityReservationPreference
	if id == nil && preference == "" {
		return
	}
	in.CapacityReservationSpecification = &ec2types.CapacityReservationSpecification{
		CapacityReservationPreference: map[infrav1.CapacityReservationPreference]ec2types.CapacityReservationPreference{
			infrav1.CapacityReservationPreferenceNone: ec2types.CapacityReservationPreferenceNone,
			infrav1.CapacityReservationPreferenceOnly: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
			infrav1.CapacityReservationPreferenceOpen: ec2types.CapacityReservationPreferenceOpen,
		}[preference],
	}
	if id != nil {
		in.CapacityReservationSpecification.CapacityReservationTarget = &ec2types.CapacityReservationTarget{CapacityReservationId: id}
	}
}

// placement is a dedicated host's where one is named, as in CAPA, else the
// tenancy and the group.
func (l *launching) placement() *ec2types.Placement {
	spec := &l.m.Spec
	switch {
	case spec.HostID != nil:
		return &ec2types.Placement{
			HostId: spec.HostID, Affinity: ptr(first(deref(spec.HostAffinity), "default")),
			Tenancy: ec2types.Tenancy(first(spec.Tenancy, tenancyHost)),
		}
	case spec.Tenancy == "" && spec.PlacementGroupName == "":
		return nil
	}
	out := &ec2types.Placement{Tenancy: ec2types.Tenancy(spec.Tenancy)}
	if spec.PlacementGroupName != "" {
		out.GroupName = &spec.PlacementGroupName
	}
	if spec.PlacementGroupPartition != 0 {
		out.PartitionNumber = ptr(int32(spec.PlacementGroupPartition)) //nolint:gosec // 1 to 7, as the CRD demands
	}
	return out
}

func (l *launching) cpu() *ec2types.CpuOptionsRequest {
	var out ec2types.CpuOptionsRequest
	switch l.m.Spec.CPUOptions.ConfidentialCompute {
	case infrav1.AWSConfidentialComputePolicySEVSNP:
		out.AmdSevSnp = ec2types.AmdSevSnpSpecificationEnabled
	case infrav1.AWSConfidentialComputePolicyDisabled:
		out.AmdSevSnp = ec2types.AmdSevSnpSpecificationDisabled
	}
	switch l.m.Spec.CPUOptions.NestedVirtualization {
	case infrav1.NestedVirtualizationPolicyEnabled:
		out.NestedVirtualization = ec2types.NestedVirtualizationSpecificationEnabled
	case infrav1.NestedVirtualizationPolicyDisabled:
		out.NestedVirtualization = ec2types.NestedVirtualizationSpecificationDisabled
	}
	if out == (ec2types.CpuOptionsRequest{}) {
		return nil
	}
	return &out
}
