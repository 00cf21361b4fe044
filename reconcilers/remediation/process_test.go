package remediation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/remediation"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

var errKilled = errors.New("the process was killed")

// process is one life of Holdfast: what it keeps in memory ends with it. It may
// be killed after each of its writes, whether to the API server or to the
// cloud.
type process struct {
	world      *world
	store      *remediation.Store
	controller *remediation.Controller
	daemon     *sweep.Daemon

	mu       sync.Mutex
	writes   []string
	dieAfter int // writes; below zero is never
	dead     bool
	// before, if not nil, may fail a write before it is made.
	before func(what string) error
}

// write makes a write unless the process is dead, and kills it after the one
// that it is to die after: the write is made, and nobody learns of it.
func (p *process) write(what string, do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errKilled
	}
	if p.before != nil {
		if err := p.before(what); err != nil {
			return err
		}
	}
	err := do()
	p.writes = append(p.writes, what)
	if p.dieAfter >= 0 && len(p.writes) >= p.dieAfter {
		p.dead = true
		return errKilled
	}
	return err
}

func (p *process) alive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errKilled
	}
	return nil
}

// client is the process's only way to the API server.
func (p *process) client(c client.Client) client.WithWatch {
	with, err := client.NewWithWatch(shared.config, client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
	if err != nil {
		p.world.t.Fatal(err)
	}
	name := func(verb string, o client.Object) string { return fmt.Sprintf("%s %T %s", verb, o, o.GetName()) }
	return interceptor.NewClient(with, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := p.alive(); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			if err := p.alive(); err != nil {
				return err
			}
			return c.List(ctx, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return p.write(name("create", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return p.write(name("delete", o), func() error { return c.Delete(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return p.write(name("update", o), func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return p.write(name("patch", o), func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return p.write(name("update "+sub+" of", o), func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return p.write(name("patch "+sub+" of", o), func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			return p.write(name("create "+sub+" of", o), func() error { return c.SubResource(sub).Create(ctx, o, s, opts...) })
		},
	})
}

// Apply is the process's only way to write to the cloud.
func (p *process) Apply(ctx context.Context, scope providers.Scope, change providers.Change) error {
	return p.write("apply to "+change.Resource.Name, func() error {
		if err := p.world.cloud.Apply(ctx, scope, change); err != nil || p.world.restart == nil {
			return err
		}
		return p.world.restart.step(change)
	})
}

// restart is a cloud that stops, changes and starts a machine in three calls,
// and shows the wanted value after the first.
type restart struct {
	asked []string
	// never is a cloud that never gets there.
	never bool
}

func (r *restart) step(change providers.Change) error {
	var paths []string
	for _, f := range change.Fields {
		paths = append(paths, fmt.Sprintf("%s=%s", f.Path, f.Want.Text()))
	}
	if r.asked = append(r.asked, strings.Join(paths, " ")); len(r.asked) < 3 || r.never {
		return providers.ErrPending
	}
	return nil
}

// Fresh is the process's way to read an owner before and after an act: what the
// daemon reads, with who is said to have changed it.
func (p *process) Fresh(ctx context.Context, cluster detector.ClusterRef, owner providers.OwnerRef) (*sweep.Outcome, error) {
	o, err := p.read(ctx, cluster, owner)
	if after := p.world.after[owner.Name]; after != nil {
		after()
	}
	return o, err
}

func (p *process) read(ctx context.Context, cluster detector.ClusterRef, owner providers.OwnerRef) (*sweep.Outcome, error) {
	o, err := p.daemon.Fresh(ctx, cluster, owner)
	if err == nil && p.world.by != "" {
		o.ChangedBy = map[providers.ID]string{idOf(owner.Name): p.world.by}
	}
	return o, err
}

func (p *process) reconcile(name string) error {
	_, err := p.controller.Reconcile(p.world.ctx(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: p.world.ns, Name: name}})
	return err
}

func (w *world) cluster() detector.ClusterRef {
	return detector.ClusterRef{Namespace: w.ns, Name: "eu"}
}
