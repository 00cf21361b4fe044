package sweep

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// scene is one cluster with an AWSCluster and one machine of a MachineDeployment
// that is at rest.
type scene struct {
	cluster *inventory.Cluster
	infra   *infrav1.AWSCluster
	md      *clusterv1.MachineDeployment
	machine *clusterv1.Machine
	awsm    *infrav1.AWSMachine
	owner   *inventory.Owner // of the machine
	network *inventory.Owner // of the cluster
}

func newScene() *scene {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "prod", Name: name, Annotations: map[string]string{}, Labels: map[string]string{}}
	}
	s := &scene{
		cluster: &inventory.Cluster{Object: &clusterv1.Cluster{ObjectMeta: meta("c1")}},
		infra:   &infrav1.AWSCluster{ObjectMeta: meta("c1")},
		md:      &clusterv1.MachineDeployment{ObjectMeta: meta("md")},
		machine: &clusterv1.Machine{ObjectMeta: meta("m1")},
		awsm:    &infrav1.AWSMachine{ObjectMeta: meta("m1")},
	}
	s.infra.SetGroupVersionKind(infrav1.GroupVersion.WithKind("AWSCluster"))
	s.awsm.SetGroupVersionKind(infrav1.GroupVersion.WithKind("AWSMachine"))
	s.awsm.Annotations[clusterv1.TemplateClonedFromNameAnnotation] = "template-1"
	s.md.Spec.Template.Spec.InfrastructureRef.Name = "template-1"
	s.md.Spec.Replicas = ptr.To[int32](1)
	s.md.Status.Replicas, s.md.Status.UpToDateReplicas = ptr.To[int32](1), ptr.To[int32](1)
	s.machine.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "ms", Controller: ptr.To(true)}}
	s.says(clusterv1.MachineReadyCondition, metav1.ConditionTrue)
	s.network = &inventory.Owner{Owner: providers.Owner{Ref: providers.RefOf(s.infra), Cluster: s.cluster.Object, Infra: s.infra}}
	s.owner = &inventory.Owner{Owner: providers.Owner{
		Ref: providers.RefOf(s.awsm), Cluster: s.cluster.Object, Machine: s.machine, Infra: s.awsm, Pool: "MachineDeployment/md", Zone: "a",
	}}
	s.cluster.Owners = []*inventory.Owner{s.network, s.owner}
	s.cluster.MachineDeployments = []*clusterv1.MachineDeployment{s.md}
	return s
}

// says sets a condition of the Machine.
func (s *scene) says(kind string, status metav1.ConditionStatus) {
	s.machine.Status.Conditions = slices.DeleteFunc(s.machine.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	s.machine.Status.Conditions = append(s.machine.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Because"})
}

// kubelet has the Machine's Node report a version, and Cluster API say of that
// what it does of one that is not to the letter the declared one.
func (s *scene) kubelet(version string) {
	s.machine.Spec.Version, s.md.Spec.Template.Spec.Version = "v1.33.1", "v1.33.1"
	s.machine.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: version}
	s.says(clusterv1.MachineUpToDateCondition, metav1.ConditionFalse)
	s.machine.Status.Conditions[len(s.machine.Status.Conditions)-1].Reason = clusterv1.MachineUpToDateUpdatingReason
	s.md.Status.UpToDateReplicas = ptr.To[int32](0)
}

// saidOnce sets a condition in the words of contract v1beta1 and no other.
func (s *scene) saidOnce(kind clusterv1.ConditionType, status corev1.ConditionStatus) {
	s.machine.Status.Conditions = nil
	s.machine.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{
		Conditions: clusterv1.Conditions{{Type: kind, Status: status}},
	}}
}

func (s *scene) controlPlane(version string, generation int64, status map[string]any) {
	cp := &unstructured.Unstructured{Object: map[string]any{"kind": "KubeadmControlPlane", "status": status}}
	cp.SetAPIVersion("controlplane.cluster.x-k8s.io/" + version)
	cp.SetName("cp")
	cp.SetGeneration(generation)
	template := map[string]any{"infrastructureRef": map[string]any{"name": "template-1"}}
	if version == "v1beta2" {
		template = map[string]any{"spec": template}
	}
	cp.Object["spec"] = map[string]any{"machineTemplate": template, "version": s.machine.Spec.Version}
	s.cluster.ControlPlane = cp
	s.owner.Pool, s.owner.ControlPlane = "KubeadmControlPlane/cp", true
}

