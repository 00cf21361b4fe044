package core

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Backoff is how long an object waits whose reconciling has failed several times
// in a row: First, doubled each time, up to Most. An event about the object does
// not wait.
type Backoff struct{ First, Most time.Duration }

// DefaultBackoff is for objects that cannot be made for as long as a quota or a
// missing image is not put right.
var DefaultBackoff = Backoff{First: 5 * time.Second, Most: 5 * time.Minute}

// soon is how many failures in a row are taken for what passes by itself, a
// conflict or a server that starts: they wait as long as upstream has them.
const soon = 5

// limiter lengthens the waits of the limiter that a controller has. Upstream puts
// its own in place of any that it is given, which reaches from 1 s to 1000 s, but
// leaves the queue alone that asks it; it also decides when failures are
// forgotten, so they are counted there.
type limiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	backoff Backoff
}

// When implements [workqueue.TypedRateLimiter].
func (l limiter) When(r reconcile.Request) time.Duration {
	wait := l.TypedRateLimiter.When(r)
	failures := l.NumRequeues(r)
	if failures <= soon {
		return min(wait, l.backoff.Most)
	}
	out := l.backoff.First
	for range failures - soon - 1 {
		if out >= l.backoff.Most {
			break
		}
		out *= 2
	}
	return min(out, l.backoff.Most)
}

// queue makes a controller's queue, of the kind that the gates say.
func (b Backoff) queue(log logr.Logger) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, given workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		l := limiter{given, b}
		if !feature.Gates.Enabled(feature.PriorityQueue) {
			return workqueue.NewTypedRateLimitingQueueWithConfig(l, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name})
		}
		return priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) {
			o.Log, o.RateLimiter = log.WithValues("controller", name), l
		})
	}
}
