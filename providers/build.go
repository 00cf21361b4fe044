package providers

import (
	"context"
	"strings"
)

// Builder is implemented by providers that can make and unmake what owners
// declare, for managed mode. Whoever holds one runs the pipeline for one owner:
//
//	Settle -> Plan -> compare with a snapshot -> Create, Apply -> Record -> Note
//
// and for an owner that is deleted Doomed -> Delete -> Note. Nothing is made
// but what Plan names and nothing is unmade but what Doomed names, so that both
// can be shown before they are done.
type Builder interface {
	Applier

	// Settle decides what the owner leaves open and must not be decided twice
	// (zones, blocks of subnets), and writes it into owner.Infra's spec, which
	// the caller stores before anything is made. What is decided already stays.
	// It may read the cloud and writes nothing to it.
	Settle(ctx context.Context, scope Scope, owner *Owner) error

	// Plan gives what [Provider.Desired] gives, and what that can only call
	// unrecorded as a wanted resource with a [Provisional] ID and all of its
	// fields. Values that refer to a resource which is still to be made hold
	// its provisional name. It is pure. A resource that is being made is
	// Unsettled until it can be compared. An error, and a resource that is
	// Unchecked, say what stands against building.
	Plan(owner *Owner, snap *Snapshot) ([]Resource, error)

	// Create makes one resource and gives its ID as soon as the cloud has one.
	// It is idempotent: with the same token and owner it finds what an earlier
	// call made, also one whose answer was lost. Fields that can be changed in
	// place may be left to Apply. [ErrPending] says that another call is
	// needed; errors that will not pass soon are *[ApplyError].
	Create(ctx context.Context, scope Scope, creation Creation) (ID, error)

	// Record writes into owner.Infra that the planned resource exists under an
	// id of the cloud's. It is pure; the caller stores the object at once.
	Record(owner *Owner, planned, made ID) error

	// Doomed gives what is to go with the owner and still exists, each with the
	// resources in Needs that it must go before. It is pure, and an error where
	// the snapshot does not say for certain: unknown is never absence. None
	// means that the owner may go.
	Doomed(owner *Owner, snap *Snapshot) ([]Resource, error)

	// Delete has one resource of Doomed go, and returns when the cloud has
	// taken the call. What is gone already is success.
	Delete(ctx context.Context, scope Scope, deletion Deletion) error

	// Note writes into the status (and the contract's fields of the spec: the
	// provider id, the control plane's endpoint) of owner.Infra what the
	// snapshot says, and how far the building is. waiting is what the owner
	// still waits for, in one line for people; empty if it is ready. It is
	// pure but for owner.Infra, and changes nothing where nothing has changed.
	Note(owner *Owner, snap *Snapshot, progress Progress) (waiting string)
}

// Creation is one resource to be made, in one attempt.
type Creation struct {
	Owner *Owner
	// Want is the planned resource. None of its values is provisional but those
	// that Apply can set later. The provider must not modify it.
	Want *Resource
	// Token is the same for every try to make this resource, for APIs that take
	// a client token: at most 64 characters of [0-9a-f-].
	Token string
	// Bootstrap is what a machine boots with; nil for what is no machine.
	Bootstrap *BootstrapData
}

// Deletion is one resource to be unmade.
type Deletion struct {
	Owner *Owner
	// Have is the resource as it was read last.
	Have *Resource
}

// BootstrapData is the content of a Machine's bootstrap Secret (contract of
// bootstrap providers). It is secret: it goes into the cloud's call for it and
// nowhere else.
type BootstrapData struct {
	Value []byte
	// Format is cloud-config or ignition; empty is cloud-config.
	Format string
}

// Progress is how far the building of an owner has come.
type Progress struct {
	// Before is what has to come before anything is made, one of the words
	// below; empty if nothing has.
	Before string
	// Plan is what is wanted, as planned last; nil if it could not be planned.
	Plan []Resource
	// Open are the resources that are not as wanted yet, with why in one line.
	Open map[ID]string
	// Failed is why building does not go on, nil if it does: on the resource
	// that At names, or on the whole where it names none.
	Failed error
	At     ID
	// Misplaced says, in a sentence, what stands in the owner's spec and is no
	// field of its kind; empty if nothing does.
	Misplaced string
	// WasReady says that the owner has been ready once. Its status may say nothing
	// of it: what is moved to another management cluster, or restored, has none.
	WasReady bool
	// Deleting says that the owner is being unmade.
	Deleting bool
}

// What has to come before a machine is made, as reasons of conditions.
const (
	WaitingForClusterInfrastructure = "WaitingForClusterInfrastructure"
	WaitingForBootstrapData         = "WaitingForBootstrapData"
)

// provisional stands before the names of resources that are still to be made.
// No cloud's ids have a space.
const provisional = "(to be made) "

// Provisional is the ID of a resource that is still to be made: name tells it
// from the owner's others of the kind.
func Provisional(kind, name string) ID { return ID{Kind: kind, Name: provisional + name} }

// Provisional says whether the resource is still to be made.
func (id ID) Provisional() bool { return strings.HasPrefix(id.Name, provisional) }

// Provisional says whether the value names a resource that is still to be made.
func (v Value) Provisional() bool { return strings.Contains(v.str, provisional) }
