package providers

import (
	"context"
	"time"
)

// Watcher is implemented by providers whose cloud can tell of changes as they
// happen. Events only make Holdfast fast: they may be lost, doubled or out of
// order, and the sweep stays the truth.
type Watcher interface {
	// Watch tells of changes in the scope until the context ends, which is its
	// only way to return nil. It reconnects by itself with back-off; where it
	// may have missed something it tells an Event with Gap set. An error means
	// that watching this scope cannot work (not configured, not permitted).
	// tell must not block for long; it is called by one goroutine at a time.
	Watch(ctx context.Context, scope Scope, tell func(Event)) error
}

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
	// Gap says that events before this one may have been lost: everything in
	// the scope is to be read again.
	Gap bool
}
