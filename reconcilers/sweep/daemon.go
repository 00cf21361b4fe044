package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

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
	// Triggers, if not nil, notices changes of objects. Without it they are
	// seen by the next sweep.
	Triggers *Triggers
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

	begin sync.Once
	state
}

// state is what a Daemon knows. It is lost when the process ends, and found
// again by the first reads of the next.
type state struct {
	mu       sync.Mutex
	sites    map[siteKey]*site
	clusters map[detector.ClusterRef]*cluster
	known    map[detector.ClusterRef]map[providers.OwnerRef]*known
	// loads counts the loads that began, and applied is the newest of which
	// the Clusters were taken over.
	loads, applied int
	census         census
	started        time.Time
	policiesAt     time.Time // when changed policies are taken over
	sweeps, reads  int       // under way

	memory   *memory
	breakers *breakers
	poke     chan struct{}
	queue    *queue
	jobs     sync.WaitGroup
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
	// SweepFailed is told of each sweep that came to nothing, with the clusters
	// that policies do not switch off.
	SweepFailed(scope providers.Scope, clusters []detector.ClusterRef, err error)
	// SinkFailed is told of each outcome that a sink did not take.
	SinkFailed(sink Sink, err error)
}

// NeedLeaderElection makes the manager start the daemon on the leader alone.
func (d *Daemon) NeedLeaderElection() bool { return true }

// Start reads until the context ends, and returns when everything that it
// started has ended, which takes less than ten seconds if providers and sinks
// honour their context.
func (d *Daemon) Start(ctx context.Context) error {
	d.init()
	ctx = logr.NewContext(ctx, d.Log)
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		d.jobs.Wait()
		d.stopped()
	}()
	d.jobs.Go(func() { d.publish(ctx) })
	if d.Triggers != nil {
		d.jobs.Go(func() { d.watchObjects(ctx) })
	}
	d.mu.Lock()
	d.started = d.Clock.Now()
	d.census.due = d.started
	d.mu.Unlock()
	d.run(ctx)
	return nil
}

func (d *Daemon) init() {
	d.begin.Do(func() {
		if d.Clock == nil {
			d.Clock = clock.RealClock{}
		}
		if d.Policies == nil {
			d.Policies = policies.Builtin
		}
		if d.StartSpread == 0 {
			d.StartSpread = DefaultStartSpread
		}
		if d.Concurrency <= 0 {
			d.Concurrency = DefaultConcurrency
		}
		d.state = state{
			sites:    map[siteKey]*site{},
			clusters: map[detector.ClusterRef]*cluster{},
			known:    map[detector.ClusterRef]map[providers.OwnerRef]*known{},
			memory:   newMemory(), breakers: &breakers{}, queue: newQueue(),
			poke: make(chan struct{}, 1),
		}
	})
}

// wake lets the loop look again. It never blocks.
func (d *Daemon) wake() {
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// Ask asks for a read. It never blocks, and may be called before Start.
func (d *Daemon) Ask(r Request) {
	d.init()
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.Clock.Now().Add(r.After)
	for _, s := range d.sites {
		if _, in := s.members[r.Cluster]; !in && r.Cluster != (detector.ClusterRef{}) {
			continue
		}
		if len(r.Owners) == 0 {
			s.ask(at, r.Cause)
			continue
		}
		for _, o := range r.Owners {
			if k := d.known[r.Cluster][o]; k == nil || k.site == s.key {
				s.target(target{owner: o, cluster: r.Cluster, cause: r.Cause}, at)
			}
		}
	}
	d.wake()
}

// siteOf finds where an owner was read last, or where it would be.
func (d *Daemon) siteOf(ref detector.ClusterRef, owner providers.OwnerRef) *site {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.known[ref][owner]; k != nil {
		return d.sites[k.site]
	}
	var found *site
	for _, s := range d.sites {
		if _, in := s.members[ref]; in && s.located() {
			if found != nil {
				return nil // it lives in several scopes
			}
			found = s
		}
	}
	return found
}

// Fresh reads one owner now, object and cloud, and decides on it with what is
// in flight now everywhere. It is what stands before every act and after it:
// the Outcome is about that owner alone and goes to no sink. An owner that
// does not exist any more gives an Outcome without decisions. An error means
// that it could not be read, and then nothing may be done.
//
// Where the last bulk read of the owner's scope is older than the policies'
// safety.maxSnapshotAge, or there is none, the scope is swept first; that goes
// to the sinks like any sweep.
func (d *Daemon) Fresh(ctx context.Context, ref detector.ClusterRef, owner providers.OwnerRef) (*Outcome, error) {
	d.init()
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	for range 3 { // an owner may move from one scope to another meanwhile
		s := d.siteOf(ref, owner)
		if s == nil {
			var err error
			if s, err = d.find(ctx, ref, owner); err != nil {
				return nil, fmt.Errorf("read %s live: %w", owner, err)
			}
		}
		if s == nil {
			return d.gone(ref, owner), nil
		}
		out, err := d.freshIn(ctx, s, target{owner: owner, cluster: ref, cause: CauseVerify})
		if errors.Is(err, errElsewhere) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s live: %w", owner, err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("read %s live: its scope changes with each read", owner)
}

func (d *Daemon) freshIn(ctx context.Context, s *site, t target) (*Outcome, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.give()
	return d.readTargets(ctx, s, []target{t}, CauseVerify)
}

// errElsewhere says that an owner does not live in the scope where it was
// looked for.
var errElsewhere = errors.New("it lives in another scope")

// errGone says that a Cluster went while it was asked where its owners live. It
// must not come back as a member of a place: nothing would plan its reads.
var errGone = errors.New("its Cluster has gone meanwhile")

// find asks where an owner lives that was not read yet; nil if it does not
// exist.
func (d *Daemon) find(ctx context.Context, ref detector.ClusterRef, owner providers.OwnerRef) (*site, error) {
	inv, err := d.load(ctx, []detector.ClusterRef{ref}, true)
	if err != nil {
		return nil, err
	}
	for _, c := range inv.Clusters {
		o := ownerIn(c, owner)
		if o == nil {
			continue
		}
		units := d.sweeper(d.Policies()).locateCluster(ctx, c, map[providers.OwnerRef]bool{o.Ref: true})
		if units[0].errs != nil {
			return nil, units[0].errs[0]
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.clusters[ref] == nil {
			return nil, errGone
		}
		return d.join(siteKey{scope: units[0].scope}, ref), nil
	}
	return nil, nil //nolint:nilnil // nothing is the answer
}

// gone is the outcome for an owner that does not exist.
func (d *Daemon) gone(ref detector.ClusterRef, owner providers.OwnerRef) *Outcome {
	d.mu.Lock()
	d.forgetOwners(ref, owner)
	d.mu.Unlock()
	return &Outcome{
		At: d.Clock.Now(), Cause: CauseVerify, Inventory: &inventory.Inventory{}, Result: &Result{},
		Owners: map[providers.OwnerRef]bool{owner: true}, Policies: d.Policies(),
	}
}
