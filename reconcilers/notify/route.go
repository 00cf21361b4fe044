package notify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How a message that cannot be sent is tried again: for about half an hour.
// News gather meanwhile.
const (
	maxTries   = 12
	firstRetry = time.Second
	longRetry  = 5 * time.Minute
	// sendTimeout bounds one try.
	sendTimeout = 30 * time.Second
)

// Outcomes of messages and news, as metrics name them.
const (
	outcomeSent = "sent"
	// outcomeRetried counts tries that failed and are made again.
	outcomeRetried = "retried"
	// outcomeDead counts messages that were given up.
	outcomeDead = "dead"
	// outcomeDropped counts news for which there was no room.
	outcomeDropped = "dropped"
)

// route is one place that is told.
type route struct {
	Route
	clock  clock.Clock
	reader client.Reader
	limit  *rate.Limiter
	// busy is held while a message is handed to the service.
	busy chan struct{}
	// some is signalled when news came in.
	some chan struct{}

	mu     sync.Mutex
	waits  pending
	counts map[string]int64
}

func newRoute(r Route, clock clock.Clock, reader client.Reader) *route {
	every, burst := r.Rate.Every.Duration, r.Rate.Burst
	if every == 0 {
		every = defaultEvery
	}
	if burst == 0 {
		burst = defaultBurst
	}
	return &route{
		Route: r, clock: clock, reader: reader, limit: rate.NewLimiter(rate.Every(every), burst),
		busy: make(chan struct{}, 1), some: make(chan struct{}, 1), counts: map[string]int64{},
	}
}

// offer takes news in, or not. It never blocks.
func (r *route) offer(all []*news) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range all {
		switch {
		case r.Only.tells(n):
			if !r.waits.add(n) {
				r.counts[outcomeDropped]++
			}
		case n.about == AboutResolved:
			r.waits.without(n)
		}
	}
	select {
	case r.some <- struct{}{}:
	default:
	}
}

func (r *route) add(outcome string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[outcome]++
}

func (r *route) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits.size() > 0
}

func (r *route) take() *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits.take()
}

// run sends until the context ends.
func (r *route) run(ctx context.Context) {
	ctx = logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).WithValues("route", r.Name))
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.some:
		}
		// News gather while the rate lets nothing go.
		for r.waiting() {
			if r.token(ctx) != nil {
				return
			}
			if b := r.take(); b != nil {
				r.deliver(ctx, b)
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// token waits for the rate.
func (r *route) token(ctx context.Context) error {
	now := r.clock.Now()
	return r.sleep(ctx, r.limit.ReserveN(now, 1).DelayFrom(now))
}

func (r *route) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := r.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}

// deliver sends a batch, again and again where that fails, until it is given
// up.
func (r *route) deliver(ctx context.Context, b *batch) {
	log := logr.FromContextOrDiscard(ctx)
	for try := 1; ; try++ {
		err := r.send(ctx, b)
		switch {
		case err == nil:
			r.add(outcomeSent)
			if try > 1 {
				log.Info("Notification sent after retries", "cluster", b.cluster.String(), "tries", try)
			}
			return
		case ctx.Err() != nil:
			return
		case try == maxTries:
			r.add(outcomeDead)
			log.Error(err, "Gave up a notification", "cluster", b.cluster.String(), "tries", try)
			return
		case try == 1:
			log.Info("Cannot send a notification, trying again", "cluster", b.cluster.String(), "reason", err.Error())
		}
		r.add(outcomeRetried)
		wait := min(firstRetry<<(try-1), longRetry)
		if r.sleep(ctx, wait/2+time.Duration(rand.Float64()*float64(wait/2))) != nil { //nolint:gosec // jitter is no secret
			return
		}
	}
}

// errHangs says that the service has not answered an earlier message: shoutrrr
// cannot be interrupted, and one that hangs is enough.
var errHangs = errors.New("an earlier message still hangs")

// send makes one try. The credential is read anew for each.
func (r *route) send(ctx context.Context, b *batch) error {
	a, err := r.URL.read(ctx, r.reader)
	if err != nil {
		return err
	}
	limit := a.dialect.max
	if r.MaxLength != 0 {
		limit = min(limit, r.MaxLength)
	}
	m := a.dialect.message(b, limit)
	select {
	case r.busy <- struct{}{}:
	default:
		return fmt.Errorf("send by %s: %w", a.service, errHangs)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-r.busy }()
		done <- a.send(m)
	}()
	timer := r.clock.NewTimer(sendTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C():
		return fmt.Errorf("send by %s: no answer after %s", a.service, sendTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
