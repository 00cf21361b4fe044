package providers

import (
	"context"
	"errors"
	"fmt"
)

// Applier is implemented by providers that can write. It stands apart from
// [Provider], so that what only reads cannot write by its type alone: a report
// holds a Provider, the remediator an Applier.
type Applier interface {
	// Apply makes one change, and is the only method of a provider that
	// writes. It is idempotent: what is as wanted already, and what is gone
	// already where it was to go, is success (C05, C06). It writes the fields
	// of the change and nothing else, and returns as soon as the cloud has
	// taken them: [ErrPending] where another call with the same change is
	// needed to go on. It does not wait for the change to show; that is for a
	// later read. Errors that will not pass are *[ApplyError].
	Apply(ctx context.Context, scope Scope, change Change) error
}

// Change is what is to become of one resource, in one attempt.
type Change struct {
	// Resource is what is changed.
	Resource ID
	// Owner is the object that wants it.
	Owner OwnerRef
	// Want is the wanted resource, with everything that the owner wants of
	// it; Have is the resource as it was read just now, nil if it is gone. A
	// provider takes from them what a write needs beyond the fields: the group
	// of an interface, the device key of a disk. It must not modify them.
	Want, Have *Resource
	// Fields are the values to set, ordered by path, then element. Nothing
	// else is written.
	Fields []FieldChange
	// Disruptive allows the resource to be stopped for fields whose mutability
	// is InPlaceDisruptive. The caller has made sure that nothing runs on it.
	Disruptive bool
	// Token is the same for every try of one attempt, for APIs that take a
	// client token. It is at most 64 characters of [0-9a-f-].
	Token string
}

// Refused says why no provider may make the change, whatever its cloud would
// say, as an *[ApplyError]; nil if nothing stands against it. Every Apply asks
// it before anything else. It is pure.
func (c *Change) Refused() error {
	switch {
	case c.Want == nil || len(c.Fields) == 0:
		return refuse(ReasonRefused, "the change of %s names no wanted resource or no field", c.Resource)
	case c.Have == nil:
		return refuse(ReasonUnsupported, "%s does not exist, and making it anew is not a change in place: that is for what made it", c.Resource)
	case c.Have.Gone != "":
		return refuse(ReasonUnsupported, "%s exists no more (%s), and making it anew is not a change in place: that is for what made it", c.Resource, c.Have.Gone)
	case c.Have.Unknown != "":
		return refuse(ReasonMoved, "the state of %s cannot be told: %s", c.Resource, c.Have.Unknown)
	case c.Have.ForeignTo != "":
		return refuse(ReasonForeign, "%s belongs to %s", c.Resource, c.Have.ForeignTo)
	case c.Want.Absent:
		return refuse(ReasonUnsupported, "%s is to go: deleting it is not a change in place", c.Resource)
	}
	for i := range c.Fields {
		if err := c.refusedField(&c.Fields[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Change) refusedField(f *FieldChange) error {
	switch {
	case f.Mutability == InPlaceDisruptive && !c.Disruptive:
		return refuse(ReasonDisruptive, "%s of %s needs the resource to be stopped, and that is not allowed", f.Path, c.Resource)
	case f.Mutability != InPlace && f.Mutability != InPlaceDisruptive:
		return refuse(ReasonUnsupported, "%s of %s cannot be changed in place: it is %s", f.Path, c.Resource, f.Mutability)
	}
	if !f.Element || !f.Want.IsAbsent() {
		return nil
	}
	have := c.Have.Fields.Get(f.Path)
	if owner, foreign := have.Foreign[f.Have.Text()]; foreign {
		return refuse(ReasonForeign, "%q in %s of %s belongs to %s", f.Have.Text(), f.Path, c.Resource, owner)
	}
	if owner, claimed := have.Claimed[f.Have.Text()]; claimed {
		return refuse(ReasonForeign, "%q in %s of %s may be that of %s: a person must look", f.Have.Text(), f.Path, c.Resource, owner)
	}
	return nil
}

func refuse(reason, format string, args ...any) error {
	return &ApplyError{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// FieldChange is one value to set.
type FieldChange struct {
	Path string
	// Want is the value to set; absent to remove what is there. For an element
	// of a set, Want is the element to add or Have is the one to remove.
	Want Value
	// Have is the value as it was seen; absent if there was none.
	Have Value
	// Element says that Want or Have is one element of a set.
	Element bool
	// Mutability is that of the wanted field.
	Mutability Mutability
}

// ErrPending says that a change was begun and has not settled: calling Apply
// again with the same change goes on with it.
var ErrPending = errors.New("the change is not complete yet")

// ApplyError says why a change cannot be made, in a way that trying again soon
// will not help. Errors of other types may be tried again.
type ApplyError struct {
	// Reason is a CamelCase word for records and metrics, one of those below.
	Reason string
	Err    error
}

func (e *ApplyError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *ApplyError) Unwrap() error { return e.Err }

// Reasons of an ApplyError.
const (
	// ReasonUnsupported: the provider or the cloud cannot set this field.
	ReasonUnsupported = "Unsupported"
	// ReasonNotPermitted: the identity may not do it.
	ReasonNotPermitted = "NotPermitted"
	// ReasonProtected: the cloud protects the resource (C60), and protection
	// is never unset unasked.
	ReasonProtected = "Protected"
	// ReasonRefused: the cloud says that the value or the state is wrong.
	ReasonRefused = "Refused"
	// ReasonDisruptive: it needs a stop, and Change.Disruptive is not set.
	ReasonDisruptive = "NeedsDisruption"
	// ReasonMoved: the resource is not as Change.Have says any more.
	ReasonMoved = "Moved"
	// ReasonForeign: it belongs to someone else (invariant 4).
	ReasonForeign = "Foreign"
)
