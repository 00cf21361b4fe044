// Package fake is a provider whose cloud is a map in memory. It honours the
// whole contract, as its run of the contract suite shows, and lets a test
// decide what is wanted, what exists, what fails, and what shows late. It
// serves the tests of everything behind the contract.
package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// Name is the provider's name.
const Name = "fake"

// Operations that a [Call] records and [Provider.Fail] takes.
const (
	OpScope   = "Scope"
	OpObserve = "Observe"
	OpConfirm = "Confirm"
	OpApply   = "Apply"
)

// Call is one call that reached the cloud. Desired is none: it is pure.
type Call struct {
	Op    string
	Scope providers.Scope
	Owner providers.OwnerRef // of Scope
	IDs   []providers.ID     // of Confirm, and the one of Apply, Create and Delete
	// Change is that of Apply.
	Change *providers.Change
}

// Provider is the fake. Its methods are safe for concurrent use. The zero
// value is not usable; see [New].
type Provider struct {
	clock func() time.Time
	scope providers.Scope

	mu        sync.Mutex
	wants     map[string]wish
	things    map[providers.ID]*thing
	coverage  map[string]error
	failures  map[string]error
	unread    map[providers.ID]error
	calls     []Call
	mutations int
	inert     map[providers.ID]bool
	lost      bool
	made      map[string]providers.ID // by token

	events chan providers.Event
}

// wish is what one owner wants: resources, or that its spec is at fault.
type wish struct {
	resources []providers.Resource
	err       error
}

// thing is a resource in the cloud and when each way of reading first shows
// it.
type thing struct {
	resource          *providers.Resource
	inBulk, confirmed time.Time
}

var (
	_ providers.Provider = (*Provider)(nil)
	_ providers.Applier  = (*Provider)(nil)
	_ providers.Watcher  = (*Provider)(nil)
)

// New makes an empty cloud that models the given kinds in full. Every owner is
// in the one scope.
func New(account, region string, clock func() time.Time, kinds ...string) *Provider {
	p := &Provider{
		clock:    clock,
		scope:    providers.Scope{Provider: Name, Account: account, Region: region},
		wants:    map[string]wish{},
		things:   map[providers.ID]*thing{},
		coverage: map[string]error{},
		failures: map[string]error{},
		unread:   map[providers.ID]error{},
		inert:    map[providers.ID]bool{},
		made:     map[string]providers.ID{},
		events:   make(chan providers.Event),
	}
	for _, kind := range kinds {
		p.coverage[kind] = nil
	}
	return p
}

// Scope gives the one scope, unless told to fail.
func (p *Provider) Scope(ctx context.Context, owner *providers.Owner) (providers.Scope, error) {
	if err := p.begin(ctx, Call{Op: OpScope, Scope: p.scope, Owner: owner.Ref}); err != nil {
		return providers.Scope{}, fmt.Errorf("scope of %s: %w", owner.Ref, err)
	}
	return p.scope, nil
}

// Desired gives what [Provider.Want] was told. An id of the form "name:NAME"
// is resolved against the snapshot: to the one resource of that kind and
// Name, and to an unchecked resource where there is none or several.
func (p *Provider) Desired(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	p.mu.Lock()
	w := p.wants[key(owner.Ref)]
	p.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	out := make([]providers.Resource, 0, len(w.resources))
	for i := range w.resources {
		r := w.resources[i].Clone()
		r.Owner = owner.Ref
		resolve(r, snap)
		out = append(out, *r)
	}
	return out, nil
}

func resolve(r *providers.Resource, snap *providers.Snapshot) {
	name, ok := strings.CutPrefix(r.ID.Name, "name:")
	if !ok {
		return
	}
	r.ID.Name = ""
	var candidates []*providers.Resource
	for _, seen := range snap.OfKind(r.ID.Kind) {
		if seen.Name == name {
			candidates = append(candidates, seen)
		}
	}
	if len(candidates) != 1 {
		r.Unchecked = fmt.Sprintf("%d resources of kind %s are named %s", len(candidates), r.ID.Kind, name)
		return
	}
	r.ID = candidates[0].ID
}

