package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// store keeps objects as an API server does, every state that there ever was
// with them: versions, UIDs, preconditions, finalizers, and the status apart.
type store struct {
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	now    func() time.Time
	uids   int
	// states are by version; one is never changed once it is here.
	states []state
	// typed are stored objects as their Go types, which are read most.
	typed map[*unstructured.Unstructured]client.Object
}

type state map[key]*unstructured.Unstructured

type key struct {
	kind schema.GroupKind
	name types.NamespacedName
}

func newStore(scheme *runtime.Scheme, now func() time.Time) *store {
	var versions []schema.GroupVersion
	for gvk := range scheme.AllKnownTypes() {
		if !slices.Contains(versions, gvk.GroupVersion()) {
			versions = append(versions, gvk.GroupVersion())
		}
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	return &store{scheme: scheme, mapper: mapper, now: now, states: []state{{}}, typed: map[*unstructured.Unstructured]client.Object{}}
}

func (s *store) latest() state { return s.states[len(s.states)-1] }

func (s *store) keyOf(o runtime.Object, name types.NamespacedName) (key, error) {
	gvk, err := apiutil.GVKForObject(o, s.scheme)
	return key{gvk.GroupKind(), name}, err
}

func resource(k key) schema.GroupResource {
	return schema.GroupResource{Group: k.kind.Group, Resource: k.kind.Kind}
}

// put stores an object under the next version; nil removes it.
func (s *store) put(k key, u *unstructured.Unstructured) {
	next := maps.Clone(s.latest())
	if u == nil {
		delete(next, k)
	} else {
		u.SetResourceVersion(strconv.Itoa(len(s.states)))
		next[k] = u
	}
	s.states = append(s.states, next)
}

// fill gives a reader its own copy of an object.
func (s *store) fill(u *unstructured.Unstructured, into client.Object) error {
	gvk := into.GetObjectKind().GroupVersionKind()
	if to, ok := into.(*unstructured.Unstructured); ok {
		u.DeepCopyInto(to)
		to.SetGroupVersionKind(gvk)
		return nil
	}
	known := s.typed[u]
	if known == nil || reflect.TypeOf(known) != reflect.TypeOf(into) {
		data, err := json.Marshal(u)
		if err != nil {
			return err
		}
		known = reflect.New(reflect.TypeOf(into).Elem()).Interface().(client.Object)
		if err := json.Unmarshal(data, known); err != nil {
			return err
		}
		s.typed[u] = known
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(known.DeepCopyObject()).Elem())
	into.GetObjectKind().SetGroupVersionKind(gvk)
	return nil
}

func (s *store) get(at state, k key, into client.Object) error {
	u := at[k]
	if u == nil {
		return apierrors.NewNotFound(resource(k), k.name.Name)
	}
	return s.fill(u, into)
}

// list fills a list, without those that drop says.
func (s *store) list(version int, into client.ObjectList, drop func() bool, opts []client.ListOption) error {
	at, o := s.states[version], (&client.ListOptions{}).ApplyOptions(opts)
	gvk, err := apiutil.GVKForObject(into, s.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	var names []key
	for k, u := range at {
		if k.kind == gvk.GroupKind() && (o.Namespace == "" || o.Namespace == k.name.Namespace) &&
			(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(u.GetLabels()))) {
			names = append(names, k)
		}
	}
	slices.SortFunc(names, func(a, b key) int { return strings.Compare(a.name.String(), b.name.String()) })
	var items []runtime.Object
	for _, k := range names {
		if drop() {
			continue
		}
		var item client.Object
		switch into.(type) {
		case *unstructured.UnstructuredList:
			item = &unstructured.Unstructured{}
		case *metav1.PartialObjectMetadataList:
			item = &metav1.PartialObjectMetadata{}
		default:
			typed, err := s.scheme.New(gvk)
			if err != nil {
				return err
			}
			item = typed.(client.Object)
		}
		item.GetObjectKind().SetGroupVersionKind(gvk)
		if err := s.fill(at[k], item); err != nil {
			return err
		}
		items = append(items, item)
	}
	into.SetContinue("")
	into.SetResourceVersion(strconv.Itoa(version))
	return meta.SetList(into, items)
}

func (s *store) create(o client.Object) error {
	k, err := s.keyOf(o, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	if s.latest()[k] != nil {
		return apierrors.NewAlreadyExists(resource(k), k.name.Name)
	}
	u, err := s.free(o)
	if err != nil {
		return err
	}
	s.uids++
	u.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	u.SetCreationTimestamp(metav1.NewTime(s.now()))
	u.SetGeneration(1)
	s.put(k, u)
	return s.fill(u, o)
}

func (s *store) free(o client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		return nil, err
	}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// change writes an object anew, its status alone or everything but it.
func (s *store) change(o client.Object, status bool, edit func(now *unstructured.Unstructured) (*unstructured.Unstructured, error)) error {
	k, err := s.keyOf(o, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	now := s.latest()[k]
	if now == nil {
		return apierrors.NewNotFound(resource(k), k.name.Name)
	}
	next, err := edit(now.DeepCopy())
	if err != nil {
		return err
	}
	switch {
	case next.GetUID() != "" && next.GetUID() != now.GetUID():
		return apierrors.NewConflict(resource(k), k.name.Name, fmt.Errorf("it is another object by now"))
	case next.GetResourceVersion() != "" && next.GetResourceVersion() != now.GetResourceVersion():
		return apierrors.NewConflict(resource(k), k.name.Name, fmt.Errorf("it was read at %s and is at %s", next.GetResourceVersion(), now.GetResourceVersion()))
	}
	out := now.DeepCopy()
	if status {
		out.Object["status"] = next.Object["status"]
	} else {
		was := out.Object["status"]
		out = next.DeepCopy()
		out.Object["status"] = was
		out.SetUID(now.GetUID())
		out.SetCreationTimestamp(now.GetCreationTimestamp())
		out.SetDeletionTimestamp(now.GetDeletionTimestamp())
		if fmt.Sprint(out.Object["spec"]) != fmt.Sprint(now.Object["spec"]) {
			out.SetGeneration(now.GetGeneration() + 1)
		}
	}
	if out.GetDeletionTimestamp() != nil && len(out.GetFinalizers()) == 0 {
		s.put(k, nil)
		return nil
	}
	s.put(k, out)
	return s.fill(out, o)
}

func (s *store) update(o client.Object, status bool) error {
	return s.change(o, status, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return s.free(o) })
}

func (s *store) patch(o client.Object, p client.Patch, status bool) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	return s.change(o, status, func(now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		was, err := json.Marshal(now)
		if err != nil {
			return nil, err
		}
		var out []byte
		switch p.Type() {
		case types.MergePatchType:
			out, err = jsonpatch.MergePatch(was, data)
		case types.JSONPatchType:
			var ops jsonpatch.Patch
			if ops, err = jsonpatch.DecodePatch(data); err == nil {
				if out, err = ops.Apply(was); err != nil {
					return nil, apierrors.NewInvalid(now.GroupVersionKind().GroupKind(), now.GetName(), nil)
				}
			}
		default:
			err = fmt.Errorf("patches of type %s are not played", p.Type())
		}
		if err != nil {
			return nil, err
		}
		next := &unstructured.Unstructured{}
		return next, utiljson.Unmarshal(out, &next.Object)
	})
}

func (s *store) remove(o client.Object, opts ...client.DeleteOption) error {
	k, err := s.keyOf(o, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	now := s.latest()[k]
	if now == nil {
		return apierrors.NewNotFound(resource(k), k.name.Name)
	}
	if p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; p != nil {
		if p.UID != nil && *p.UID != now.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != now.GetResourceVersion() {
			return apierrors.NewConflict(resource(k), k.name.Name, fmt.Errorf("the precondition does not hold"))
		}
	}
	if len(now.GetFinalizers()) == 0 {
		s.put(k, nil)
		return nil
	}
	if now.GetDeletionTimestamp() == nil {
		out, at := now.DeepCopy(), metav1.NewTime(s.now())
		out.SetDeletionTimestamp(&at)
		s.put(k, out)
	}
	return nil
}
