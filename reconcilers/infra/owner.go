package infra

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
)

// errNotYet says that an object is not anybody's yet: Cluster API sets its owner
// reference when it is.
var errNotYet = errors.New("no Cluster API object owns it yet")

// owner gives an infrastructure object with the objects around it. The object
// becomes the caller's to change; the others are shared, and read-only.
func (r *reconciler) owner(ctx context.Context, infra client.Object) (*providers.Owner, error) {
	infra.GetObjectKind().SetGroupVersionKind(r.kind.GVK)
	o := &providers.Owner{Ref: providers.RefOf(infra), Infra: infra}
	err := r.above(ctx, o)
	switch {
	case err == nil:
	case !infra.GetDeletionTimestamp().IsZero() && (apierrors.IsNotFound(err) || errors.Is(err, errNotYet)):
		// Its Cluster went first. What was made for it has to go all the same.
		if o.Cluster = remembered(infra); o.Cluster == nil {
			return nil, err
		}
	default:
		return nil, err
	}
	if o.InfraCluster, err = r.infraCluster(ctx, o); err != nil {
		return nil, err
	}
	if o.Siblings, err = r.siblings(ctx, o); err != nil {
		return nil, err
	}
	o.Related, err = r.related(ctx, infra.GetNamespace())
	return o, err
}

// above finds the Machine and the Cluster.
func (r *reconciler) above(ctx context.Context, o *providers.Owner) (err error) {
	of := metav1.ObjectMeta{Namespace: o.Infra.GetNamespace(), OwnerReferences: o.Infra.GetOwnerReferences(), Labels: o.Infra.GetLabels()}
	if r.kind.Role == providers.RoleMachine {
		m, err := util.GetOwnerMachine(ctx, r.client, of)
		switch {
		case err != nil:
			return err
		case m == nil:
			return errNotYet
		}
		o.Machine, o.Pool, o.Zone = m, inventory.Pool(m), m.Spec.FailureDomain
		_, o.ControlPlane = m.Labels[clusterv1.MachineControlPlaneLabel]
		of = m.ObjectMeta
		if o.Cluster, err = util.GetClusterFromMetadata(ctx, r.client, of); errors.Is(err, util.ErrNoCluster) {
			return errNotYet
		}
		return err
	}
	if o.Cluster, err = util.GetOwnerCluster(ctx, r.client, of); err == nil && o.Cluster == nil {
		return errNotYet
	}
	return err
}

// remembered stands for a Cluster that is gone: its name is what tags and names
// in the cloud are made of.
func remembered(infra client.Object) *clusterv1.Cluster {
	name := infra.GetLabels()[clusterv1.ClusterNameLabel]
	for _, ref := range infra.GetOwnerReferences() {
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Cluster" {
			name = ref.Name
		}
	}
	if name == "" {
		return nil
	}
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: infra.GetNamespace(), Name: name}}
}

// infraCluster finds the Cluster's infrastructure object, nil if it is of no
// kind of this provider.
func (r *reconciler) infraCluster(ctx context.Context, o *providers.Owner) (client.Object, error) {
	if r.kind.Role == providers.RoleCluster {
		return o.Infra, nil
	}
	ref := o.Cluster.Spec.InfrastructureRef
	for _, kind := range r.registration.Owners {
		if kind.Role != providers.RoleCluster || kind.GVK.Kind != ref.Kind || kind.GVK.Group != ref.APIGroup {
			continue
		}
		out, err := r.make(kind.GVK)
		if err != nil {
			return nil, err
		}
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: o.Cluster.Namespace, Name: ref.Name}, out); err != nil {
			return nil, fmt.Errorf("read %s %s/%s: %w", ref.Kind, o.Cluster.Namespace, ref.Name, err)
		}
		out.GetObjectKind().SetGroupVersionKind(kind.GVK)
		return out, nil
	}
	return nil, nil
}

// siblings gives all infrastructure objects of the cluster.
func (r *reconciler) siblings(ctx context.Context, o *providers.Owner) (out []client.Object, err error) {
	for _, kind := range r.registration.Owners {
		if kind.Role == providers.RoleCluster {
			continue
		}
		more, err := r.list(ctx, kind.GVK, client.InNamespace(o.Cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: o.Cluster.Name})
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	if o.InfraCluster != nil {
		out = append(out, o.InfraCluster)
	}
	return out, nil
}

// related gives the provider's objects that owners refer to by name: those of the
// namespace, and cluster-scoped ones.
func (r *reconciler) related(ctx context.Context, namespace string) (out []client.Object, err error) {
	for _, gvk := range r.registration.Related {
		mapping, err := r.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", gvk, err)
		}
		var in []client.ListOption
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			in = append(in, client.InNamespace(namespace))
		}
		more, err := r.list(ctx, gvk, in...)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// list gives objects as they are in the cache, not to be changed.
func (r *reconciler) list(ctx context.Context, gvk schema.GroupVersionKind, opts ...client.ListOption) (out []client.Object, err error) {
	made, err := r.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is no list of objects", made)
	}
	if err := r.client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if o, ok := item.(client.Object); ok {
			out = append(out, o)
		}
	}
	return out, nil
}

func (r *reconciler) make(gvk schema.GroupVersionKind) (client.Object, error) {
	made, err := r.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	out, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", made)
	}
	return out, nil
}

// bootstrapData reads the Secret that a Machine boots with (contract of bootstrap
// providers: keys value and format). It is read live, for it is kept nowhere.
func (r *reconciler) bootstrapData(ctx context.Context, m *clusterv1.Machine) (*providers.BootstrapData, error) {
	key := client.ObjectKey{Namespace: m.Namespace, Name: *m.Spec.Bootstrap.DataSecretName}
	s := &corev1.Secret{}
	if err := r.live.Get(ctx, key, s); err != nil {
		return nil, fmt.Errorf("read the bootstrap data of Machine %s: %w", m.Name, err)
	}
	value, ok := s.Data["value"]
	if !ok {
		return nil, refusal("Secret %s has no key value: the bootstrap data of Machine %s is not there", key, m.Name)
	}
	return &providers.BootstrapData{Value: value, Format: string(s.Data["format"])}, nil
}
