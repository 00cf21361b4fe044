package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Daemon reads clouds for good: on schedule, when asked, when an object
// changed, and when a cloud tells of a change. It writes nothing; what its
// reads come to goes to Sinks. The fields are set before Start and not changed
// afterwards.
type Daemon struct {
	// Providers by name. One that implements [providers.Watcher] is watched.
	Providers map[string]providers.Provider
	// Load reads objects live: [inventory.Live] does. It is safe for
	// concurrent use. An error means that nothing was read: a part of the
	// objects would look like the rest having gone.
	Load func(context.Context, inventory.Selection) (*inventory.Inventory, error)
	// Policies gives the policies that hold now; nil stands for the built-in
	// ones. PolicyChanges is told after they changed; it may be nil.
	Policies      func() *policies.Set
	PolicyChanges <-chan struct{}
	// Records of what was done; nil means that nothing is ever done.
	Records Records
	// Sinks take outcomes, in this order.
	Sinks []Sink
	// Triggers, if not nil, is a cache of the metadata of objects, by which
	// changes of them are noticed: [NewTriggers] makes one. Nothing is read
	// from it.
	Triggers cache.Cache
	// Kinds that Triggers watches.
	Kinds *inventory.Kinds
	// Meter, if not nil, is told of what no Outcome says.
	Meter Meter
	// Clock is the real one if it is nil.
	Clock clock.WithTicker
	// Log is for what has no context of its own.
	Log logr.Logger

	// CreationGrace is passed on to the detector; zero is its default.
	CreationGrace time.Duration
	// StartSpread is the time over which the first reads after Start are
	// spread; zero means [DefaultStartSpread], and less than zero none.
	StartSpread time.Duration
	// Concurrency bounds the scopes that are read at once; zero means
	// [DefaultConcurrency].
	Concurrency int
}

// Defaults of a Daemon.
const (
	DefaultStartSpread = 10 * time.Second
	DefaultConcurrency = 4
)

// Causes of outcomes.
const (
	CauseSchedule      = "Schedule"
	CauseStart         = "Start"
	CauseRequested     = "Requested"
	CauseEvent         = "Event"
	CauseOwnerChanged  = "OwnerChanged"
	CausePolicyChanged = "PolicyChanged"
	CauseGateOpened    = "GateOpened"
	CauseVerify        = "Verify"
	// CauseRetry follows a read that failed or was not complete.
	CauseRetry = "Retry"
	// CauseStale says that nothing could be read for longer than the policies'
	// schedule.staleAfter: every owner is NotChecked.
	CauseStale = "Stale"
)

// Meter is told of what no Outcome says. Its methods must not block.
type Meter interface {
	// EventLag is the time from an event, by the cloud's clock, to the
	// decision on what it named.
	EventLag(scope providers.Scope, lag time.Duration)
	// SweepFailed is told of each sweep that came to nothing.
	SweepFailed(scope providers.Scope, clusters []detector.ClusterRef, err error)
	// SinkFailed is told of each outcome that a sink did not take.
	SinkFailed(sink Sink, err error)
}

// NeedLeaderElection makes the manager start the daemon on the leader alone.
func (d *Daemon) NeedLeaderElection() bool { return true }

// Start reads until the context ends, and returns when everything that it
// started has ended, which takes less than ten seconds.
func (d *Daemon) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ask asks for a read. It never blocks, and may be called before Start.
func (d *Daemon) Ask(Request) {}

// Fresh reads one owner now, object and cloud, and decides on it with what is
// in flight now everywhere. It is what stands before every act and after it:
// the Outcome is about that owner alone and goes to no sink. An owner that
// does not exist any more gives an Outcome without decisions. An error means
// that it could not be read, and then nothing may be done.
func (d *Daemon) Fresh(ctx context.Context, cluster detector.ClusterRef, owner providers.OwnerRef) (*Outcome, error) {
	return nil, errors.New("the daemon does not read yet")
}
