package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// Operations of building, as OpScope and the others.
const (
	OpCreate = "Create"
	OpDelete = "Delete"
)

// Annotations that the fake keeps its records and notes in: it has no types of
// its own to keep them in.
const (
	madePrefix = "made.fake/"
	WaitingFor = "fake/waiting"
	FailedBy   = "fake/failed"
)

// Fields by which the fake tells whom a thing was made for, and as what. Fields
// under [Later] are left for Apply to set.
const (
	ownerField   = "/owner"
	plannedField = "/planned"
	Later        = "/later"
)

var _ providers.Builder = (*Provider)(nil)

// Settle has nothing to decide.
func (p *Provider) Settle(context.Context, providers.Scope, *providers.Owner) error { return nil }

// Plan gives what [Provider.Want] was told, with the ids of what was made in
// place of provisional ones.
func (p *Provider) Plan(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	out, err := p.Desired(owner, snap)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for i := range out {
		id := out[i].ID
		if !id.Provisional() {
			continue
		}
		name := owner.Infra.GetAnnotations()[annotation(id)]
		for _, r := range snap.OfKind(id.Kind) {
			if name == "" && text(r, ownerField) == string(owner.Ref.UID) && text(r, plannedField) == id.Name {
				name = r.ID.Name
			}
		}
		ids[id.Name] = cmp.Or(name, id.Name)
	}
	for i := range out {
		r := &out[i]
		r.ID.Name = cmp.Or(ids[r.ID.Name], r.ID.Name)
		r.Needs = slices.Clone(r.Needs)
		for n := range r.Needs {
			r.Needs[n].Name = cmp.Or(ids[r.Needs[n].Name], r.Needs[n].Name)
		}
		for path, f := range r.Fields.Clone().All() {
			if name := ids[f.Value.Text()]; name != "" {
				f.Value = providers.String(name)
				r.Set(path, f)
			}
		}
	}
	return out, nil
}

// Create makes a thing with the fields that are known, but those under Later.
func (p *Provider) Create(ctx context.Context, scope providers.Scope, c providers.Creation) (providers.ID, error) {
	if err := p.begin(ctx, Call{Op: OpCreate, Scope: scope, Owner: c.Owner.Ref, IDs: []providers.ID{c.Want.ID}}); err != nil {
		return providers.ID{}, fmt.Errorf("create %s: %w", c.Want.ID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id, again := p.made[c.Token]
	if !again {
		p.mutations++
		id = providers.ID{Kind: c.Want.ID.Kind, Name: fmt.Sprintf("%s-%d", strings.ToLower(c.Want.ID.Kind), p.mutations)}
		r := &providers.Resource{ID: id, Name: c.Want.Name, Needs: c.Want.Needs, Closed: []string{""}}
		for path, f := range c.Want.Fields.All() {
			if !f.Value.Provisional() && !strings.HasPrefix(path, Later) {
				r.Set(path, providers.Field{Value: f.Value})
			}
		}
		r.Set(ownerField, providers.Field{Value: providers.String(string(c.Owner.Ref.UID))})
		r.Set(plannedField, providers.Field{Value: providers.String(c.Want.ID.Name)})
		p.things[id], p.made[c.Token] = &thing{resource: r}, id
	}
	if p.lost {
		return providers.ID{}, errLost
	}
	return id, nil
}

// Record keeps the id in an annotation.
func (p *Provider) Record(owner *providers.Owner, planned, made providers.ID) error {
	annotate(owner, annotation(planned), made.Name)
	return nil
}

// Doomed gives what was made for the owner.
func (p *Provider) Doomed(owner *providers.Owner, snap *providers.Snapshot) (out []providers.Resource, err error) {
	for kind, err := range snap.Coverage {
		if err != nil {
			return nil, fmt.Errorf("what is left of %s cannot be told: %s: %w", owner.Ref, kind, err)
		}
	}
	for _, r := range snap.Resources {
		if text(r, ownerField) == string(owner.Ref.UID) {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b providers.Resource) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return out, nil
}

// Delete refuses what something else still needs.
func (p *Provider) Delete(ctx context.Context, scope providers.Scope, d providers.Deletion) error {
	id := d.Have.ID
	if err := p.begin(ctx, Call{Op: OpDelete, Scope: scope, Owner: d.Owner.Ref, IDs: []providers.ID{id}}); err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, t := range p.things {
		if slices.Contains(t.resource.Needs, id) {
			return &providers.ApplyError{Reason: providers.ReasonRefused, Err: fmt.Errorf("%s is needed by %s", id, other)}
		}
	}
	if _, ok := p.things[id]; ok {
		p.mutations++
		delete(p.things, id)
	}
	if p.lost {
		return errLost
	}
	return nil
}

// Note keeps what is said in annotations.
func (p *Provider) Note(owner *providers.Owner, _ *providers.Snapshot, progress providers.Progress) (waiting string) {
	failed := ""
	if progress.Failed != nil {
		failed = progress.Failed.Error()
	}
	waiting = progress.Before
	for _, id := range slices.SortedFunc(maps.Keys(progress.Open), func(a, b providers.ID) int { return strings.Compare(a.String(), b.String()) }) {
		waiting = cmp.Or(waiting, id.String()+": "+progress.Open[id])
	}
	annotate(owner, FailedBy, failed)
	annotate(owner, WaitingFor, waiting)
	return waiting
}

func annotation(planned providers.ID) string {
	return madePrefix + strings.NewReplacer(" ", "_", "(", "", ")", "").Replace(planned.Kind+"."+planned.Name)
}

func annotate(owner *providers.Owner, key, value string) {
	all := maps.Clone(owner.Infra.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	if all[key] = value; value == "" {
		delete(all, key)
	}
	owner.Infra.SetAnnotations(all)
}

func text(r *providers.Resource, path string) string { return r.Fields.Get(path).Value.Text() }
