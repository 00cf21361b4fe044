package capi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// FinishCluster completes a Cluster whose API server answers at the endpoint.
func (k *Maker) FinishCluster(c *clusterv1.Cluster, host string, port int32) {
	k.Meta(c, CoreAPIVersion, "Cluster", metav1.OwnerReference{})
	c.Finalizers = []string{clusterv1.ClusterFinalizer}
	c.Status.Phase = string(clusterv1.ClusterPhaseProvisioned)
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: port}
}

// FinishDeployment completes a MachineDeployment all of whose machines are
// well.
func (k *Maker) FinishDeployment(d *clusterv1.MachineDeployment, cluster metav1.OwnerReference) {
	k.Label(d)
	k.Meta(d, CoreAPIVersion, "MachineDeployment", cluster)
	labels := map[string]string{clusterv1.ClusterNameLabel: k.Name, clusterv1.MachineDeploymentNameLabel: d.Name}
	d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = labels, labels
	d.Status.Phase = string(clusterv1.MachineDeploymentPhaseRunning)
	d.Status.Replicas, d.Status.ReadyReplicas = d.Spec.Replicas, d.Spec.Replicas
	d.Status.AvailableReplicas, d.Status.UpToDateReplicas = d.Spec.Replicas, d.Spec.Replicas
	d.Status.ObservedGeneration = d.Generation
}

// FinishSet says that all machines of a MachineSet are well.
func (k *Maker) FinishSet(s *clusterv1.MachineSet) {
	s.Status.Replicas, s.Status.ReadyReplicas = s.Spec.Replicas, s.Spec.Replicas
	s.Status.AvailableReplicas, s.Status.UpToDateReplicas = s.Spec.Replicas, s.Spec.Replicas
}

// FinishMachine says that a Machine is well.
func (k *Maker) FinishMachine(m *clusterv1.Machine) {
	for _, kind := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineUpToDateCondition} {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: metav1.NewTime(k.Created),
		})
	}
}
