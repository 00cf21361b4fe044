package vsphere

import (
	"fmt"

	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// wantedMachine is what an owner's objects together say about its machine.
type wantedMachine struct {
	owner *providers.Owner
	// spec is the machine's clone spec with its failure domain applied.
	spec infrav1.VirtualMachineCloneSpec
	// vm is the VSphereVM that CAPV made for it, nil where it was not given.
	vm *infrav1.VSphereVM
	// zone and domain are the failure domain's objects.
	zone   *infrav1.VSphereDeploymentZone
	domain *infrav1.VSphereFailureDomain
	// placement says why folder, pool, datastore and networks are not known.
	placement string
}

// resolve applies a failure domain as CAPV does
// (VimMachineService.generateOverrideFunc). CAPV's VSphereVM is a resolved
// copy of the same; it is used where the domain's objects were not given.
func resolve(owner *providers.Owner, machine *infrav1.VSphereMachine) *wantedMachine {
	w := &wantedMachine{owner: owner, vm: vmOf(owner, machine)}
	machine.Spec.VirtualMachineCloneSpec.DeepCopyInto(&w.spec)
	w.zone, w.domain = zoneOf(owner)
	switch {
	case w.zone != nil && w.domain != nil:
		applyDomain(&w.spec, w.zone, w.domain)
	case owner.Machine == nil || owner.Machine.Spec.FailureDomain == "":
	case w.vm != nil:
		w.vm.Spec.VirtualMachineCloneSpec.DeepCopyInto(&w.spec)
	default:
		w.placement = fmt.Sprintf("its failure domain %q has no VSphereDeploymentZone and VSphereFailureDomain among the objects given",
			owner.Machine.Spec.FailureDomain)
	}
	return w
}

// name is what the machine is called in vCenter: as CAPV's VSphereVM, else as the
// spec says.
func (w *wantedMachine) name() string {
	if w.vm != nil {
		return w.vm.Name
	}
	if machine, ok := w.owner.Infra.(*infrav1.VSphereMachine); ok {
		if name, err := nameOf(w.owner, machine); err == nil {
			return name
		}
	}
	if w.owner.Machine != nil {
		return w.owner.Machine.Name
	}
	return ""
}

// vmOf finds the VSphereVM that a machine owns.
func vmOf(owner *providers.Owner, machine *infrav1.VSphereMachine) *infrav1.VSphereVM {
	for _, o := range owner.Related {
		vm, ok := o.(*infrav1.VSphereVM)
		if !ok || vm.Namespace != machine.Namespace {
			continue
		}
		for _, ref := range vm.OwnerReferences {
			if ref.Kind == "VSphereMachine" && ref.Name == machine.Name && (ref.UID == "" || machine.UID == "" || ref.UID == machine.UID) {
				return vm
			}
		}
	}
	return nil
}

// zoneOf finds the deployment zone that the machine's failure domain names,
// and the failure domain behind it.
func zoneOf(owner *providers.Owner) (*infrav1.VSphereDeploymentZone, *infrav1.VSphereFailureDomain) {
	if owner.Machine == nil || owner.Machine.Spec.FailureDomain == "" {
		return nil, nil
	}
	var zone *infrav1.VSphereDeploymentZone
	for _, o := range owner.Related {
		if z, ok := o.(*infrav1.VSphereDeploymentZone); ok && z.Name == owner.Machine.Spec.FailureDomain {
			zone = z
		}
	}
	if zone == nil {
		return nil, nil
	}
	for _, o := range owner.Related {
		if d, ok := o.(*infrav1.VSphereFailureDomain); ok && d.Name == zone.Spec.FailureDomain {
			return zone, d
		}
	}
	return nil, nil
}

func applyDomain(spec *infrav1.VirtualMachineCloneSpec, zone *infrav1.VSphereDeploymentZone, domain *infrav1.VSphereFailureDomain) {
	topology := &domain.Spec.Topology
	placement := &zone.Spec.PlacementConstraint
	spec.Server = zone.Spec.Server
	spec.Datacenter = topology.Datacenter
	for _, o := range []struct {
		to   *string
		from string
	}{
		{&spec.Folder, placement.Folder},
		{&spec.ResourcePool, placement.ResourcePool},
		{&spec.Datastore, topology.Datastore},
	} {
		if o.from != "" {
			*o.to = o.from
		}
	}
	names := topology.Networks
	if len(topology.NetworkConfigurations) > 0 {
		names = nil
		for _, c := range topology.NetworkConfigurations {
			names = append(names, c.NetworkName)
		}
	}
	spec.Network.Devices = overrideNetworks(spec.Network.Devices, names)
	applyConfigurations(spec.Network.Devices, topology.NetworkConfigurations)
}

// overrideNetworks puts the domain's networks in the place of the spec's, one
// by one, and adds devices for those that the spec has no device for.
func overrideNetworks(devices []infrav1.NetworkDeviceSpec, names []string) []infrav1.NetworkDeviceSpec {
	for i, name := range names {
		if i == len(devices) {
			devices = append(devices, infrav1.NetworkDeviceSpec{})
		}
		if name != "" {
			devices[i].NetworkName = name
		}
	}
	return devices
}

// applyConfigurations carries over how each network gives addresses.
func applyConfigurations(devices []infrav1.NetworkDeviceSpec, configurations []infrav1.NetworkConfiguration) {
	for i, c := range configurations {
		if c.DHCP4 != nil {
			devices[i].DHCP4 = c.DHCP4
		}
		if c.DHCP6 != nil {
			devices[i].DHCP6 = c.DHCP6
		}
		if len(c.Nameservers) > 0 {
			devices[i].Nameservers = c.Nameservers
		}
		if len(c.SearchDomains) > 0 {
			devices[i].SearchDomains = c.SearchDomains
		}
		if c.DHCP4Overrides != nil {
			devices[i].DHCP4Overrides = c.DHCP4Overrides
		}
		if c.DHCP6Overrides != nil {
			devices[i].DHCP6Overrides = c.DHCP6Overrides
		}
		if len(c.AddressesFromPools) > 0 {
			devices[i].AddressesFromPools = c.AddressesFromPools
		}
	}
}