// blocking lists the facts that hold a machine back: true ones by name, those
// not known with a question mark.
func blocking(f *policies.OwnerFacts) []string {
	var out []string
	for name, fact := range map[string]policies.Fact{
		"Paused": f.Paused, "Deleting": f.Deleting, "Moving": f.Moving, "ExternallyManaged": f.ExternallyManaged,
		"Rollout": f.Rollout, "OldRevision": f.OldRevision, "SkipRemediation": f.SkipRemediation, "Ambiguous": f.Ambiguous,
	} {
		switch {
		case fact.True():
			out = append(out, name)
		case !fact.Known():
			out = append(out, name+"?")
		}
	}
	slices.Sort(out)
	return out
}

// What the gates are told of a machine comes from its objects alone, and what
// the objects do not say is not known, which blocks.
func TestC54C55C63FactsOfMachines(t *testing.T) {
	now := metav1.Now()
	tests := map[string]struct {
		set  func(*scene)
		want []string
	}{
		"at rest":                   {func(*scene) {}, nil},
		"C63 Cluster paused":        {func(s *scene) { s.cluster.Object.Spec.Paused = ptr.To(true) }, []string{"Paused"}},
		"C54 Machine paused":        {func(s *scene) { s.machine.Annotations[clusterv1.PausedAnnotation] = "" }, []string{"Paused"}},
		"C54 infrastructure paused": {func(s *scene) { s.awsm.Annotations[clusterv1.PausedAnnotation] = "true" }, []string{"Paused"}},
		"Cluster deleted":           {func(s *scene) { s.cluster.Object.DeletionTimestamp = &now }, []string{"Deleting"}},
		"C54 Machine deleted":       {func(s *scene) { s.machine.DeletionTimestamp = &now }, []string{"Deleting"}},
		"infrastructure deleted":    {func(s *scene) { s.awsm.DeletionTimestamp = &now }, []string{"Deleting"}},
		"C63 Cluster moves":         {func(s *scene) { s.cluster.Object.Annotations["clusterctl.cluster.x-k8s.io/block-move"] = "" }, []string{"Moving"}},
		"C63 Machine moves":         {func(s *scene) { s.machine.Annotations["clusterctl.cluster.x-k8s.io/delete-for-move"] = "" }, []string{"Moving"}},
		"C63 infrastructure moves":  {func(s *scene) { s.awsm.Annotations["clusterctl.cluster.x-k8s.io/delete-for-move"] = "" }, []string{"Moving"}},
		"C54 skip-remediation":      {func(s *scene) { s.machine.Annotations[clusterv1.MachineSkipRemediationAnnotation] = "" }, []string{"SkipRemediation"}},
		"C62 of a managed network":  {func(s *scene) { s.infra.Annotations[clusterv1.ManagedByAnnotation] = "terraform" }, nil},
		"C55 rolling out":           {func(s *scene) { s.md.Status.UpToDateReplicas = ptr.To[int32](0) }, []string{"Rollout"}},
		"C55 spec not seen yet":     {func(s *scene) { s.md.Generation = 2 }, []string{"Rollout"}},
		"C55 no status yet":         {func(s *scene) { s.md.Status.Replicas = nil }, []string{"Rollout?"}},
		"C55 pool not loaded":       {func(s *scene) { s.cluster.MachineDeployments = nil }, []string{"OldRevision?", "Rollout?"}},
		"C55 template exchanged":    {func(s *scene) { s.md.Spec.Template.Spec.InfrastructureRef.Name = "template-2" }, []string{"OldRevision"}},
		"C55 out of date":           {func(s *scene) { s.says(clusterv1.MachineUpToDateCondition, metav1.ConditionFalse) }, []string{"OldRevision"}},
		"C55 up to date, renamed": {func(s *scene) {
			s.md.Spec.Template.Spec.InfrastructureRef.Name = "t"
			s.says(clusterv1.MachineUpToDateCondition, metav1.ConditionTrue)
		}, nil},
		// CAPI says UpToDate=False of a kubelet that spells its version otherwise,
		// for as long as it does, and rolls nothing out for it.
		"C55 a vendor's kubelet":               {func(s *scene) { s.kubelet("v1.33.1-eks-1") }, nil},
		"C55 another kubelet":                  {func(s *scene) { s.kubelet("v1.20.0") }, nil},
		"C55 another kubelet, and no template": {func(s *scene) { s.kubelet("v1.20.0"); s.awsm.Annotations = nil }, []string{"OldRevision?"}},
		"C55 updated in place": {func(s *scene) {
			s.kubelet("v1.20.0")
			s.says(clusterv1.MachineUpdatingCondition, metav1.ConditionTrue)
		}, []string{"OldRevision", "Rollout"}},
		"C55 about to be updated in place": {func(s *scene) {
			s.kubelet("v1.20.0")
			s.machine.Annotations[clusterv1.UpdateInProgressAnnotation] = ""
		}, []string{"OldRevision", "Rollout"}},
		"C55 another kubelet while the pool rolls out": {func(s *scene) {
			s.kubelet("v1.20.0")
			s.md.Status.Replicas = ptr.To[int32](2)
		}, []string{"Rollout"}},
		"C55 another kubelet, and a newer version wanted": {func(s *scene) {
			s.kubelet("v1.33.1-eks-1")
			s.md.Spec.Template.Spec.Version = "v1.34.0"
		}, []string{"OldRevision"}},
		"C55 another kubelet, and another template wanted": {func(s *scene) {
			s.kubelet("v1.33.1-eks-1")
			s.md.Spec.Template.Spec.InfrastructureRef.Name = "template-2"
		}, []string{"OldRevision"}},
		"C55 out of date for the same version": {func(s *scene) {
			s.kubelet("v1.33.1")
		}, []string{"OldRevision", "Rollout"}},
		"C55 another kubelet of the control plane": {func(s *scene) {
			s.kubelet("v1.20.0")
			s.controlPlane("v1beta2", 1, map[string]any{"observedGeneration": int64(1), "replicas": int64(3), "upToDateReplicas": int64(2)})
		}, nil},
		"C55 the same, and a newer version wanted": {func(s *scene) {
			s.kubelet("v1.20.0")
			s.controlPlane("v1beta2", 1, map[string]any{"observedGeneration": int64(1), "replicas": int64(3), "upToDateReplicas": int64(2)})
			s.cluster.ControlPlane.Object["spec"].(map[string]any)["version"] = "v1.34.0"
		}, []string{"OldRevision"}},
		"C55 template not recorded": {func(s *scene) { delete(s.awsm.Annotations, clusterv1.TemplateClonedFromNameAnnotation) }, []string{"OldRevision?"}},
		"C55 control plane at rest": {func(s *scene) {
			s.controlPlane("v1beta2", 1, map[string]any{"observedGeneration": int64(1), "replicas": int64(3), "upToDateReplicas": int64(3)})
		}, nil},
		"C55 control plane rolls": {func(s *scene) {
			s.controlPlane("v1beta2", 1, map[string]any{"observedGeneration": int64(1), "replicas": int64(3), "upToDateReplicas": int64(2)})
		}, []string{"Rollout"}},
		"C55 control plane, v1beta1": {func(s *scene) {
			s.controlPlane("v1beta1", 1, map[string]any{"observedGeneration": int64(1), "replicas": int64(3), "updatedReplicas": int64(2)})
		}, []string{"Rollout"}},
		"C55 control plane not seen": {func(s *scene) {
			s.controlPlane("v1beta1", 2, map[string]any{"observedGeneration": int64(1), "replicas": int64(3), "updatedReplicas": int64(3)})
		}, []string{"Rollout"}},
		"C55 control plane says less": {func(s *scene) { s.controlPlane("v1beta2", 1, map[string]any{}) }, []string{"Rollout?"}},
		"C55 control plane, exchanged": {func(s *scene) {
			s.controlPlane("v1beta1", 1, map[string]any{"replicas": int64(1), "updatedReplicas": int64(1)})
			s.awsm.Annotations[clusterv1.TemplateClonedFromNameAnnotation] = "template-0"
		}, []string{"OldRevision"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			tt.set(s)
			f := ownerFacts(s.cluster, s.owner, lagging(s.cluster))
			if diff := cmp.Diff(tt.want, blocking(&f)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// C62: the annotation on the infrastructure cluster holds for it alone.
func TestC62FactsOfClusters(t *testing.T) {
	s := newScene()
	s.infra.Annotations[clusterv1.ManagedByAnnotation] = ""
	if f := ownerFacts(s.cluster, s.network, lagging(s.cluster)); !cmp.Equal(blocking(&f), []string{"ExternallyManaged"}) {
		t.Errorf("the cluster is held back by %v", blocking(&f))
	}
	if f := ownerFacts(s.cluster, s.owner, lagging(s.cluster)); len(blocking(&f)) != 0 {
		t.Errorf("its machine is held back by %v", blocking(&f))
	}
}

// C54: what is in flight counts whoever began it, in the words of either
// contract of Cluster API.
func TestC54InFlightFromObjects(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		set func(*scene)
		by  string
	}{
		"at rest":              {func(*scene) {}, ""},
		"being deleted":        {func(s *scene) { s.machine.DeletionTimestamp = &now }, "deletion of Machine m1"},
		"handed to its owner":  {func(s *scene) { s.says(clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse) }, "MachineHealthCheck"},
		"the same, v1beta1":    {func(s *scene) { s.saidOnce(clusterv1.MachineOwnerRemediatedV1Beta1Condition, corev1.ConditionFalse) }, "MachineHealthCheck"},
		"remediated already":   {func(s *scene) { s.says(clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionTrue) }, ""},
		"a condition, v1beta1": {func(s *scene) { s.saidOnce(clusterv1.MachineNodeHealthyV1Beta1Condition, corev1.ConditionFalse) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			tt.set(s)
			by := ""
			for _, f := range inFlight(refOf(s.cluster), s.cluster) {
				by += f.By
				if f.Owner != s.owner.Ref || f.Pool != s.owner.Pool || f.Zone != "a" || f.Action != policies.Replace {
					t.Errorf("in flight: %+v", f)
				}
			}
			if by != tt.by {
				t.Errorf("begun by %q, want %q", by, tt.by)
			}
		})
	}
}

// C52: a node that cannot be reached has neither condition true nor false. A
// zone of such nodes is unhealthy, although the cloud says that they run.
func TestC52UnreachableNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		set       func(*scene)
		unhealthy int
	}{
		"ready":       {func(*scene) {}, 0},
		"not ready":   {func(s *scene) { s.says(clusterv1.MachineReadyCondition, metav1.ConditionFalse) }, 1},
		"unreachable": {func(s *scene) { s.says(clusterv1.MachineReadyCondition, metav1.ConditionUnknown) }, 1},
		"unreachable by its node": {func(s *scene) {
			s.machine.Status.Conditions = nil
			s.says(clusterv1.MachineNodeHealthyCondition, metav1.ConditionUnknown)
		}, 1},
		"its node is well": {func(s *scene) {
			s.says(clusterv1.MachineReadyCondition, metav1.ConditionUnknown)
			s.says(clusterv1.MachineNodeHealthyCondition, metav1.ConditionTrue)
		}, 0},
		"not ready, v1beta1":       {func(s *scene) { s.saidOnce(clusterv1.MachineNodeHealthyV1Beta1Condition, corev1.ConditionFalse) }, 1},
		"unreachable, v1beta1":     {func(s *scene) { s.saidOnce(clusterv1.MachineNodeHealthyV1Beta1Condition, corev1.ConditionUnknown) }, 1},
		"ready, v1beta1":           {func(s *scene) { s.saidOnce(clusterv1.MachineNodeHealthyV1Beta1Condition, corev1.ConditionTrue) }, 0},
		"nothing is said about it": {func(s *scene) { s.machine.Status.Conditions = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			tt.set(s)
			facts := map[*inventory.Owner]policies.OwnerFacts{s.owner: ownerFacts(s.cluster, s.owner, lagging(s.cluster))}
			want := map[string]policies.ZoneFacts{"a": {Machines: 1, Unhealthy: tt.unhealthy}}
			if diff := cmp.Diff(want, clusterFacts(s.cluster, facts).Zones, cmpopts.EquateComparable(policies.Fact{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if f := facts[s.owner].Ready; f.False() != (tt.unhealthy == 1) {
				t.Errorf("it counts as %+v where its pool's other ready machines are counted", f)
			}
		})
	}
}
