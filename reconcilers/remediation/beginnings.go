package remediation

import (
	"context"
	"sync"

	"github.com/holdfast-io/holdfast/detector"
)

// beginnings count the attempts that begin, so that a decision can tell whether
// one has begun since the facts were read that it rests on. A cloud may take
// minutes for the read between the two, and nobody else waits for it.
type beginnings struct {
	mu    sync.Mutex
	count uint64
	last  map[detector.ClusterRef]uint64
}

func (b *beginnings) now() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// add is called once an attempt is stored as begun.
func (b *beginnings) add(cluster detector.ClusterRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		b.last = map[detector.ClusterRef]uint64{}
	}
	b.count++
	b.last[cluster] = b.count
}

// since reports whether an attempt has begun since, in the cluster or, where
// what is in flight in all of them counts, in any.
func (b *beginnings) since(at uint64, cluster detector.ClusterRef, everywhere bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if everywhere {
		return b.count > at
	}
	return b.last[cluster] > at
}

type factsKey struct{}

// facts is when a decision's facts were read, in beginnings.
type facts struct{ at uint64 }

// noting has Facts take down when they are read. Where they never are, nothing
// is decided by which something could begin.
func noting(ctx context.Context) (context.Context, *facts) {
	f := &facts{}
	return context.WithValue(ctx, factsKey{}, f), f
}

func (b *beginnings) note(ctx context.Context) {
	if f, ok := ctx.Value(factsKey{}).(*facts); ok {
		f.at = b.now()
	}
}
