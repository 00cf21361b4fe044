package status

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// writer sets conditions on live objects.
type writer struct {
	// reader is not a cache: what is written follows from what is there.
	reader client.Reader
	client client.Client
	places *places
}

// written is what a write found and did.
type written struct {
	// before are our conditions as they were; nil where the object is gone.
	before map[string]*condition
	// changed are those that the write changed.
	changed []condition
}

// set brings our conditions on an object to exactly these; none removes them.
// An object that is gone, has another UID or is being deleted is left alone.
func (w *writer) set(ctx context.Context, o client.Object, conditions []condition, now time.Time) (written, error) {
	wanted := o.GetObjectKind().GroupVersionKind()
	gvk, at, err := w.places.of(wanted)
	if err != nil || len(at.path) == 0 {
		return written{}, err
	}
	var done written
	once := func() error {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(gvk)
		if err := w.reader.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return err
		}
		if live.GetUID() != o.GetUID() || !live.GetDeletionTimestamp().IsZero() {
			return nil
		}
		done = written{before: readAt(live, at)}
		done.changed = differing(conditions, done.before)
		if len(done.changed) == 0 && len(done.before) <= len(conditions) {
			return nil
		}
		return w.write(ctx, live, at, conditions, done.before, now)
	}
	var last error
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { last = once(); return last })
	if err == nil {
		// client-go takes a call that was cancelled or timed out for one that went well.
		err = last
	}
	if client.IgnoreNotFound(err) != nil {
		return written{}, fmt.Errorf("set the conditions of %s %s/%s: %w", wanted.Kind, o.GetNamespace(), o.GetName(), err)
	}
	if err != nil {
		return written{}, nil
	}
	return done, nil
}

func differing(conditions []condition, have map[string]*condition) []condition {
	var out []condition
	for i := range conditions {
		if !conditions[i].same(have[conditions[i].kind]) {
			out = append(out, conditions[i])
		}
	}
	return out
}

func (w *writer) write(ctx context.Context, live *unstructured.Unstructured, at place, conditions []condition, before map[string]*condition, now time.Time) error {
	entries := map[string]map[string]any{}
	for i := range conditions {
		c := &conditions[i]
		entries[c.kind] = c.entry(at, before[c.kind], now)
	}
	if at.keyed {
		return w.apply(ctx, live, at, entries)
	}
	return w.patch(ctx, live, at, entries)
}

// apply owns our entries of a keyed list, and nothing else. The UID makes the
// API server refuse a later object of the same name.
func (w *writer) apply(ctx context.Context, live *unstructured.Unstructured, at place, entries map[string]map[string]any) error {
	list := []any{}
	for _, kind := range ours {
		if e := entries[kind]; e != nil {
			list = append(list, e)
		}
	}
	u := metadataOf(live.GroupVersionKind(), live)
	u.SetUID(live.GetUID())
	if len(list) > 0 { // an applied set without an entry takes the entry away
		if err := unstructured.SetNestedSlice(u.Object, list, at.path...); err != nil {
			return err
		}
	}
	return w.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
}

// patch puts our entries into an atomic list as it stood when it was read. The
// resourceVersion makes it a conflict if it stands otherwise by now. An object
// whose own controller has written no status yet is left alone: parts of it may
// be required that are not ours to say.
func (w *writer) patch(ctx context.Context, live *unstructured.Unstructured, at place, entries map[string]map[string]any) error {
	if _, found, _ := unstructured.NestedMap(live.Object, "status"); !found {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(live.Object, at.path...)
	next := live.DeepCopy()
	if err := unstructured.SetNestedSlice(next.Object, merged(list, entries), at.path...); err != nil {
		return err
	}
	return w.client.Status().Patch(ctx, next, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(v1alpha1.FieldManager))
}

// metadataOf names an object in a version.
func metadataOf(gvk schema.GroupVersionKind, o client.Object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(o.GetNamespace())
	u.SetName(o.GetName())
	return u
}
