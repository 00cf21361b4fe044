package stage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var created = time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)

func minute(n int) metav1.Time { return metav1.NewTime(created.Add(time.Duration(n) * time.Minute)) }

// is a condition since a minute.
func is(kind string, holds bool, since int, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Because", Message: message, LastTransitionTime: minute(since)}
	if holds {
		c.Status, c.Reason = metav1.ConditionTrue, "Well"
	}
	return c
}

func waits(name Name, since int, condition, message string) Stage {
	return Stage{Name: name, Since: minute(since), Condition: condition, Reason: "Because", Message: message}
}

func cluster(edit ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: minute(0)}}
	for _, e := range edit {
		e(c)
	}
	return c
}

func has(conditions ...metav1.Condition) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Status.Conditions = append(c.Status.Conditions, conditions...) }
}

func provisioned(c *clusterv1.Cluster) {
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	has(is("InfrastructureReady", true, 3, ""))(c)
}

func initialized(c *clusterv1.Cluster) {
	provisioned(c)
	c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
}

func TestOfCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		want    Stage
	}{
		"nobody has looked at it": {cluster(), Stage{Name: Infrastructure, Since: minute(0)}},
		"its network is made":     {cluster(has(is("InfrastructureReady", false, 1, "NAT gateway"))), waits(Infrastructure, 0, "InfrastructureReady", "NAT gateway")},
		"its control plane is made": {cluster(provisioned, has(is("ControlPlaneInitialized", false, 0, "not yet"))),
			waits(ControlPlane, 3, "ControlPlaneInitialized", "not yet")},
		"what is said most is said": {cluster(provisioned, has(is("ControlPlaneInitialized", false, 0, "not yet"), is("ControlPlaneAvailable", false, 4, "etcd"))),
			waits(ControlPlane, 3, "ControlPlaneAvailable", "etcd")},
		"provisioned, and nothing says when": {cluster(func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = ptr.To(true) }),
			Stage{Name: ControlPlane, Since: minute(0)}},
		"its workers are made": {cluster(initialized, has(is("ControlPlaneAvailable", true, 7, ""), is("WorkersAvailable", false, 8, "1 of 3"))),
			waits(Workers, 8, "WorkersAvailable", "1 of 3")},
		"it is there":                      {cluster(initialized, has(is("WorkersAvailable", true, 9, ""), is("Available", true, 10, ""))), Stage{Name: Ready, Since: minute(10)}},
		"it is there, by few words":        {cluster(initialized), Stage{Name: Ready, Since: minute(0)}},
		"its control plane is lost again":  {cluster(initialized, has(is("ControlPlaneAvailable", false, 60, "down"))), waits(ControlPlane, 60, "ControlPlaneAvailable", "down")},
		"nobody can connect to it":         {cluster(initialized, has(is("RemoteConnectionProbe", false, 60, "refused"))), waits(ControlPlane, 60, "RemoteConnectionProbe", "refused")},
		"its infrastructure is lost again": {cluster(initialized, func(c *clusterv1.Cluster) { c.Status.Conditions[0] = is("InfrastructureReady", false, 50, "gone") }), waits(Infrastructure, 50, "InfrastructureReady", "gone")},
		"it is deleted": {cluster(initialized, func(c *clusterv1.Cluster) { c.DeletionTimestamp = ptr.To(minute(90)) },
			has(metav1.Condition{Type: "Deleting", Status: metav1.ConditionTrue, Reason: "Because", Message: "2 machines", LastTransitionTime: minute(90)})),
			waits(Deleting, 90, "Deleting", "2 machines")},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, OfCluster(tc.cluster)); d != "" {
				t.Error(d)
			}
		})
	}
}

func machine(edit ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", CreationTimestamp: minute(0)}}
	for _, e := range edit {
		e(m)
	}
	return m
}

func says(conditions ...metav1.Condition) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Status.Conditions = append(m.Status.Conditions, conditions...) }
}

func bootstrapped(m *clusterv1.Machine) {
	m.Spec.Bootstrap.DataSecretName = ptr.To("m")
	says(is("BootstrapConfigReady", true, 1, ""))(m)
}

func running(m *clusterv1.Machine) {
	bootstrapped(m)
	m.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	says(is("InfrastructureReady", true, 4, ""))(m)
}

func joined(m *clusterv1.Machine) {
	running(m)
	m.Status.NodeRef.Name = "n"
}

func TestOfMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		machine *clusterv1.Machine
		want    Stage
	}{
		"nobody has looked at it": {machine(), Stage{Name: Bootstrap, Since: minute(0)}},
		"its data are made":       {machine(says(is("BootstrapConfigReady", false, 0, "control plane"))), waits(Bootstrap, 0, "BootstrapConfigReady", "control plane")},
		"its instance is made":    {machine(bootstrapped, says(is("InfrastructureReady", false, 0, "pending"))), waits(Infrastructure, 1, "InfrastructureReady", "pending")},
		"it boots":                {machine(running, says(is("NodeReady", false, 4, "no node"))), waits(Node, 4, "NodeReady", "no node")},
		"it is there":             {machine(joined, says(is("NodeReady", true, 6, ""))), Stage{Name: Ready, Since: minute(6)}},
		"its node is lost":        {machine(joined, says(is("NodeReady", false, 70, "silent"))), waits(Node, 70, "NodeReady", "silent")},
		"its instance is lost": {machine(joined, func(m *clusterv1.Machine) { m.Status.Conditions[1] = is("InfrastructureReady", false, 70, "gone") }),
			waits(Infrastructure, 70, "InfrastructureReady", "gone")},
		"it is deleted": {machine(joined, func(m *clusterv1.Machine) { m.DeletionTimestamp = ptr.To(minute(80)) },
			says(metav1.Condition{Type: "Deleting", Status: metav1.ConditionTrue, Reason: "Because", Message: "drains", LastTransitionTime: minute(80)})),
			waits(Deleting, 80, "Deleting", "drains")},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, OfMachine(tc.machine)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestFirstOf: of those that are not ready, the control plane's come first, then who
// has waited longest.
func TestFirstOf(t *testing.T) {
	named := func(name string, since int, edit ...func(*clusterv1.Machine)) *clusterv1.Machine {
		m := machine(edit...)
		m.Name, m.CreationTimestamp = name, minute(since)
		return m
	}
	controlPlane := func(m *clusterv1.Machine) { m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""} }
	well := named("well", 0, joined)
	for want, machines := range map[string][]*clusterv1.Machine{
		"":      {well},
		"old":   {well, named("new", 9), named("old", 2), named("other", 5)},
		"first": {named("old", 2), named("first", 9, controlPlane), named("new", 9)},
	} {
		m, s := FirstOf(machines)
		got := ""
		if m != nil {
			got = m.Name
			if s.Name != Bootstrap || s.For(m.CreationTimestamp.Add(time.Hour)) != time.Hour {
				t.Errorf("%s is at %+v", got, s)
			}
		}
		if got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

func TestPaused(t *testing.T) {
	if Paused(cluster()) || !Paused(cluster(func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })) {
		t.Error("who says so is paused, and nobody else")
	}
}
