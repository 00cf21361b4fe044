package vspherecluster

import (
	"maps"

	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/capi"
)

var machineKind = infrav1.GroupVersion.WithKind("VSphereMachine").GroupKind()

// machines makes the Machines of the control plane and of every
// MachineDeployment, with their VSphereMachines and VSphereVMs.
func (b *builder) machines(m *Manifest) error {
	kcp := m.ControlPlane
	template, err := m.template(kcp.Spec.MachineTemplate.InfrastructureRef.Name)
	if err != nil {
		return err
	}
	for i := range int(ptr.Deref(kcp.Spec.Replicas, 1)) {
		b.add(b.ControlPlaneMachine(kcp, controlPlaneAPIVersion, kcp.Spec.Version, i, machineKind), template)
	}
	for _, d := range m.Deployments {
		if template, err = m.template(d.Spec.Template.Spec.InfrastructureRef.Name); err != nil {
			return err
		}
		set, workers := b.Workers(d, machineKind)
		b.env.Sets = append(b.env.Sets, set)
		for _, w := range workers {
			b.add(w, template)
		}
	}
	return nil
}

// add keeps a Machine, and makes its VSphereMachine from the template as CAPI
// does and its VSphereVM as CAPV does.
func (b *builder) add(m *clusterv1.Machine, template *infrav1.VSphereMachineTemplate) {
	vsm := &infrav1.VSphereMachine{Spec: *template.Spec.Template.Spec.DeepCopy()}
	vsm.Name, vsm.Labels = m.Name, maps.Clone(m.Labels)
	vsm.Finalizers = []string{infrav1.MachineFinalizer}
	vsm.Annotations = map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      template.Name,
		clusterv1.TemplateClonedFromGroupKindAnnotation: "VSphereMachineTemplate." + infrav1.GroupVersion.Group,
	}
	b.Meta(vsm, infrav1.GroupVersion.String(), "VSphereMachine", b.ControlledBy(m, capi.CoreAPIVersion, "Machine"))

	vm := b.virtualMachine(m, vsm)
	b.Meta(vm, infrav1.GroupVersion.String(), "VSphereVM", b.OwnedBy(vsm, infrav1.GroupVersion.String(), "VSphereMachine"))

	b.env.Machines = append(b.env.Machines, m)
	b.env.VSphereMachines = append(b.env.VSphereMachines, vsm)
	b.env.VSphereVMs = append(b.env.VSphereVMs, vm)
}

// virtualMachine gives the VSphereVM that CAPV makes for a VSphereMachine, but
// for what owners and the API server add.
func (b *builder) virtualMachine(m *clusterv1.Machine, vsm *infrav1.VSphereMachine) *infrav1.VSphereVM {
	vm := &infrav1.VSphereVM{}
	vm.Name = m.Name
	vm.Labels = map[string]string{clusterv1.ClusterNameLabel: b.Name}
	if _, ok := m.Labels[clusterv1.MachineControlPlaneLabel]; ok {
		vm.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	vm.Finalizers = []string{infrav1.VMFinalizer}
	vm.Spec.BootstrapRef.Name = m.Name
	vm.Spec.PowerOffMode = vsm.Spec.PowerOffMode
	vsm.Spec.VirtualMachineCloneSpec.DeepCopyInto(&vm.Spec.VirtualMachineCloneSpec)
	b.applyFailureDomain(m, &vm.Spec.VirtualMachineCloneSpec)
	if vm.Spec.Server == "" {
		vm.Spec.Server = b.env.VSphereCluster.Spec.Server
	}
	if vm.Spec.Thumbprint == "" {
		vm.Spec.Thumbprint = b.env.VSphereCluster.Spec.Thumbprint
	}
	return vm
}

// applyFailureDomain is what CAPV does with the Machine's failure domain.
func (b *builder) applyFailureDomain(m *clusterv1.Machine, spec *infrav1.VirtualMachineCloneSpec) {
	for _, z := range b.env.Zones {
		for _, d := range b.env.FailureDomains {
			if z.Name != m.Spec.FailureDomain || d.Name != z.Spec.FailureDomain {
				continue
			}
			spec.Server = z.Spec.Server
			spec.Datacenter = d.Spec.Topology.Datacenter
			spec.Folder = z.Spec.PlacementConstraint.Folder
			spec.ResourcePool = z.Spec.PlacementConstraint.ResourcePool
			spec.Datastore = d.Spec.Topology.Datastore
			for i, name := range d.Spec.Topology.Networks {
				spec.Network.Devices[i].NetworkName = name
			}
		}
	}
}
