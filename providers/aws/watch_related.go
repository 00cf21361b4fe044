package aws

import (
	"slices"

	"github.com/holdfast-io/holdfast/providers"
)

// relations tell where else a change shows. An event names what an API call
// names, and Holdfast compares what a spec declares: a volume's size is a
// field of the instance, a target group's health check one of the load
// balancer. They are those of the last snapshot, and only ever add to what an
// event names.
type relations struct {
	shows  map[providers.ID][]providers.ID
	groups map[string]providers.ID
}

// learn takes the relations from a snapshot, if anybody may watch.
func (w *watching) learn(snap *providers.Snapshot) {
	if w.events.QueueName == "" && len(w.events.Queues) == 0 {
		return
	}
	r := relationsOf(snap)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.related == nil {
		w.related = map[providers.Scope]*relations{}
	}
	w.related[snap.Scope] = r
}

func relationsOf(snap *providers.Snapshot) *relations {
	r := &relations{shows: map[providers.ID][]providers.ID{}, groups: map[string]providers.ID{}}
	for id, resource := range snap.Resources {
		switch id.Kind {
		case providers.KindVolume:
			r.add(id, providers.KindInstance, resource.Fields.Get("/attachments").Value.Elements()...)
		case providers.KindNetworkInterface:
			// The groups of the primary interface are the instance's.
			if index, ok := resource.Fields.Lookup("/deviceIndex"); ok && index.Value.Text() == "0" {
				r.add(id, providers.KindInstance, resource.Fields.Get("/instanceId").Value.Text())
			}
		case providers.KindRouteTable, providers.KindNetworkACL:
			// A subnet is private or public by its table's routes.
			r.add(id, providers.KindSubnet, resource.Fields.Get(pathAssociations).Value.Elements()...)
		case providers.KindLoadBalancer:
			for path := range resource.Fields.All() {
				if s := providers.Segments(path); len(s) > 1 && s[0] == "targetGroups" {
					r.groups[s[1]] = id
				}
			}
		}
	}
	return r
}

func (r *relations) add(id providers.ID, kind string, names ...string) {
	for _, name := range names {
		if name != "" {
			r.shows[id] = append(r.shows[id], providers.ID{Kind: kind, Name: name})
		}
	}
}

// eventFor gives what one listener is told of an event of its account and
// region; false where it is, for all that is known, about nothing there.
func (w *watching) eventFor(l *listener, n notice) (providers.Event, bool) {
	e := n.event
	e.Own = isOwn(l.arn, n.principal, n.agent)
	e.IDs = slices.Clone(e.IDs)
	w.mu.Lock()
	r := w.related[l.scope]
	w.mu.Unlock()
	for _, group := range n.groups {
		switch {
		case r == nil:
			// Nothing was read yet, so the group could be anybody's.
			e.Gap = true
		case r.groups[group] != providers.ID{}:
			e.IDs = append(e.IDs, r.groups[group])
		}
	}
	if r != nil {
		for _, id := range n.event.IDs {
			e.IDs = append(e.IDs, r.shows[id]...)
		}
	}
	return e, len(e.IDs) > 0 || e.Gap
}
