package remediation_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// standIn plays those of Cluster API's controllers that a replacement needs, in
// one step when a test says so: health checks, owner remediation, MachineSets,
// a KubeadmControlPlane, MachineDeployments. The real ones run in test/.
type standIn struct {
	*world
	made int
	// neverReady machines are made and never join; asBefore makes new machines
	// that drift as told.
	neverReady bool
	spoil      func(machine string)
	// stuck keeps Machines from going once they are deleted, as a drain does.
	stuck bool
	// deaf owners remediate nothing.
	deaf    bool
	deleted []string
	created []string
	// least is the smallest number of ready workers ever seen.
	least int
}

const finalizer = "test.holdfast.io/machine"

func (s *standIn) machine(owner client.Object, apiVersion, kind string, labels map[string]string) {
	s.made++
	name := fmt.Sprintf("%s-m%d", owner.GetName(), s.made)
	m := &clusterv1.Machine{ObjectMeta: s.meta(name, labels)}
	m.OwnerReferences, m.Finalizers = controlledBy(owner, apiVersion, kind), []string{finalizer}
	m.Spec = clusterv1.MachineSpec{ClusterName: "eu", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("x")}, ProviderID: "aws:///z/i-" + name,
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachine", Name: name}}
	s.create(m)
	infra := &infrav1.AWSMachine{ObjectMeta: s.meta(name, labels)}
	infra.Spec.InstanceType, infra.Spec.ProviderID = "m5.large", ptr.To("aws:///z/i-"+name)
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: coreVersion, Kind: "Machine", Name: name, UID: m.UID}}
	s.create(infra)
	fields := providers.FieldsOf(map[string]providers.Field{
		"/tags/team":    {Value: providers.String("blue"), Mutability: providers.InPlace},
		"/keyName":      {Value: providers.String("k"), Mutability: providers.Immutable},
		"/instanceType": {Value: providers.String("m5.large"), Mutability: providers.InPlaceDisruptive},
	})
	r := &providers.Resource{ID: idOf(name), Name: name, Fields: fields, Closed: []string{"/tags"}}
	s.cloud.Want(providers.OwnerRef{Kind: "AWSMachine", Namespace: s.ns, Name: name}, providers.Resource{ID: idOf(name), Fields: fields, Since: start.Add(-24 * time.Hour)})
	s.cloud.Put(r)
	if s.spoil != nil {
		s.spoil(name)
	}
	s.created = append(s.created, name)
	ready := !s.neverReady
	s.update(m, func() {
		m.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		condition(m, clusterv1.MachineReadyCondition, ready, "X")
		condition(m, clusterv1.MachineUpToDateCondition, true, "X")
	})
}

// step is one round of every controller.
func (s *standIn) step() {
	s.t.Helper()
	s.healthChecks()
	s.remediate()
	s.finish()
	s.deployment()
	s.machineSet()
	s.controlPlane()
	s.watch()
}

func (s *standIn) healthChecks() {
	list := &clusterv1.MachineHealthCheckList{}
	if err := s.api.List(s.ctx(), list, client.InNamespace(s.ns)); err != nil {
		s.t.Fatal(err)
	}
	for _, h := range list.Items {
		selector, _ := metav1.LabelSelectorAsSelector(&h.Spec.Selector)
		for _, m := range s.machines() {
			_, asked := m.Annotations[clusterv1.RemediateMachineAnnotation]
			if !selector.Matches(labels.Set(m.Labels)) || !m.DeletionTimestamp.IsZero() {
				continue
			}
			s.update(&m, func() {
				condition(&m, clusterv1.MachineHealthCheckSucceededCondition, !asked, "X")
				if asked && meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) == nil {
					condition(&m, clusterv1.MachineOwnerRemediatedCondition, false, "WaitingForRemediation")
				}
			})
		}
	}
}

// remediate deletes what is unhealthy and handed to its owner, one control-plane
// machine at a time.
func (s *standIn) remediate() {
	if s.deaf {
		return
	}
	planes := 0
	for _, m := range s.machines() {
		if _, is := m.Labels[clusterv1.MachineControlPlaneLabel]; is && !m.DeletionTimestamp.IsZero() {
			planes++
		}
	}
	for _, m := range s.machines() {
		_, plane := m.Labels[clusterv1.MachineControlPlaneLabel]
		if m.DeletionTimestamp.IsZero() && meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition) &&
			meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) && (!plane || planes == 0) {
			s.remove(&m)
			if plane {
				planes++
			}
		}
	}
}

