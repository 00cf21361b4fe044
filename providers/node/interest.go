package node

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/providers"
)

// remembered is for how many reads of a scope in a row what nobody asks for any
// more is read all the same: whoever asks does so once before each read.
const remembered = 2

// place is a scope: the clusters that live in it.
type place struct {
	// round counts the reads.
	round    int
	clusters map[types.NamespacedName]*interest
}

// interest is what is compared of one cluster's Nodes.
type interest struct {
	uid types.UID
	// asked is the round in which somebody asked last.
	asked int
	// labels are the keys that some Machine wants, with the round of each. Nodes
	// carry dozens of others, which are not kept.
	labels map[string]int
}

// ask notes that an owner's cluster lives in a scope. One of which no Machine
// has a Node yet is not read.
func (p *Provider) ask(scope providers.Scope, owner *providers.Owner) {
	if nodeName(owner) == "" {
		return
	}
	keys := wantedLabels(owner)
	name := clusterOf(owner)
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.places[scope]
	if at == nil {
		at = &place{clusters: map[types.NamespacedName]*interest{}}
		p.places[scope] = at
	}
	i := at.clusters[name]
	if i == nil || i.uid != owner.Cluster.UID {
		i = &interest{uid: owner.Cluster.UID, labels: map[string]int{}}
		at.clusters[name] = i
	}
	i.asked = at.round
	for key := range keys {
		i.labels[key] = at.round
	}
}

// target is one cluster to read.
type target struct {
	cluster types.NamespacedName
	form    *form
}

// begin gives what a read of a scope is to read, those first that answered last
// time, and forgets what nobody asks for.
func (p *Provider) begin(scope providers.Scope) []target {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.places[scope]
	if at == nil {
		return nil
	}
	old := func(asked int) bool { return at.round-asked >= remembered }
	var out []target
	for name, i := range at.clusters {
		if old(i.asked) {
			delete(at.clusters, name)
			continue
		}
		maps.DeleteFunc(i.labels, func(_ string, asked int) bool { return old(asked) })
		out = append(out, target{cluster: name, form: newForm(name, maps.Keys(i.labels))})
	}
	at.round++
	p.forget()
	slices.SortFunc(out, func(a, b target) int {
		return cmp.Or(cmp.Compare(p.failures[a.cluster], p.failures[b.cluster]), cmp.Compare(a.cluster.String(), b.cluster.String()))
	})
	return out
}

// forget drops what was kept of clusters that no scope has. It holds mu.
func (p *Provider) forget() {
	there := map[types.NamespacedName]bool{}
	for scope, at := range p.places {
		for name := range at.clusters {
			there[name] = true
		}
		if len(at.clusters) == 0 {
			delete(p.places, scope)
		}
	}
	maps.DeleteFunc(p.failures, func(name types.NamespacedName, _ int) bool { return !there[name] })
	p.clients.keep(there)
}

// formOf gives what is kept of a cluster's Nodes, in whatever scope it lives.
func (p *Provider) formOf(scope providers.Scope, cluster types.NamespacedName) *form {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.places[scope]
	if at == nil || at.clusters[cluster] == nil {
		return newForm(cluster, func(func(string) bool) {})
	}
	return newForm(cluster, maps.Keys(at.clusters[cluster].labels))
}

// answered notes whether a cluster could be read.
func (p *Provider) answered(cluster types.NamespacedName, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.failures, cluster)
	} else {
		p.failures[cluster]++
	}
}
