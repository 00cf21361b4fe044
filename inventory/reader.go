package inventory

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Reader serves single objects to providers: what was loaded from the set, in
// the wanted version, and the rest (Secrets, Namespaces) from fallback. A nil
// fallback stands for files: what is not in them does not exist. What fallback
// gave is kept for the reader's life, since every owner of a cluster asks for the
// same Namespace; errors are not kept.
func (s *Set) Reader(kinds *Kinds, fallback client.Reader) client.Reader {
	return &reader{set: s, kinds: kinds, fallback: fallback, got: newSet()}
}

type reader struct {
	set      *Set
	kinds    *Kinds
	fallback client.Reader

	mu  sync.Mutex
	got *Set // from fallback
}

// Get finds an object by name. A key without a namespace also finds what was
// read from a file without one.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, r.kinds.scheme)
	if err != nil {
		return err
	}
	found := r.set.Get(gvk.GroupKind(), key.Namespace, key.Name)
	if found == nil && key.Namespace == "" {
		found = r.set.Get(gvk.GroupKind(), "default", key.Name)
	}
	switch {
	case found != nil:
		return assign(obj, found.Object)
	case r.fallback != nil && !r.loaded(gvk.GroupKind()):
		return r.ask(ctx, gvk.GroupKind(), key, obj, opts...)
	default:
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.String())
	}
}

// ask gets an object from fallback, once.
func (r *reader) ask(ctx context.Context, gk schema.GroupKind, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.got.Get(gk, key.Namespace, key.Name); known != nil {
		return assign(obj, known.Object)
	}
	if err := r.fallback.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	r.got.add(gk, &Object{Object: obj.DeepCopyObject().(client.Object)})
	return nil
}

// List passes on to fallback: providers list nothing that is in the set.
func (r *reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if r.fallback == nil {
		return fmt.Errorf("list %T: not served from files", list)
	}
	return r.fallback.List(ctx, list, opts...)
}

// loaded reports whether a live read would have put the kind's objects into
// the set.
func (r *reader) loaded(gk schema.GroupKind) bool {
	_, ok := r.kinds.hub[gk]
	return ok && gk.Group != ""
}

func assign(to, from client.Object) error {
	out, in := reflect.ValueOf(to), reflect.ValueOf(from.DeepCopyObject())
	if out.Type() != in.Type() {
		return fmt.Errorf("read %s: want %T, have %T", describe(from), to, from)
	}
	out.Elem().Set(in.Elem())
	return nil
}
