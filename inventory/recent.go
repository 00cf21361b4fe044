package inventory

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NewRecent serves single objects from a reader and keeps what it got for a
// while: all owners of a cluster ask for the same identity, Secret and
// Namespace in one read. Errors, not found among them, are not kept. A changed
// credential is seen when the time is over. Lists are passed on.
func NewRecent(reader client.Reader, kinds *Kinds, keep time.Duration, c clock.PassiveClock) client.Reader {
	return &recent{Reader: reader, kinds: kinds, keep: keep, clock: c, got: map[recentKey]recentObject{}}
}

type recent struct {
	client.Reader
	kinds *Kinds
	keep  time.Duration
	clock clock.PassiveClock

	mu  sync.Mutex
	got map[recentKey]recentObject
}

type recentKey struct {
	gvk string
	client.ObjectKey
}

type recentObject struct {
	client.Object
	at time.Time
}

// Get gives what was got lately, or asks.
func (r *recent) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, r.kinds.scheme)
	if err != nil {
		return err
	}
	k := recentKey{gvk.String(), key}
	r.mu.Lock()
	known := r.got[k]
	if known.Object != nil && r.clock.Since(known.at) >= r.keep {
		known = recentObject{}
	}
	r.mu.Unlock()
	if known.Object != nil {
		return assign(into, known.Object)
	}
	if err := r.Reader.Get(ctx, key, into, opts...); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, o := range r.got { // credentials do not stay longer than they are used
		if r.clock.Since(o.at) >= r.keep {
			delete(r.got, k)
		}
	}
	r.got[k] = recentObject{Object: into.DeepCopyObject().(client.Object), at: r.clock.Now()}
	return nil
}
