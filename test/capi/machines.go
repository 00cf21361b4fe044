package capi

import (
	"maps"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ControlPlaneMachine makes Machine number i of a KubeadmControlPlane, of
// which the group's version may differ.
func (k *Maker) ControlPlaneMachine(kcp client.Object, apiVersion, version string, i int, infra schema.GroupKind) *clusterv1.Machine {
	m := k.machine(kcp.GetName(), i, k.ControlledBy(kcp, apiVersion, "KubeadmControlPlane"), infra)
	m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	m.Labels[clusterv1.MachineControlPlaneNameLabel] = kcp.GetName()
	m.Spec.Version = version
	return m
}

// Workers makes a MachineDeployment's MachineSet and its Machines.
func (k *Maker) Workers(d *clusterv1.MachineDeployment, infra schema.GroupKind) (*clusterv1.MachineSet, []*clusterv1.Machine) {
	hash := k.Suffix("template/" + d.Name)
	labels := map[string]string{
		clusterv1.ClusterNameLabel:             k.Name,
		clusterv1.MachineDeploymentNameLabel:   d.Name,
		clusterv1.MachineDeploymentUniqueLabel: hash,
	}
	set := &clusterv1.MachineSet{Spec: clusterv1.MachineSetSpec{
		ClusterName: k.Name, Replicas: d.Spec.Replicas,
		Selector: metav1.LabelSelector{MatchLabels: labels},
		Template: *d.Spec.Template.DeepCopy(),
	}}
	set.Name, set.Labels = d.Name+"-"+hash, labels
	set.Spec.Template.Labels = labels
	k.Meta(set, CoreAPIVersion, "MachineSet", k.ControlledBy(d, CoreAPIVersion, "MachineDeployment"))
	var machines []*clusterv1.Machine
	for i := range int(ptr.Deref(d.Spec.Replicas, 1)) {
		m := k.machine(set.Name, i, k.ControlledBy(set, CoreAPIVersion, "MachineSet"), infra)
		maps.Copy(m.Labels, labels)
		m.Labels[clusterv1.MachineSetNameLabel] = set.Name
		m.Spec.Version = d.Spec.Template.Spec.Version
		m.Spec.FailureDomain = d.Spec.Template.Spec.FailureDomain
		machines = append(machines, m)
	}
	return set, machines
}

// machine makes the bare Machine number i of an owner.
func (k *Maker) machine(prefix string, i int, owner metav1.OwnerReference, infra schema.GroupKind) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Name = prefix + "-" + k.Suffix(prefix+"/"+strconv.Itoa(i))
	// Among ten thousand names of five letters two are alike.
	for n := 1; k.named[m.Name]; n++ {
		m.Name = prefix + "-" + k.Suffix(prefix+"/"+strconv.Itoa(i)+"/"+strconv.Itoa(n))
	}
	k.named[m.Name] = true
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: k.Name}
	m.Finalizers = []string{clusterv1.MachineFinalizer}
	m.Spec.ClusterName = k.Name
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infra.Group, Kind: infra.Kind, Name: m.Name}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: m.Name,
	}
	m.Spec.Bootstrap.DataSecretName = ptr.To(m.Name)
	k.Meta(m, CoreAPIVersion, "Machine", owner)
	return m
}
