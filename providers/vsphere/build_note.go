package vsphere

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Note writes the status as CAPV does: provider id by BIOS UUID, addresses,
// networks, initialization.provisioned, conditions of both forms.
func (p *Provider) Note(owner *providers.Owner, snap *providers.Snapshot, progress providers.Progress) string {
	switch infra := owner.Infra.(type) {
	case *infrav1.VSphereMachine:
		return p.noteMachine(owner, infra, snap, &progress)
	case *infrav1.VSphereCluster:
		return p.noteCluster(owner, infra, snap, &progress)
	default:
		return unknownOwner(owner).Error()
	}
}

func (p *Provider) noteMachine(owner *providers.Owner, machine *infrav1.VSphereMachine, snap *providers.Snapshot, progress *providers.Progress) string {
	w := resolve(owner, machine)
	var seen *providers.Resource
	read := snap != nil && readInFull(snap) == nil
	if snap != nil && machine.Spec.ProviderID != "" {
		seen = w.identify(machine, snap, p.index.get(snap)).seen
	}
	provisioned := progress.WasReady || ptr.Deref(machine.Status.Initialization.Provisioned, false)
	if seen != nil && seen.Unknown == "" {
		if bios := seen.Fields.Get("/biosUuid").Value.Text(); bios != "" && !provisioned {
			machine.Spec.ProviderID = providerID(bios)
		}
		noteNetwork(machine, w.name(), seen)
	}
	var s state
	var waiting string
	switch {
	case progress.Deleting:
		s, waiting = deleting(progress)
	case provisioned:
		s, waiting = p.keeps(machine, seen, read)
	default:
		s, waiting = becoming(owner, machine, seen, progress)
	}
	if (progress.WasReady || s.status == metav1.ConditionTrue) && !progress.Deleting {
		machine.Status.Initialization.Provisioned = ptr.To(true)
	}
	now := p.now()
	condition(machine, infrav1.VSphereMachineVirtualMachineProvisionedCondition, infrav1.VMProvisionedV1Beta1Condition, s, now)
	ready(machine, now, infrav1.VSphereMachineVirtualMachineProvisionedCondition)
	return waiting
}

func deleting(progress *providers.Progress) (state, string) {
	if progress.Failed != nil {
		text := explained(progress.Failed)
		return bad(infrav1.VSphereMachineVirtualMachineDeletingReason, clusterv1.DeletionFailedV1Beta1Reason, clusterv1.ConditionSeverityWarning, text), text
	}
	return bad(infrav1.VSphereMachineVirtualMachineDeletingReason, clusterv1.DeletingV1Beta1Reason, clusterv1.ConditionSeverityInfo, ""),
		"its virtual machine to be powered off and destroyed"
}

// keeps says how a machine is that has been ready: it stays provisioned, by
// contract, and its conditions tell what has become of it. What could not be read
// changes nothing.
func (p *Provider) keeps(machine *infrav1.VSphereMachine, seen *providers.Resource, read bool) (state, string) {
	switch {
	case seen != nil && seen.Unknown != "":
		return state{status: metav1.ConditionUnknown, reason: infrav1.VSphereMachineVirtualMachineNotProvisionedReason, message: oneLine(seen.Unknown)},
			"vCenter to tell the state of its virtual machine: " + oneLine(seen.Unknown)
	case seen == nil && read:
		text := fmt.Sprintf("vCenter shows no virtual machine with the UUID of %s", machine.Spec.ProviderID)
		return bad(infrav1.VSphereVMVirtualMachineNotFoundByBIOSUUIDReason, infrav1.NotFoundByBIOSUUIDV1Beta1Reason, clusterv1.ConditionSeverityWarning, text), text
	case seen == nil:
		c := meta.FindStatusCondition(machine.Status.Conditions, infrav1.VSphereMachineVirtualMachineProvisionedCondition)
		if c == nil {
			return good(infrav1.VSphereMachineVirtualMachineProvisionedReason), ""
		}
		return state{status: c.Status, reason: c.Reason, message: c.Message, severity: clusterv1.ConditionSeverityWarning}, ""
	case !isOn(seen):
		return bad(infrav1.VSphereVMVirtualMachinePoweringOnReason, infrav1.PoweringOnV1Beta1Reason, clusterv1.ConditionSeverityWarning,
			"the virtual machine is "+seen.Fields.Get(powerPath).Value.Text()), "its virtual machine to be powered on"
	default:
		return good(infrav1.VSphereMachineVirtualMachineProvisionedReason), ""
	}
}

func isOn(r *providers.Resource) bool {
	return r.Fields.Get(powerPath).Value.Text() == string(infrav1.VirtualMachinePowerStatePoweredOn)
}

