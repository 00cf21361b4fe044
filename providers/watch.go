package providers

import (
	"context"
	"errors"
	"time"
)

// Watcher is implemented by providers whose cloud can tell of changes as they
// happen. Events only make Holdfast fast: they may be lost, doubled or out of
// order, and the sweep stays the truth.
type Watcher interface {
	// Watch tells of changes in the scope until the context ends, which is its
	// only way to return nil. It reconnects by itself with back-off; where it
	// may have missed something it tells an Event with Gap set. An error means
	// that watching this scope cannot work: it was never set up
	// ([ErrNotWatched]), or what was set up is gone or not permitted. Calling
	// Watch again later is right, for people repair such things.
	// tell must not block for long; it is called by one goroutine at a time,
	// and not after Watch has returned.
	Watch(ctx context.Context, scope Scope, tell func(Event)) error
}

// ErrNotWatched says that nobody has configured events for the scope.
var ErrNotWatched = errors.New("events are not configured")

// Event says that something may have changed. What it became is read anew.
type Event struct {
	// IDs are what to read again.
	IDs []ID
	// At is when it happened, by the cloud's clock.
	At time.Time
	// What says in a few words what happened: an API action (ModifyInstanceAttribute),
	// a notice (spot interruption). It is hostile text.
	What string
	// By is who did it, if the event tells: an IAM principal, a vCenter user.
	// It is hostile text.
	By string
	// Own says that Holdfast itself did it, by the provider's own proof and
	// not by what By says. Reading again is still right: it verifies.
	Own bool
	// Gap says that IDs are not all: events before this one may have been
	// lost, or the event does not name what it changed. Everything in the
	// scope is to be read again.
	Gap bool
}
