package fake

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/providers"
)

// Want says what an owner wants, in place of what it wanted before.
func (p *Provider) Want(owner providers.OwnerRef, resources ...providers.Resource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := wish{}
	for i := range resources {
		w.resources = append(w.resources, *resources[i].Clone())
	}
	p.wants[key(owner)] = w
}

// WantError makes Desired fail for an owner, as for a spec at fault.
func (p *Provider) WantError(owner providers.OwnerRef, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wants[key(owner)] = wish{err: err}
}

// Put makes a resource exist, in place of one with the same id, and shows it
// at once.
func (p *Provider) Put(r *providers.Resource) { p.PutLate(r, time.Time{}, time.Time{}) }

// PutLate makes a resource exist that Observe shows from one time on, and
// Confirm from another: an eventually consistent cloud.
func (p *Provider) PutLate(r *providers.Resource, inBulk, confirmed time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mutations++
	p.things[r.ID] = &thing{resource: r.Clone(), inBulk: inBulk, confirmed: confirmed}
}

// Alter changes a resource in place; it reports whether there is one.
func (p *Provider) Alter(id providers.ID, change func(*providers.Resource)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.things[id]
	if t == nil {
		return false
	}
	p.mutations++
	change(t.resource)
	return true
}

// Remove makes a resource exist no more; it reports whether there was one.
func (p *Provider) Remove(id providers.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.things[id]
	if ok {
		p.mutations++
		delete(p.things, id)
	}
	return ok
}

// Fail makes an operation fail with the error from now on; nil ends that.
func (p *Provider) Fail(op string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures[op] = err
}

// Cover sets the coverage of a kind, "Instance", or of a part of one,
// "Instance/tags": nil is complete, an error why it cannot be read.
func (p *Provider) Cover(part string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coverage[part] = err
}

// Unreadable makes Confirm fail for one id; nil ends that.
func (p *Provider) Unreadable(id providers.ID, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.unread, id)
		return
	}
	p.unread[id] = err
}

// Calls gives the calls that reached the cloud so far, in order.
func (p *Provider) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Mutations counts the changes to the cloud so far, the test's own included.
func (p *Provider) Mutations() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mutations
}
