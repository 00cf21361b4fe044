package inventory

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Single reads single objects for providers for as long as a process lives:
// identities, their Secrets, Namespaces. Objects come in the version that is
// wanted of their kind, whatever the API server serves. One that was read is
// given again for Keep, since every owner of a cluster asks for the same few;
// errors are not kept. It is safe for concurrent use.
type Single struct {
	Kinds *Kinds
	// Reader asks the API server itself.
	Reader client.Reader
	Mapper meta.RESTMapper
	// Keep is for how long an object is given again; zero asks each time.
	Keep time.Duration
	// Now is the clock.
	Now func() time.Time

	mu   sync.Mutex
	kept map[singleKey]kept
}

type singleKey struct {
	schema.GroupKind
	client.ObjectKey
}

type kept struct {
	object client.Object
	until  time.Time
}

var _ client.Reader = (*Single)(nil)

// Get implements [client.Reader].
func (s *Single) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, s.Kinds.scheme)
	if err != nil {
		return err
	}
	at := singleKey{gvk.GroupKind(), key}
	if o := s.recall(at); o != nil {
		return assign(obj, o)
	}
	found, err := s.read(ctx, gvk, key, obj, opts...)
	if err != nil {
		return err
	}
	s.store(at, found)
	return assign(obj, found)
}

func (s *Single) read(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey, obj client.Object, opts ...client.GetOption) (client.Object, error) {
	hub, typed := s.Kinds.hub[gvk.GroupKind()]
	served := gvk
	if typed {
		var err error
		served, _, err = s.Kinds.served(s.Mapper, gvk.GroupKind())
		switch {
		case meta.IsNoMatchError(err):
			return nil, apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.String())
		case err != nil:
			return nil, fmt.Errorf("find %s in the management cluster: %w", gvk.GroupKind(), err)
		}
	}
	if !typed || served == hub && gvk == hub {
		out := obj.DeepCopyObject().(client.Object)
		return out, s.Reader.Get(ctx, key, out, opts...)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(served)
	if err := s.Reader.Get(ctx, key, u, opts...); err != nil {
		return nil, err
	}
	return s.Kinds.typed(u)
}

// List passes on.
func (s *Single) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return s.Reader.List(ctx, list, opts...)
}

func (s *Single) recall(at singleKey) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kept[at]; ok && s.Now().Before(k.until) {
		return k.object
	}
	return nil
}

// store keeps an object, and drops those whose time is over: credentials are
// not to stay in memory for longer than they are of use.
func (s *Single) store(at singleKey, o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	for key, k := range s.kept {
		if !now.Before(k.until) {
			delete(s.kept, key)
		}
	}
	if s.Keep <= 0 {
		return
	}
	if s.kept == nil {
		s.kept = map[singleKey]kept{}
	}
	s.kept[at] = kept{object: o, until: now.Add(s.Keep)}
}
