package aws

import (
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Values of an instance's settings.
const (
	tenancyHost     = "host"
	affinityHost    = "host"
	settingEnabled  = "enabled"
	settingDisabled = "disabled"
)

func (i *instanceWants) metadata() {
	o := i.m.Spec.InstanceMetadataOptions
	if o == nil {
		return
	}
	wantString(i.r, pathHTTPTokens, o.HTTPTokens, providers.InPlace)
	wantString(i.r, pathHTTPEndpoint, o.HTTPEndpoint, providers.InPlace)
	wantString(i.r, pathMetadataTags, o.InstanceMetadataTags, providers.InPlace)
	if o.HTTPPutResponseHopLimit > 0 {
		want(i.r, pathHopLimit, providers.Int(o.HTTPPutResponseHopLimit), providers.InPlace)
	}
}

// keyAndMarket leaves the cluster's key name alone: CAPA takes it from there
// when it creates an instance, and a later change of it concerns later
// machines.
func (i *instanceWants) keyAndMarket() {
	spec := &i.m.Spec
	wantString(i.r, pathKeyName, deref(spec.SSHKeyName), providers.Immutable)
	switch {
	case spec.MarketType == infrav1.MarketTypeSpot, spec.MarketType == "" && spec.SpotMarketOptions != nil:
		want(i.r, pathSpot, providers.Bool(true), providers.Immutable)
	case spec.MarketType == infrav1.MarketTypeOnDemand:
		want(i.r, pathSpot, providers.Bool(false), providers.Immutable)
	}
	wantString(i.r, pathCapacityReservation, deref(spec.CapacityReservationID), providers.Immutable)
}

// placement follows CAPA, which puts tenancy, host and affinity in place of
// the placement group when it targets a dedicated host.
func (i *instanceWants) placement() {
	spec := &i.m.Spec
	if spec.HostID == nil && spec.DynamicHostAllocation == nil {
		wantString(i.r, pathTenancy, spec.Tenancy, providers.Immutable)
		wantString(i.r, pathPlacementGroup, spec.PlacementGroupName, providers.Immutable)
		if spec.PlacementGroupName != "" && spec.PlacementGroupPartition > 0 {
			want(i.r, pathPlacementPartition, providers.Int(spec.PlacementGroupPartition), providers.Immutable)
		}
		return
	}
	wantString(i.r, pathTenancy, first(spec.Tenancy, tenancyHost), providers.Immutable)
	host := deref(spec.HostID)
	if s := i.m.Status.DedicatedHost; spec.DynamicHostAllocation != nil && s != nil {
		host = deref(s.ID)
	}
	// Without affinity EC2 may start the instance on any host again.
	if spec.DynamicHostAllocation != nil || deref(spec.HostAffinity) == affinityHost {
		wantString(i.r, pathHostID, host, providers.Immutable)
	}
}

// cpu wants what is switched on. EC2 leaves a feature out of its answer where
// the instance type lacks it, so "disabled" is compared only where it shows.
func (i *instanceWants) cpu() {
	setting := func(path string, on, off bool) {
		switch {
		case on:
			want(i.r, path, providers.String(settingEnabled), providers.Immutable)
		case off && textOf(i.seen, path) != "":
			want(i.r, path, providers.String(settingDisabled), providers.Immutable)
		}
	}
	o := i.m.Spec.CPUOptions
	setting(pathAMDSEVSNP, o.ConfidentialCompute == infrav1.AWSConfidentialComputePolicySEVSNP,
		o.ConfidentialCompute == infrav1.AWSConfidentialComputePolicyDisabled)
	setting(pathNestedVirtualization, o.NestedVirtualization == infrav1.NestedVirtualizationPolicyEnabled,
		o.NestedVirtualization == infrav1.NestedVirtualizationPolicyDisabled)
}

// unmodelled reports set fields that nothing is read of, so that they are not
// taken for compared. A field that holds what the API server fills in says
// nothing of a user. Whoever builds sets them, or refuses to.
func (i *instanceWants) unmodelled() {
	if i.cluster.plan {
		return
	}
	spec := &i.m.Spec
	var fields []string
	note := func(field string, set bool) {
		if set {
			fields = append(fields, "spec."+field)
		}
	}
	note("assignPrimaryIPv6", spec.AssignPrimaryIPv6 != nil)
	note("capacityReservationPreference", spec.CapacityReservationPreference != "")
	note("elasticIpPool", spec.ElasticIPPool != nil)
	o := spec.InstanceMetadataOptions
	note("instanceMetadataOptions.httpProtocolIpv6", o != nil && o.HTTPProtocolIPv6 == infrav1.InstanceMetadataEndpointStateEnabled)
	note("marketType", spec.MarketType == infrav1.MarketTypeCapacityBlock)
	note("networkInterfaceType", spec.NetworkInterfaceType != "")
	note("privateDnsName", spec.PrivateDNSName != nil)
	if len(fields) > 0 {
		names := strings.Join(fields, ", ")
		i.unchecked(providers.KindInstance, names, "not modelled: "+names)
	}
}
