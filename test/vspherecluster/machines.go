package vspherecluster

import (
	"maps"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machines makes the Machines of the control plane and of every
// MachineDeployment, with their VSphereMachines and VSphereVMs.
func (b *builder) machines(m *Manifest) error {
	kcp := m.ControlPlane
	template, err := m.template(kcp.Spec.MachineTemplate.InfrastructureRef.Name)
	if err != nil {
		return err
	}
	for i := range int(ptr.Deref(kcp.Spec.Replicas, 1)) {
		machine := b.machine(kcp.Name, i, kcp, controlPlaneAPIVersion, "KubeadmControlPlane")
		machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
		machine.Labels[clusterv1.MachineControlPlaneNameLabel] = kcp.Name
		machine.Spec.Version = kcp.Spec.Version
		b.add(machine, template)
	}
	for _, d := range m.Deployments {
		if template, err = m.template(d.Spec.Template.Spec.InfrastructureRef.Name); err != nil {
			return err
		}
		b.deployment(d, template)
	}
	return nil
}

func (b *builder) deployment(d *clusterv1.MachineDeployment, template *infrav1.VSphereMachineTemplate) {
	hash := b.suffix("template/" + d.Name)
	labels := map[string]string{
		clusterv1.ClusterNameLabel:             b.name,
		clusterv1.MachineDeploymentNameLabel:   d.Name,
		clusterv1.MachineDeploymentUniqueLabel: hash,
	}
	set := &clusterv1.MachineSet{Spec: clusterv1.MachineSetSpec{
		ClusterName: b.name, Replicas: d.Spec.Replicas,
		Selector: metav1.LabelSelector{MatchLabels: labels},
		Template: *d.Spec.Template.DeepCopy(),
	}}
	set.Name, set.Labels = d.Name+"-"+hash, labels
	set.Spec.Template.Labels = labels
	b.meta(set, clusterv1.GroupVersion.String(), "MachineSet", b.ownedBy(d, clusterv1.GroupVersion.String(), "MachineDeployment"))
	b.env.Sets = append(b.env.Sets, set)
	for i := range int(ptr.Deref(d.Spec.Replicas, 1)) {
		machine := b.machine(set.Name, i, set, clusterv1.GroupVersion.String(), "MachineSet")
		maps.Copy(machine.Labels, labels)
		machine.Labels[clusterv1.MachineSetNameLabel] = set.Name
		machine.Spec.Version = d.Spec.Template.Spec.Version
		machine.Spec.FailureDomain = d.Spec.Template.Spec.FailureDomain
		b.add(machine, template)
	}
}

// machine makes the bare Machine number i of an owner.
func (b *builder) machine(prefix string, i int, owner client.Object, apiVersion, kind string) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Name = prefix + "-" + b.suffix(prefix+"/"+strconv.Itoa(i))
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: b.name}
	m.Finalizers = []string{clusterv1.MachineFinalizer}
	m.Spec.ClusterName = b.name
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "VSphereMachine", Name: m.Name,
	}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: m.Name,
	}
	m.Spec.Bootstrap.DataSecretName = ptr.To(m.Name)
	b.meta(m, clusterv1.GroupVersion.String(), "Machine", b.ownedBy(owner, apiVersion, kind))
	return m
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
	b.meta(vsm, infrav1.GroupVersion.String(), "VSphereMachine", b.ownedBy(m, clusterv1.GroupVersion.String(), "Machine"))

	vm := &infrav1.VSphereVM{}
	vm.Name = m.Name
	vm.Labels = map[string]string{clusterv1.ClusterNameLabel: b.name}
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
	owner := b.ownedBy(vsm, infrav1.GroupVersion.String(), "VSphereMachine")
	owner.Controller, owner.BlockOwnerDeletion = nil, nil
	b.meta(vm, infrav1.GroupVersion.String(), "VSphereVM", owner)

	b.env.Machines = append(b.env.Machines, m)
	b.env.VSphereMachines = append(b.env.VSphereMachines, vsm)
	b.env.VSphereVMs = append(b.env.VSphereVMs, vm)
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
