package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// readiness tells when this process does its work: the policies are loaded, the
// caches are filled, and on the leader a cloud has answered under an identity
// that it accepts. It is a
// [sweep.Sink], because nothing shows that better than a read that came to
// something.
type readiness struct {
	policies func() error
	elected  <-chan struct{}
	cache    cache.Cache
	load     func(context.Context, inventory.Selection) (*inventory.Inventory, error)

	log  logr.Logger
	mu   sync.Mutex
	told string // what was logged last

	answered atomic.Bool
}

// Consume implements [sweep.Sink].
func (r *readiness) Consume(_ context.Context, o *sweep.Outcome) error {
	if o.Result == nil || r.answered.Load() {
		return nil
	}
	for i := range o.Result.Clusters {
		if !o.Result.Clusters[i].TakenAt.IsZero() {
			r.answered.Store(true)
		}
	}
	return nil
}

// probeTime bounds one probe: the kubelet asks again.
const probeTime = 2 * time.Second

// check says why the process is not ready, or nil.
func (r *readiness) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if r.policies == nil {
		return errors.New("still being set up")
	}
	if err := r.policies(); err != nil {
		return err
	}
	if !r.cache.WaitForCacheSync(ctx) {
		return errors.New("the caches are not filled yet")
	}
	select {
	case <-r.elected:
	default:
		return nil // a standby has no more to do than wait
	}
	if r.answered.Load() {
		return nil
	}
	// Without a Cluster there is no cloud to ask.
	none, err := r.load(ctx, inventory.Selection{Clusters: []string{"/"}})
	switch {
	case err != nil:
		return fmt.Errorf("list Clusters: %w", err)
	case len(none.Elsewhere) == 0:
		return nil
	}
	return errors.New("no cloud has answered yet: see the log, and the condition DriftDetected of the Clusters")
}

// tell logs what a probe came to where that is another thing than before: the
// kubelet asks every few seconds, and shows nobody the answer.
func (r *readiness) tell(err error) {
	now := "ready"
	if err != nil {
		now = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case now == r.told:
	case err != nil:
		r.log.Info("Not ready", "reason", now)
	default:
		r.log.Info("Ready")
	}
	r.told = now
}

// ready is the check of /readyz.
func (d *controller) ready(r *http.Request) error {
	if d.readiness == nil {
		return errors.New("still being set up")
	}
	err := d.readiness.check(r.Context())
	d.readiness.tell(err)
	return err
}