func (s *standIn) remove(m *clusterv1.Machine) {
	if err := s.api.Delete(s.ctx(), m); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

// finish lets deleted machines go, with their infrastructure.
func (s *standIn) finish() {
	if s.stuck {
		for _, m := range s.machines() {
			if !m.DeletionTimestamp.IsZero() {
				s.update(&m, func() {
					meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue,
						Reason: clusterv1.MachineDeletingDrainingNodeReason, Message: "cannot evict pod as it would violate the pod's disruption budget"})
				})
			}
		}
		return
	}
	for _, m := range s.machines() {
		if m.DeletionTimestamp.IsZero() {
			continue
		}
		infra := &infrav1.AWSMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: m.Name}}
		if err := s.api.Delete(s.ctx(), infra); err != nil && !apierrors.IsNotFound(err) {
			s.t.Fatal(err)
		}
		s.cloud.Remove(idOf(m.Name))
		s.deleted = append(s.deleted, m.Name)
		m.Finalizers = nil
		if err := s.api.Update(s.ctx(), &m); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *standIn) deployment() {
	md, ms := &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}
	if err := s.api.Get(s.ctx(), client.ObjectKey{Namespace: s.ns, Name: "a"}, md); err != nil {
		s.t.Fatal(err)
	}
	if err := s.api.Get(s.ctx(), client.ObjectKey{Namespace: s.ns, Name: "a-1"}, ms); err != nil {
		s.t.Fatal(err)
	}
	s.topology(md)
	all, ready := s.count("a-1-")
	if *ms.Spec.Replicas != *md.Spec.Replicas {
		s.update(ms, func() { ms.Spec.Replicas = md.Spec.Replicas })
	}
	n, r := int32(all), int32(ready)
	if md.Status.ObservedGeneration == md.Generation && md.Status.ReadyReplicas != nil && *md.Status.ReadyReplicas == r && *md.Status.Replicas == n {
		return
	}
	s.update(md, func() {
		md.Status.ObservedGeneration = md.Generation
		md.Status.Replicas, md.Status.UpToDateReplicas, md.Status.ReadyReplicas = &n, &n, &r
	})
}

// topology sets a MachineDeployment's replicas to what its Cluster says.
func (s *standIn) topology(md *clusterv1.MachineDeployment) {
	if _, owned := md.Labels[clusterv1.ClusterTopologyOwnedLabel]; !owned {
		return
	}
	c := &clusterv1.Cluster{}
	s.get("eu", c)
	for _, t := range c.Spec.Topology.Workers.MachineDeployments {
		if t.Name == md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] && *t.Replicas != *md.Spec.Replicas {
			s.update(md, func() { md.Spec.Replicas = t.Replicas })
		}
	}
}

// count gives the machines of a set that stay, and those of them that are
// ready.
func (s *standIn) count(prefix string) (all, ready int) {
	for _, m := range s.machines() {
		if strings.HasPrefix(m.Name, prefix) && m.DeletionTimestamp.IsZero() {
			all++
			if meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineReadyCondition) {
				ready++
			}
		}
	}
	return all, ready
}

func (s *standIn) machineSet() {
	ms := &clusterv1.MachineSet{}
	if err := s.api.Get(s.ctx(), client.ObjectKey{Namespace: s.ns, Name: "a-1"}, ms); err != nil {
		s.t.Fatal(err)
	}
	var here []clusterv1.Machine
	for _, m := range s.machines() {
		if strings.HasPrefix(m.Name, "a-1-") && m.DeletionTimestamp.IsZero() {
			here = append(here, m)
		}
	}
	for n := len(here); n < int(*ms.Spec.Replicas); n++ {
		s.machine(ms, coreVersion, "MachineSet", map[string]string{clusterv1.MachineDeploymentNameLabel: "a", clusterv1.MachineSetNameLabel: "a-1"})
	}
	// The marked go first, then what is not ready, then the newest.
	slices.SortStableFunc(here, func(a, b clusterv1.Machine) int {
		rank := func(m clusterv1.Machine) int {
			switch _, marked := m.Annotations[clusterv1.DeleteMachineAnnotation]; {
			case marked:
				return 0
			case !meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineReadyCondition):
				return 1
			default:
				return 2
			}
		}
		return rank(a) - rank(b)
	})
	for i := range max(len(here)-int(*ms.Spec.Replicas), 0) {
		s.remove(&here[i])
	}
}

func (s *standIn) controlPlane() {
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := s.api.Get(s.ctx(), client.ObjectKey{Namespace: s.ns, Name: "cp"}, kcp); err != nil {
		s.t.Fatal(err)
	}
	all, ready := s.count("cp-")
	for n := all; n < int(*kcp.Spec.Replicas); n++ {
		s.machine(kcp, controlplanev1.GroupVersion.String(), "KubeadmControlPlane", map[string]string{clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineControlPlaneNameLabel: "cp"})
	}
	n, r := int32(all), int32(ready)
	if kcp.Status.ObservedGeneration != kcp.Generation || kcp.Status.ReadyReplicas == nil || *kcp.Status.ReadyReplicas != r || *kcp.Status.Replicas != n {
		s.update(kcp, func() {
			kcp.Status.ObservedGeneration = kcp.Generation
			kcp.Status.Replicas, kcp.Status.ReadyReplicas, kcp.Status.UpToDateReplicas = &n, &r, &n
		})
	}
}

// watch keeps the smallest number of ready workers.
func (s *standIn) watch() {
	if _, ready := s.count("a-1-"); len(s.created) >= 7 && (s.least == 0 || ready < s.least) {
		s.least = ready
	}
}
