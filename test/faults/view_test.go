package faults

import (
	"context"
	"errors"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errReader = errors.New("the API server does not answer")

// view is the client of a process: it writes to what is, and reads what its
// profile says.
type view struct {
	client.Client // nil: what is not played panics
	*store
	rand *rand.Rand
	// lag is by how many writes reads of a kind may be behind.
	lag func(kind schema.GroupKind) int
	// lossy lists now and then lack objects, fail now and then.
	lossy, fail float64
	// between is called before each read and write: the world goes on.
	between func()
	// wrote judges a write before it is made.
	wrote func(verb string, k key, before state)
	// oldest is the oldest state that was served since it was last set.
	oldest int
}

func (v *view) Scheme() *runtime.Scheme     { return v.scheme }
func (v *view) RESTMapper() meta.RESTMapper { return v.mapper }

// at picks the state, by its version, that a read of a kind is served.
func (v *view) at(kind schema.GroupKind) int {
	v.between()
	i := len(v.states) - 1
	if lag := v.lag(kind); lag > 0 {
		i = max(i-v.rand.IntN(lag+1), 0)
	}
	v.oldest = min(v.oldest, i)
	return i
}

func (v *view) Get(_ context.Context, name client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	k, err := v.keyOf(o, name)
	if err != nil {
		return err
	}
	if v.rand.Float64() < v.fail {
		return errReader
	}
	return v.get(v.states[v.at(k.kind)], k, o)
}

func (v *view) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	k, err := v.keyOf(into, client.ObjectKey{})
	if err != nil {
		return err
	}
	if v.rand.Float64() < v.fail {
		return errReader
	}
	k.kind.Kind = k.kind.Kind[:len(k.kind.Kind)-len("List")]
	lossy := v.lossy > 0 && v.rand.Float64() < 0.3
	return v.list(v.at(k.kind), into, func() bool { return lossy && v.rand.Float64() < v.lossy }, opts)
}

func (v *view) write(verb string, o client.Object, do func() error) error {
	k, err := v.keyOf(o, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	v.between()
	if v.rand.Float64() < v.fail {
		return errReader // nothing was written
	}
	before := v.latest()
	if err := do(); err != nil {
		return err
	}
	v.wrote(verb, k, before)
	if v.rand.Float64() < v.fail {
		return errReader // it was, and nobody learns of it
	}
	return nil
}

func (v *view) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return v.write("create", o, func() error { return v.create(o) })
}

func (v *view) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return v.write("update", o, func() error { return v.update(o, false) })
}

func (v *view) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return v.write("patch", o, func() error { return v.patch(o, p, false) })
}

func (v *view) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	return v.write("delete", o, func() error { return v.remove(o, opts...) })
}

func (v *view) Status() client.SubResourceWriter { return viewStatus{v: v} }

type viewStatus struct {
	client.SubResourceWriter
	v *view
}

func (s viewStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.v.write("update status", o, func() error { return s.v.update(o, true) })
}

func (s viewStatus) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.v.write("patch status", o, func() error { return s.v.patch(o, p, true) })
}
