package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
)

// queue holds outcomes until the sinks take them, in the order in which they
// were decided. Handing one over never blocks: a sink may itself ask for a
// fresh read while it consumes.
type queue struct {
	mu      sync.Mutex
	waiting []*delivery
	some    chan struct{}
	closed  bool
}

// delivery is one outcome on its way.
type delivery struct {
	outcome *Outcome
	done    chan struct{}
}

// wait blocks until the sinks took the outcome; there may be none.
func (d *delivery) wait(ctx context.Context) {
	if d == nil {
		return
	}
	select {
	case <-d.done:
	case <-ctx.Done():
	}
}

func newQueue() *queue { return &queue{some: make(chan struct{}, 1)} }

func (q *queue) put(o *Outcome) *delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := &delivery{outcome: o, done: make(chan struct{})}
	if q.closed {
		close(d.done)
		return d
	}
	q.waiting = append(q.waiting, d)
	select {
	case q.some <- struct{}{}:
	default:
	}
	return d
}

func (q *queue) take() *delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	d := q.waiting[0]
	q.waiting[0] = nil // else the slice would hold on to a whole snapshot
	q.waiting = q.waiting[1:]
	return d
}

// close lets go of what nobody will take any more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, d := range q.waiting {
		close(d.done)
	}
	q.waiting = nil
}

// tell hands an outcome to the sinks.
func (d *Daemon) tell(o *Outcome) *delivery { return d.queue.put(o) }

// publish feeds the sinks until the context ends.
func (d *Daemon) publish(ctx context.Context) {
	defer d.queue.close()
	for {
		next := d.queue.take()
		if next == nil {
			select {
			case <-ctx.Done():
				return
			case <-d.queue.some:
			}
			continue
		}
		d.handWhole(ctx, next.outcome)
		close(next.done)
	}
}

// handWhole gives an outcome to the sinks, and after it the end of those of its
// clusters that went meanwhile.
func (d *Daemon) handWhole(ctx context.Context, o *Outcome) {
	d.hand(ctx, o)
	if gone := d.goneSince(o); len(gone) > 0 {
		d.hand(ctx, &Outcome{At: o.At, Cause: CauseOwnerChanged, Inventory: &inventory.Inventory{},
			Result: &Result{}, Gone: gone, Policies: o.Policies})
	}
}

// hand gives an outcome to each sink.
func (d *Daemon) hand(ctx context.Context, o *Outcome) {
	for _, sink := range d.Sinks {
		if ctx.Err() != nil {
			return
		}
		err := sink.Consume(ctx, o)
		if err == nil || ctx.Err() != nil {
			continue
		}
		logr.FromContextOrDiscard(ctx).Error(errors.New(providers.Redact(oneLine(err.Error()))), "Sink failed, the next outcome brings the state again", "sink", fmt.Sprintf("%T", sink))
		if d.Meter != nil {
			d.Meter.SinkFailed(sink, err)
		}
	}
}

// goneSince gives those of an outcome's clusters that went while it was being
// made: their end was told before, and the outcome has brought them back (C68).
func (d *Daemon) goneSince(o *Outcome) (out []detector.ClusterRef) {
	if o.Inventory == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range o.Inventory.Clusters {
		if d.clusters[refOf(c)] == nil {
			out = append(out, refOf(c))
		}
	}
	return out
}