// Observe gives what shows in bulk by now. A kind that was told to fail has
// its error in Coverage and none of its resources; a part of one, such as
// "Instance/tags", lacks the fields below it.
func (p *Provider) Observe(ctx context.Context, scope providers.Scope) (*providers.Snapshot, error) {
	if err := p.begin(ctx, Call{Op: OpObserve, Scope: scope}); err != nil {
		return nil, fmt.Errorf("observe %s: %w", scope, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	snap := &providers.Snapshot{
		Scope: scope, TakenAt: now,
		Coverage:  make(map[string]error, len(p.coverage)),
		Resources: make(map[providers.ID]*providers.Resource, len(p.things)),
	}
	for part, err := range p.coverage {
		snap.Coverage[part] = err
	}
	for id, t := range p.things {
		if _, modelled := p.coverage[id.Kind]; !modelled || p.coverage[id.Kind] != nil || now.Before(t.inBulk) {
			continue
		}
		snap.Resources[id] = p.seen(t.resource)
	}
	return snap, nil
}

// seen is a copy without the parts that cannot be read.
func (p *Provider) seen(r *providers.Resource) *providers.Resource {
	c := r.Clone()
	for part, err := range p.coverage {
		prefix, ok := strings.CutPrefix(part, r.ID.Kind+"/")
		if !ok || err == nil {
			continue
		}
		for path := range c.Fields.All() {
			if path == "/"+prefix || strings.HasPrefix(path, "/"+prefix+"/") {
				c.Fields.Delete(path)
			}
		}
	}
	return c
}

// Confirm reads resources one by one.
func (p *Provider) Confirm(ctx context.Context, scope providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	if err := p.begin(ctx, Call{Op: OpConfirm, Scope: scope, IDs: slices.Clone(ids)}); err != nil {
		return nil, fmt.Errorf("confirm in %s: %w", scope, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &providers.Confirmation{Resources: map[providers.ID]*providers.Resource{}, Unconfirmed: map[providers.ID]error{}}
	for _, id := range ids {
		coverage, modelled := p.coverage[id.Kind]
		if err := cmp.Or(p.unread[id], coverage); err != nil {
			c.Unconfirmed[id] = err
		} else if !modelled {
			c.Unconfirmed[id] = fmt.Errorf("kind %s: %w", id.Kind, providers.ErrNotRead)
		} else if t := p.things[id]; t != nil && !p.clock().Before(t.confirmed) {
			c.Resources[id] = p.seen(t.resource)
		}
	}
	return c, nil
}

// begin records a call, then fails it if it was cancelled or told to fail.
func (p *Provider) begin(ctx context.Context, call Call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.failures[call.Op]
}

// Registration offers the fake under its name. Kinds of owners are the
// caller's: any object can own.
func (p *Provider) Registration(addToScheme func(*runtime.Scheme) error, owners ...providers.OwnerKind) providers.Registration {
	return providers.Registration{
		Name: Name, AddToScheme: addToScheme, Owners: owners,
		Unmodelled: map[schema.GroupKind]string{},
		Catalog:    p.catalog(),
		New:        func(client.Reader) (providers.Provider, error) { return p, nil },
	}
}

// catalog lists every field that is wanted of anything.
func (p *Provider) catalog() []providers.CatalogRow {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := map[string]providers.CatalogRow{}
	for _, w := range p.wants {
		for i := range w.resources {
			for path, f := range w.resources[i].Fields.All() {
				kind := w.resources[i].ID.Kind
				rows[kind+path] = providers.CatalogRow{
					Kind: kind, Path: path, From: "the test", Mutability: f.Mutability,
					Compare: "as the test says", Source: "package fake",
				}
			}
		}
	}
	out := make([]providers.CatalogRow, 0, len(rows))
	for _, row := range rows {
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b providers.CatalogRow) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Path, b.Path))
	})
	return out
}

func key(o providers.OwnerRef) string {
	return strings.Join([]string{o.Kind, o.Namespace, o.Name}, "/")
}
