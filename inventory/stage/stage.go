// Package stage tells how far Clusters and Machines have come in being made, what
// they wait for and since when, from what Cluster API keeps on them: whoever makes
// them, Holdfast's own reconcilers or upstream's programs.
package stage

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
)

// Name is one of the stages below.
type Name string

// The stages of a Cluster, in their order. Ready is one that is available as a whole;
// one that was and is not any more is at the stage of what is missing.
const (
	Infrastructure Name = "infrastructure"
	ControlPlane   Name = "control plane"
	Workers        Name = "workers"
	Ready          Name = "ready"
	Deleting       Name = "deleting"
)

// The stages of a Machine beside Infrastructure, Ready and Deleting: its bootstrap
// data come first, and its Node last.
const (
	Bootstrap Name = "bootstrap"
	Node      Name = "node"
)

// Stage is where something stands.
type Stage struct {
	Name Name `json:"name"`
	// Since is when it came there.
	Since metav1.Time `json:"since"`
	// Reason and Message are what it waits for, by the condition that says so, whose
	// type is Condition. They are empty if nothing says it.
	Condition string `json:"condition,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}

// part is a stage with the condition that tells whether it holds.
type part struct {
	name      Name
	condition string
}

// OfCluster tells the stage of a Cluster, by the contract's status.initialization
// until it has been made and by its conditions from then on.
func OfCluster(c *clusterv1.Cluster) Stage {
	conditions := c.Status.Conditions
	if d := c.DeletionTimestamp; d != nil {
		return at(Deleting, *d, conditions, clusterv1.ClusterDeletingCondition)
	}
	if !ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false) {
		return at(Infrastructure, c.CreationTimestamp, conditions, clusterv1.ClusterInfrastructureReadyCondition)
	}
	if !ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false) {
		// That the infrastructure is there is what it waited for before.
		since := c.CreationTimestamp
		if made := meta.FindStatusCondition(conditions, clusterv1.ClusterInfrastructureReadyCondition); made != nil && made.Status == metav1.ConditionTrue {
			since = made.LastTransitionTime
		}
		return at(ControlPlane, since, conditions, clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneInitializedCondition)
	}
	for _, part := range []part{
		{Infrastructure, clusterv1.ClusterInfrastructureReadyCondition},
		{ControlPlane, clusterv1.ClusterControlPlaneAvailableCondition},
		{ControlPlane, clusterv1.ClusterRemoteConnectionProbeCondition},
		{Workers, clusterv1.ClusterWorkersAvailableCondition},
	} {
		if f := meta.FindStatusCondition(conditions, part.condition); f != nil && f.Status != metav1.ConditionTrue {
			return at(part.name, f.LastTransitionTime, conditions, part.condition)
		}
	}
	s := Stage{Name: Ready, Since: c.CreationTimestamp}
	if f := meta.FindStatusCondition(conditions, clusterv1.ClusterAvailableCondition); f != nil && f.Status == metav1.ConditionTrue {
		s.Since = f.LastTransitionTime
	}
	return s
}

// OfMachine tells the stage of a Machine.
func OfMachine(m *clusterv1.Machine) Stage {
	conditions := m.Status.Conditions
	if d := m.DeletionTimestamp; d != nil {
		return at(Deleting, *d, conditions, clusterv1.MachineDeletingCondition)
	}
	since := m.CreationTimestamp
	later := func(condition string) {
		if f := meta.FindStatusCondition(conditions, condition); f != nil && f.Status == metav1.ConditionTrue && since.Before(&f.LastTransitionTime) {
			since = f.LastTransitionTime
		}
	}
	if m.Spec.Bootstrap.DataSecretName == nil && !ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false) {
		return at(Bootstrap, since, conditions, clusterv1.MachineBootstrapConfigReadyCondition)
	}
	later(clusterv1.MachineBootstrapConfigReadyCondition)
	if !ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false) {
		return at(Infrastructure, since, conditions, clusterv1.MachineInfrastructureReadyCondition)
	}
	later(clusterv1.MachineInfrastructureReadyCondition)
	if !m.Status.NodeRef.IsDefined() {
		return at(Node, since, conditions, clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition)
	}
	for _, part := range []part{{Infrastructure, clusterv1.MachineInfrastructureReadyCondition}, {Node, clusterv1.MachineNodeReadyCondition}} {
		if f := meta.FindStatusCondition(conditions, part.condition); f != nil && f.Status != metav1.ConditionTrue {
			return at(part.name, f.LastTransitionTime, conditions, part.condition)
		}
	}
	later(clusterv1.MachineNodeReadyCondition)
	return Stage{Name: Ready, Since: since}
}

// Paused tells whether nobody works on a Cluster, whatever its stage.
func Paused(c *clusterv1.Cluster) bool { return ptr.Deref(c.Spec.Paused, false) }

// FirstOf gives the machine of a stage that has stood longest, those of the control
// plane first, as the one to look at: nil if all are ready.
func FirstOf(machines []*clusterv1.Machine) (first *clusterv1.Machine, stage Stage) {
	for _, m := range machines {
		s := OfMachine(m)
		if s.Name == Ready {
			continue
		}
		here, there := util.IsControlPlaneMachine(m), first != nil && util.IsControlPlaneMachine(first)
		if first == nil || here && !there || here == there && s.Since.Before(&stage.Since) {
			first, stage = m, s
		}
	}
	return first, stage
}

// For is how long it has stood there.
func (s *Stage) For(now time.Time) time.Duration { return max(now.Sub(s.Since.Time), 0) }

// at is a stage with the words of the first of some conditions that does not hold.
func at(name Name, since metav1.Time, conditions []metav1.Condition, why ...string) Stage {
	s := Stage{Name: name, Since: since}
	for _, condition := range why {
		if f := meta.FindStatusCondition(conditions, condition); f != nil && (f.Status != metav1.ConditionTrue || name == Deleting) {
			s.Condition, s.Reason, s.Message = f.Type, f.Reason, f.Message
			return s
		}
	}
	return s
}
