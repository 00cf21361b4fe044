package inventory

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// list asks for one kind page by page, of one namespace unless that is empty
// and of one cluster's label unless that is, and stores what keep says. It is
// asked about each object as it was served.
func (l *load) list(ctx context.Context, gvk schema.GroupVersionKind, namespace, cluster string, keep func(client.Object) bool) error {
	where := ""
	opts := []client.ListOption{client.Limit(pageSize)}
	if namespace != "" {
		opts, where = append(opts, client.InNamespace(namespace)), " in "+namespace
	}
	if cluster != "" {
		opts = append(opts, client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
	}
	next := ""
	for {
		page, err := l.page(ctx, gvk, append(opts[:len(opts):len(opts)], client.Continue(next))...)
		if err != nil {
			return fmt.Errorf("list %s%s: %w", gvk.GroupKind(), where, err)
		}
		err = meta.EachListItem(page, func(item runtime.Object) error {
			if o, ok := item.(client.Object); ok && keep(o) {
				l.store(gvk, o)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("list %s%s: %w", gvk.GroupKind(), where, err)
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// page gets one page. It is decoded at once into the kind's type, which costs a
// third of going by way of maps; only where one object does not fit the type,
// the page is read as maps, so that the others are not lost.
func (l *load) page(ctx context.Context, gvk schema.GroupVersionKind, opts ...client.ListOption) (client.ObjectList, error) {
	listKind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	if _, typed := l.Kinds.hub[gvk.GroupKind()]; typed && l.Kinds.scheme.Recognizes(listKind) {
		made, err := l.Kinds.scheme.New(listKind)
		if err != nil {
			return nil, err
		}
		page, ok := made.(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%s is no list", listKind)
		}
		err = l.Reader.List(ctx, page, opts...)
		var status apierrors.APIStatus
		if err == nil || errors.As(err, &status) || ctx.Err() != nil {
			return page, err
		}
	}
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(listKind)
	return page, l.Reader.List(ctx, page, opts...)
}

// store keeps an object in its wanted form, without what nobody reads. One that
// cannot be read must not hide the others.
func (l *load) store(gvk schema.GroupVersionKind, o client.Object) {
	lighten(o)
	l.storing.Lock()
	defer l.storing.Unlock()
	var err error
	if l.Kinds.isBootstrap(gvk.GroupKind()) {
		err = l.storeBootstrap(gvk, o)
	} else if u, ok := o.(*unstructured.Unstructured); ok {
		_, err = l.set.store(l.Kinds, u, Position{})
	} else {
		err = l.set.storeTyped(l.Kinds, gvk, o, l.texts)
	}
	if err != nil && !errors.Is(err, errDuplicate) {
		l.set.Problems = append(l.set.Problems, Problem{Object: describe(o), Reason: Unreadable, Message: err.Error()})
	}
}

// lighten drops what takes up memory and nobody compares: who wrote which
// field, and kubectl's copy of the object.
func lighten(o client.Object) {
	o.SetManagedFields(nil)
	if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
		delete(a, corev1.LastAppliedConfigAnnotation)
		o.SetAnnotations(a)
	}
}

// storeTyped adds an object that was decoded in the version gvk.
func (s *Set) storeTyped(k *Kinds, gvk schema.GroupVersionKind, o client.Object, said texts) error {
	out, err := k.hubOf(gvk, o)
	if err != nil {
		return err
	}
	said.share(reflect.ValueOf(out).Elem())
	if _, ok := s.add(gvk.GroupKind(), &Object{Object: out, Unscoped: out.GetNamespace() == ""}); !ok {
		return errDuplicate
	}
	return nil
}

// hubOf gives an object that was decoded in the version gvk in its wanted one. It
// is copied out of its page, which would otherwise live as long as any object of
// it.
func (k *Kinds) hubOf(gvk schema.GroupVersionKind, o client.Object) (client.Object, error) {
	hub := k.hub[gvk.GroupKind()]
	made, err := k.scheme.New(hub)
	if err != nil {
		return nil, err
	}
	if gvk == hub {
		reflect.ValueOf(made).Elem().Set(reflect.ValueOf(o).Elem())
	} else if err := toHub(o, made); err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", gvk.Version, hub.Version, err)
	}
	out, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", gvk.Kind)
	}
	out.GetObjectKind().SetGroupVersionKind(hub)
	strip(out)
	return out, nil
}

// bystanders counts the Machines of Clusters that are not selected.
func (l *load) bystanders(ctx context.Context, inv *Inventory) error {
	at := map[types.NamespacedName]*Elsewhere{}
	for i := range inv.Elsewhere {
		at[inv.Elsewhere[i].Key] = &inv.Elsewhere[i]
	}
	gvk, _, err := l.Kinds.served(l.Mapper, machineGK)
	if err != nil {
		return fmt.Errorf("find %s in the management cluster: %w", machineGK, err)
	}
	visit := func(m *clusterv1.Machine) {
		e := at[types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.ClusterName}]
		if e == nil {
			return
		}
		e.Machines++
		if l.selection.Others(m) {
			m = m.DeepCopy() // its page goes
			lighten(m)
			e.Busy = append(e.Busy, m)
		}
	}
	// A load of its own, so that its Machines are no part of the inventory.
	count := &load{Live: l.Live, set: newSet(), texts: texts{}}
	for _, ns := range l.namespaces() {
		err := count.list(ctx, gvk, ns, "", func(o client.Object) bool {
			m, ok := o.(*clusterv1.Machine)
			if ok {
				visit(m)
			}
			return !ok // of another version: counted when it is converted
		})
		if err != nil {
			return err
		}
	}
	for _, o := range count.set.of(machineGK) {
		visit(o.Object.(*clusterv1.Machine))
	}
	return nil
}
