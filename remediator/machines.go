package remediator

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/inventory"
)

// Objects reads what stands around a Machine, live.
type Objects struct {
	// Reader reads from the API server itself, not from a cache.
	Reader client.Reader
	// Mapper tells the served version of a control plane's kind.
	Mapper meta.RESTMapper
}

// machine gives the record's Machine, nil if it is gone: another one of its
// name is not it.
func (o *Objects) machine(ctx context.Context, r *v1alpha1.Remediation) (*clusterv1.Machine, error) {
	if r.Spec.Machine == nil {
		return nil, nil
	}
	m := &clusterv1.Machine{}
	err := o.Reader.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.Machine.Name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Machine %s: %w", r.Spec.Machine.Name, err)
	case m.UID != r.Spec.Machine.UID:
		return nil, nil
	}
	return m, nil
}

// controllerOf gives the MachineSet that a Machine is controlled by, nil if it
// is another kind or gone.
func (o *Objects) machineSetOf(ctx context.Context, m *clusterv1.Machine) (*clusterv1.MachineSet, error) {
	ref := metav1.GetControllerOf(m)
	if ref == nil || ref.Kind != "MachineSet" || groupOf(ref.APIVersion) != clusterv1.GroupVersion.Group {
		return nil, nil
	}
	s := &clusterv1.MachineSet{}
	err := o.Reader.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: ref.Name}, s)
	switch {
	case apierrors.IsNotFound(err), err == nil && s.UID != ref.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get MachineSet %s: %w", ref.Name, err)
	}
	return s, nil
}

// kubeadmGroup and kubeadmKind are the one control plane that is known to
// honour the conditions of owner remediation.
const (
	kubeadmGroup = "controlplane.cluster.x-k8s.io"
	kubeadmKind  = "KubeadmControlPlane"
)

func (o *Objects) controlPlaneOf(ctx context.Context, m *clusterv1.Machine) (*unstructured.Unstructured, error) {
	ref := metav1.GetControllerOf(m)
	if ref == nil || ref.Kind != kubeadmKind || groupOf(ref.APIVersion) != kubeadmGroup {
		return nil, nil
	}
	u, err := o.controlPlane(ctx, m.Namespace, ref.Kind, ref.Name)
	if err != nil || u == nil || u.GetUID() != ref.UID {
		return nil, err
	}
	return u, nil
}

func (o *Objects) controlPlane(ctx context.Context, namespace, kind, name string) (*unstructured.Unstructured, error) {
	mapping, err := o.Mapper.RESTMapping(schema.GroupKind{Group: kubeadmGroup, Kind: kind})
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", kind, err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(mapping.GroupVersionKind)
	err = o.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, u)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	return u, nil
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}

// deploymentOf gives the MachineDeployment above a MachineSet, nil if there is
// none.
func (o *Objects) deploymentOf(ctx context.Context, s *clusterv1.MachineSet) (*clusterv1.MachineDeployment, error) {
	ref := metav1.GetControllerOf(s)
	if ref == nil || ref.Kind != "MachineDeployment" || groupOf(ref.APIVersion) != clusterv1.GroupVersion.Group {
		return nil, nil
	}
	d, err := o.deployment(ctx, s.Namespace, ref.Name)
	if err != nil || d == nil || d.UID != ref.UID {
		return nil, err
	}
	return d, nil
}

func (o *Objects) deployment(ctx context.Context, namespace, name string) (*clusterv1.MachineDeployment, error) {
	d := &clusterv1.MachineDeployment{}
	err := o.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, d)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get MachineDeployment %s: %w", name, err)
	}
	return d, nil
}

func (o *Objects) cluster(ctx context.Context, r *v1alpha1.Remediation) (*clusterv1.Cluster, error) {
	c := &clusterv1.Cluster{}
	if err := o.Reader.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.ClusterName}, c); err != nil {
		return nil, fmt.Errorf("get Cluster %s: %w", r.Spec.ClusterName, err)
	}
	return c, nil
}

