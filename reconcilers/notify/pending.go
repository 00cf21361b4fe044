package notify

import (
	"slices"

	"github.com/holdfast-io/holdfast/detector"
)

// Bounds of what waits for one route.
const (
	maxClusters = 500  // clusters with something to tell
	maxNews     = 1000 // of one cluster; beyond it things are only counted
)

// batch is what is to be told of one cluster, in one message.
type batch struct {
	cluster detector.ClusterRef
	news    map[newsKey]*news
	// uncounted are pieces of news that are only counted.
	uncounted int
}

type newsKey struct {
	remediation bool
	key         string
}

func keyOf(n *news) newsKey { return newsKey{n.about == AboutRemediation, n.key} }

func newBatch(ref detector.ClusterRef) *batch {
	return &batch{cluster: ref, news: map[newsKey]*news{}}
}

// add takes a piece of news in. What came up and went again before anybody was
// told is not told at all; of a Remediation the last phase is.
func (b *batch) add(n *news) {
	key := keyOf(n)
	if waiting := b.news[key]; waiting != nil {
		if waiting.about == AboutDrift && n.about == AboutResolved || waiting.about == AboutResolved && n.about == AboutDrift {
			delete(b.news, key)
			return
		}
	} else if len(b.news) >= maxNews {
		b.uncounted++
		return
	}
	b.news[key] = n
}

func (b *batch) empty() bool { return len(b.news) == 0 && b.uncounted == 0 }

// sorted gives the news of a sort, the worst first.
func (b *batch) sorted(about About) []*news {
	var out []*news
	for _, n := range b.news {
		if n.about == about {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, byWeight)
	return out
}

// pending is what waits for one route, the cluster that waits longest first.
// It is not safe for concurrent use.
type pending struct {
	order   []detector.ClusterRef
	batches map[detector.ClusterRef]*batch
}

// add reports whether there was room.
func (p *pending) add(n *news) bool {
	b := p.batches[n.cluster]
	if b == nil {
		if len(p.order) >= maxClusters {
			return false
		}
		b = newBatch(n.cluster)
		if p.batches == nil {
			p.batches = map[detector.ClusterRef]*batch{}
		}
		p.batches[n.cluster] = b
		p.order = append(p.order, n.cluster)
	}
	b.add(n)
	p.drop(b)
	return true
}

// drop takes out a batch that has become empty.
func (p *pending) drop(b *batch) {
	if b.empty() {
		delete(p.batches, b.cluster)
		p.order = slices.DeleteFunc(p.order, func(ref detector.ClusterRef) bool { return ref == b.cluster })
	}
}

// take gives the next batch, nil if there is none.
func (p *pending) take() *batch {
	if len(p.order) == 0 {
		return nil
	}
	b := p.batches[p.order[0]]
	delete(p.batches, b.cluster)
	p.order = p.order[1:]
	return b
}

// without drops a finding that went before anybody was told, on a route that is
// not told of what goes.
func (p *pending) without(n *news) {
	b := p.batches[n.cluster]
	if b == nil {
		return
	}
	if waiting := b.news[keyOf(n)]; waiting != nil && waiting.about == AboutDrift {
		delete(b.news, keyOf(n))
		p.drop(b)
	}
}

// size is how many pieces of news wait.
func (p *pending) size() int {
	n := 0
	for _, b := range p.batches {
		n += len(b.news) + b.uncounted
	}
	return n
}
