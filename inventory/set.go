package inventory

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Position is where an object or a field stands in a file. The zero Position
// is the API server.
type Position struct {
	File string
	Line int // from 1
}

func (p Position) String() string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File
	default:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
}

// Object is one loaded object: typed at its kind's wanted version, or
// unstructured where only its name or contract fields matter.
type Object struct {
	client.Object
	At Position
	// Unscoped objects were written without a namespace: either they are
	// cluster-scoped, or they go to namespace "default".
	Unscoped bool
}

// Unreadable is the reason of a Problem about an object of which nothing but
// its name is known.
const Unreadable = "Unreadable"

// Problem is something about the objects that a person should know and that
// stops nothing.
type Problem struct {
	At      Position
	Object  string // KIND NAMESPACE/NAME, if it is about one
	Cluster types.NamespacedName
	Reason  string // a CamelCase word
	Message string
	// Warning problems keep nothing from being compared.
	Warning bool
}

// Set is every object that was loaded, by kind and name.
type Set struct {
	Problems []Problem
	objects  map[schema.GroupKind]map[types.NamespacedName]*Object
	// bootstraps are bootstrap configurations beside objects.
	bootstraps bootstraps
	// elsewhere are Clusters outside the namespace that was read, and unlisted
	// says why they could not be listed.
	elsewhere []Elsewhere
	unlisted  string
}

func newSet() *Set {
	return &Set{objects: map[schema.GroupKind]map[types.NamespacedName]*Object{}}
}

// add stores an object; the second result is the one it would replace.
func (s *Set) add(gk schema.GroupKind, o *Object) (*Object, bool) {
	byName := s.objects[gk]
	if byName == nil {
		byName = map[types.NamespacedName]*Object{}
		s.objects[gk] = byName
	}
	key := client.ObjectKeyFromObject(o)
	if old, ok := byName[key]; ok {
		return old, false
	}
	byName[key] = o
	return nil, true
}

// Get gives one object, or nil.
func (s *Set) Get(gk schema.GroupKind, namespace, name string) *Object {
	return s.objects[gk][types.NamespacedName{Namespace: namespace, Name: name}]
}

// Len counts the loaded objects.
func (s *Set) Len() int {
	n := 0
	for _, byName := range s.objects {
		n += len(byName)
	}
	return n
}

// kinds lists the loaded group-kinds in a stable order.
func (s *Set) kinds() []schema.GroupKind {
	out := make([]schema.GroupKind, 0, len(s.objects))
	for gk := range s.objects {
		out = append(out, gk)
	}
	slices.SortFunc(out, func(a, b schema.GroupKind) int { return compareText(a.String(), b.String()) })
	return out
}

// of lists a kind's objects, ordered by namespace and name.
func (s *Set) of(gk schema.GroupKind) []*Object {
	out := make([]*Object, 0, len(s.objects[gk]))
	for _, o := range s.objects[gk] {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *Object) int {
		return cmp.Or(compareText(a.GetNamespace(), b.GetNamespace()), compareText(a.GetName(), b.GetName()))
	})
	return out
}

func compareText(a, b string) int { return cmp.Compare(a, b) }

// describe gives KIND NAMESPACE/NAME.
func describe(o client.Object) string {
	name := o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return o.GetObjectKind().GroupVersionKind().Kind + " " + name
}

// store adds an object in its wanted form.
func (s *Set) store(k *Kinds, u *unstructured.Unstructured, at Position) (*Object, error) {
	unscoped := u.GetNamespace() == ""
	if unscoped && at.File != "" {
		u.SetNamespace("default") // as kubectl does
	}
	gk := u.GroupVersionKind().GroupKind()
	o := &Object{Object: u, At: at, Unscoped: unscoped}
	if _, read := k.hub[gk]; read {
		t, err := k.typed(u)
		if err != nil {
			return nil, err
		}
		o.Object = t
	}
	if old, ok := s.add(gk, o); !ok {
		return old, errDuplicate
	}
	return o, nil
}