// becoming says how far a machine is that has not been ready yet.
func becoming(owner *providers.Owner, machine *infrav1.VSphereMachine, seen *providers.Resource, progress *providers.Progress) (state, string) {
	info := func(reason, old, waiting string) (state, string) {
		return bad(reason, old, clusterv1.ConditionSeverityInfo, ""), waiting
	}
	switch {
	case progress.Failed != nil:
		text := explained(progress.Failed)
		return bad(infrav1.VSphereMachineVirtualMachineNotProvisionedReason, infrav1.CloningFailedV1Beta1Reason, clusterv1.ConditionSeverityWarning, text), text
	case machine.Spec.ProviderID == "" && awaits(owner) != nil:
		a := awaits(owner)
		return info(a.reason, a.old, a.message)
	case seen == nil:
		return info(infrav1.VSphereVMVirtualMachineWaitingForCloneReason, infrav1.CloningV1Beta1Reason, "its virtual machine to be cloned")
	case seen.Unknown != "":
		return state{status: metav1.ConditionUnknown, reason: infrav1.VSphereMachineVirtualMachineNotProvisionedReason, message: oneLine(seen.Unknown)},
			"vCenter to tell the state of its virtual machine: " + oneLine(seen.Unknown)
	case !isOn(seen):
		return info(infrav1.VSphereVMVirtualMachinePoweringOnReason, infrav1.PoweringOnV1Beta1Reason, "its virtual machine to be set up and powered on")
	case len(machine.Status.Addresses) == 0:
		return info(infrav1.VSphereVMVirtualMachineWaitingForIPAllocationReason, infrav1.WaitingForIPAllocationV1Beta1Reason,
			"its guest to report an IP address: the template needs VMware Tools (open-vm-tools), and the network DHCP unless ipAddrs are given")
	case len(progress.Open) > 0:
		ids := make([]string, 0, len(progress.Open))
		for id, why := range progress.Open {
			ids = append(ids, cmp.Or(why, id.String()))
		}
		return info(infrav1.VSphereMachineVirtualMachineNotProvisionedReason, infrav1.CloningV1Beta1Reason, "its virtual machine to be as its spec says: "+oneLine(slices.Min(ids)))
	default:
		return good(infrav1.VSphereMachineVirtualMachineProvisionedReason), ""
	}
}

// awaits gives what must be there before a machine is cloned, nil if all is.
func awaits(owner *providers.Owner) *state {
	switch {
	case !ptr.Deref(owner.Cluster.Status.Initialization.InfrastructureProvisioned, false):
		return &state{
			reason: infrav1.VSphereMachineVirtualMachineWaitingForClusterInfrastructureReadyReason, old: infrav1.WaitingForClusterInfrastructureV1Beta1Reason,
			message: "the infrastructure of its Cluster to be ready",
		}
	case owner.Machine != nil && owner.Machine.Spec.Bootstrap.DataSecretName != nil:
		return nil
	case !owner.ControlPlane && !meta.IsStatusConditionTrue(owner.Cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition):
		return &state{
			reason: infrav1.VSphereMachineVirtualMachineWaitingForControlPlaneInitializedReason, old: clusterv1.WaitingForControlPlaneAvailableV1Beta1Reason,
			message: "the control plane of its Cluster to be initialised",
		}
	default:
		return &state{
			reason: infrav1.VSphereMachineVirtualMachineWaitingForBootstrapDataReason, old: infrav1.WaitingForBootstrapDataV1Beta1Reason,
			message: "its bootstrap data",
		}
	}
}

// noteNetwork writes what the guest reports of its addresses, adapter by adapter.
// A guest that reports none, because its tools are not running now, takes back
// nothing that it has reported.
func noteNetwork(machine *infrav1.VSphereMachine, name string, seen *providers.Resource) {
	n, _ := seen.Fields.Get(countPath).Value.Number()
	var networks []infrav1.NetworkStatus
	var addresses []clusterv1.MachineAddress
	for i := range int(n) {
		part := func(what string) providers.Value {
			return seen.Fields.Get(providers.Pointer("networks", strconv.Itoa(i), what)).Value
		}
		s := infrav1.NetworkStatus{NetworkName: part("networkName").Text(), MACAddr: part("macAddress").Text()}
		if on, ok := part("connected").Any().(bool); ok {
			s.Connected = &on
		}
		s.IPAddrs = usable(part("addresses").Elements())
		for _, a := range s.IPAddrs {
			addresses = append(addresses, clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: a})
		}
		networks = append(networks, s)
	}
	if len(addresses) == 0 && len(machine.Status.Addresses) > 0 {
		return
	}
	if len(addresses) > 0 {
		addresses = append(addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalDNS, Address: name})
	}
	if !reflect.DeepEqual(networks, machine.Status.Network) {
		machine.Status.Network = networks
	}
	if !slices.Equal(addresses, machine.Status.Addresses) {
		machine.Status.Addresses = addresses
	}
}

// usable leaves out addresses that lead nowhere from outside, and puts IPv4
// first.
func usable(all []string) []string {
	var out []netip.Addr
	for _, s := range all {
		a, err := netip.ParseAddr(s)
		if err != nil || a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
			continue
		}
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	var texts []string
	for _, a := range out {
		texts = append(texts, a.String())
	}
	return texts
}
