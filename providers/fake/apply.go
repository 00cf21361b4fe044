package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/providers"
)

// Apply sets the fields of a resource that exists.
func (p *Provider) Apply(ctx context.Context, scope providers.Scope, change providers.Change) error {
	if err := p.begin(ctx, Call{Op: OpApply, Scope: scope, Owner: change.Owner, IDs: []providers.ID{change.Resource}, Change: &change}); err != nil {
		return fmt.Errorf("apply to %s: %w", change.Resource, err)
	}
	if err := change.Refused(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.things[change.Resource]
	if t == nil || t.resource.Gone != "" {
		return &providers.ApplyError{Reason: providers.ReasonMoved, Err: fmt.Errorf("%s does not exist", change.Resource)}
	}
	for _, f := range change.Fields {
		if p.inert[change.Resource] {
			continue
		}
		if set(t.resource, f) {
			p.mutations++
		}
	}
	if p.lost {
		return errLost
	}
	return nil
}

var errLost = errors.New("the answer was lost")

// LoseAnswers makes Apply do its work and then fail, as where the connection
// breaks after the cloud has acted.
func (p *Provider) LoseAnswers(lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = lose
}

// Inert makes Apply succeed for a resource and change nothing.
func (p *Provider) Inert(id providers.ID, inert bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inert[id] = inert
}

// set changes one field; it reports whether that changed anything.
func set(r *providers.Resource, f providers.FieldChange) bool {
	old := r.Fields.Get(f.Path)
	value := f.Want
	if f.Element {
		elements := old.Value.Elements()
		if f.Want.IsAbsent() {
			elements = slices.DeleteFunc(slices.Clone(elements), func(e string) bool { return e == f.Have.Text() })
		} else {
			elements = append(slices.Clone(elements), f.Want.Text())
		}
		value = providers.Set(elements...)
	}
	if value.Equal(old.Value) {
		return false
	}
	if value.IsAbsent() {
		r.Fields.Delete(f.Path)
		return true
	}
	old.Value = value
	r.Set(f.Path, old)
	return true
}

// Watch passes on what [Provider.Tell] was given.
func (p *Provider) Watch(ctx context.Context, scope providers.Scope, tell func(providers.Event)) error {
	if scope != p.scope {
		return fmt.Errorf("%s is not watched", scope)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-p.events:
			tell(e)
		}
	}
}

// Tell makes the cloud tell of a change; it blocks until a watch takes it or
// the time is over, and reports which.
func (p *Provider) Tell(e providers.Event, within time.Duration) bool {
	select {
	case p.events <- e:
		return true
	case <-time.After(within):
		return false
	}
}