// healthCheckOf gives a MachineHealthCheck that covers the Machine and is not
// paused, nil if there is none. Several may cover one; the first by name is
// taken, and one with an external remediation counts before the others, since
// it decides what happens.
func (o *Objects) healthCheckOf(ctx context.Context, m *clusterv1.Machine) (*clusterv1.MachineHealthCheck, error) {
	list := &clusterv1.MachineHealthCheckList{}
	if err := o.Reader.List(ctx, list, client.InNamespace(m.Namespace)); err != nil {
		return nil, fmt.Errorf("list MachineHealthChecks: %w", err)
	}
	var found *clusterv1.MachineHealthCheck
	for i := range list.Items {
		h := &list.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(&h.Spec.Selector)
		if err != nil || selector.Empty() || !selector.Matches(labels.Set(m.Labels)) ||
			h.Spec.ClusterName != m.Spec.ClusterName || annotations.HasPaused(h) || !h.DeletionTimestamp.IsZero() {
			continue
		}
		if found == nil || external(h) && !external(found) {
			found = h
		}
	}
	return found, nil
}

// external reports a health check that hands machines to another controller
// instead of their owner.
func external(h *clusterv1.MachineHealthCheck) bool {
	return h.Spec.Remediation.TemplateRef.IsDefined()
}

// Group is how the group of a replaced Machine is.
type Group struct {
	// Old is the Machine that is replaced, nil once it is gone.
	Old *clusterv1.Machine
	// Desired is how many machines the group should have, Ready how many of
	// those that stay are ready.
	Desired, Ready int
	// New is the youngest ready machine made since the record was, nil if there
	// is none yet.
	New *clusterv1.Machine
}

// Healthy reports that the old Machine is gone and the group is whole.
func (g *Group) Healthy() bool { return g.Old == nil && g.Ready >= g.Desired }

// Group reads a record's group.
func (o *Objects) Group(ctx context.Context, r *v1alpha1.Remediation) (Group, error) {
	var g Group
	if r.Spec.Machine == nil {
		return g, fmt.Errorf("remediation %s names no Machine", r.Name)
	}
	var err error
	if g.Old, err = o.machine(ctx, r); err != nil {
		return g, err
	}
	if g.Desired, err = o.desired(ctx, r); err != nil {
		return g, err
	}
	list := &clusterv1.MachineList{}
	if err := o.Reader.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: r.Spec.ClusterName}); err != nil {
		return g, fmt.Errorf("list Machines of %s: %w", r.Spec.ClusterName, err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if inventory.Pool(m) != r.Spec.Pool || !m.DeletionTimestamp.IsZero() || !isReady(m) {
			continue
		}
		g.Ready++
		// Both times are the API server's: no clock of ours is compared with it.
		if m.UID != r.Spec.Machine.UID && !m.CreationTimestamp.Before(&r.CreationTimestamp) &&
			(g.New == nil || g.New.CreationTimestamp.Before(&m.CreationTimestamp)) {
			g.New = m
		}
	}
	return g, nil
}

// desired is how many machines the record's pool should have; none once it is
// gone.
func (o *Objects) desired(ctx context.Context, r *v1alpha1.Remediation) (int, error) {
	kind, name, _ := strings.Cut(r.Spec.Pool, "/")
	replicas := func(n *int32) int {
		if n == nil {
			return 1
		}
		return int(*n)
	}
	switch kind {
	case "MachineDeployment":
		d, err := o.deployment(ctx, r.Namespace, name)
		if err != nil || d == nil {
			return 0, err
		}
		return replicas(d.Spec.Replicas), nil
	case "MachineSet":
		s := &clusterv1.MachineSet{}
		err := o.Reader.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name}, s)
		if apierrors.IsNotFound(err) {
			return 0, nil
		} else if err != nil {
			return 0, fmt.Errorf("get MachineSet %s: %w", name, err)
		}
		return replicas(s.Spec.Replicas), nil
	default:
		u, err := o.controlPlane(ctx, r.Namespace, kind, name)
		if err != nil || u == nil {
			return 0, err
		}
		n, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		if !found {
			n = 1
		}
		return int(n), nil
	}
}

// Ready reports whether a record's Machine is there and ready.
func (o *Objects) Ready(ctx context.Context, r *v1alpha1.Remediation) (bool, error) {
	m, err := o.machine(ctx, r)
	return m != nil && isReady(m), err
}

// isReady reads the Machine's Ready condition, or where an older Cluster API
// does not set it, the health of its node.
func isReady(m *clusterv1.Machine) bool {
	for _, kind := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineNodeHealthyCondition} {
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
			return c.Status == metav1.ConditionTrue
		}
	}
	if d := m.Status.Deprecated; d != nil && d.V1Beta1 != nil {
		for i := range d.V1Beta1.Conditions {
			if c := &d.V1Beta1.Conditions[i]; c.Type == clusterv1.MachineNodeHealthyV1Beta1Condition {
				return c.Status == corev1.ConditionTrue
			}
		}
	}
	return false
}
