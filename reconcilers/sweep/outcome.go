package sweep

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Outcome is what one sweep, or one targeted read, came to. Consumers must not
// modify it.
type Outcome struct {
	// At is when it was decided.
	At time.Time
	// Cause says in a word why it was read, one of those of [Daemon].
	Cause string
	// Scope is what was read. A sweep is about all owners in Result, and about
	// no other owner of their clusters: a cluster may live in several scopes.
	// The zero Scope stands for owners of which no scope could be found.
	Scope providers.Scope
	// Scopes are all those in which a cluster of Inventory is known to have
	// owners, this one included. Targeted reads have none.
	Scopes map[detector.ClusterRef][]providers.Scope
	// Gone are clusters that do not exist any more; such an Outcome holds
	// nothing else.
	Gone []detector.ClusterRef
	// Inventory is the objects that were compared, as they were read.
	Inventory *inventory.Inventory
	// Result holds decisions and coverage. In a targeted read it is about
	// Owners alone; facts and budgets are about everything all the same.
	Result *Result
	// Owners are those that a targeted read was about; nil after a sweep of
	// whole scopes. One that is not in Result does not exist any more.
	Owners map[providers.OwnerRef]bool
	// Wanted are the resources of the owner that [Daemon.Fresh] read, also those
	// that do not differ, and Seen what the cloud has of them: an act that was
	// interrupted goes on by them. Other outcomes have none.
	Wanted []providers.Resource
	Seen   map[providers.ID]*providers.Resource
	// Held says by which gate the owner that [Daemon.Fresh] read is not to be
	// touched at all, also where nothing of it drifts. Other outcomes have none.
	Held map[providers.OwnerRef]policies.Block
	// ChangedBy names who changed a resource last, where events told; the text
	// is hostile.
	ChangedBy map[providers.ID]string
	// Policies are those that decided.
	Policies *policies.Set
}

// Targeted reports whether only some owners were compared.
func (o *Outcome) Targeted() bool { return o.Owners != nil }

// Sink takes outcomes: conditions and events, metrics, records. Sinks are
// called one after the other, in the order in which outcomes were decided. An
// error is logged and counted; the next outcome brings the state again.
type Sink interface {
	Consume(ctx context.Context, outcome *Outcome) error
}

// Request asks for a read.
type Request struct {
	// Cluster to read; the zero value means every one.
	Cluster detector.ClusterRef
	// Owners narrows it to a targeted read of some owners.
	Owners []providers.OwnerRef
	// Cause is that of the Outcome.
	Cause string
	// After delays it; several requests for the same are one.
	After time.Duration
}

// Asker takes requests. It never blocks.
type Asker interface {
	Ask(Request)
}

// Records tell what was done before, and what is being done. An error means
// that this is not known, and then nothing acts.
type Records interface {
	// History by [policies.HistoryKey]; FirstSeen and Observations are the daemon's own
	// to add. InFlight lists what Holdfast has begun and not ended.
	Facts(ctx context.Context) (history map[string]policies.History, inFlight []policies.InFlight, err error)
}
