package providers

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scope is one place that is read at once, under one identity. It is
// comparable: owners with equal scopes share one snapshot.
type Scope struct {
	// Provider is the provider's name: "aws", "vsphere".
	Provider string `json:"provider"`
	// Account is whose cloud it is: the AWS account id that the cloud itself
	// reported for the caller, or the vCenter server's host name.
	Account string `json:"account"`
	// Region is the AWS region; empty where a provider has none.
	Region string `json:"region,omitempty"`
	// Identity names who reads, as kind/namespace/name of the identity object
	// with empty parts left out; empty means the process's own credentials.
	// It never holds a credential.
	Identity string `json:"identity,omitempty"`
}

// String gives provider/account/region, for people; the identity is left out.
func (s Scope) String() string {
	out := s.Provider + "/" + s.Account
	if s.Region != "" {
		out += "/" + s.Region
	}
	return out
}

// Provider is one cloud. Implementations are safe for concurrent use.
type Provider interface {
	// Scope says where the owner's resources live. It may call the cloud to
	// learn and check the caller's account, at most once per identity and
	// region; a failure is returned, never cached. Errors are *[ScopeError]
	// where the owner or its identity is at fault.
	Scope(ctx context.Context, owner *Owner) (Scope, error)

	// Desired gives what the owner wants, resolved against the snapshot
	// (names and filters become ids). It is pure: it does no I/O, changes
	// neither argument, and equal arguments give equal results in equal
	// order. A field that the spec leaves unset is left out. What the owner
	// wants and this provider does not model is a Resource with Unchecked
	// set. An error means that the object itself is at fault.
	Desired(owner *Owner, snap *Snapshot) ([]Resource, error)

	// Observe reads the whole scope in as few calls as the API allows and
	// never writes. A kind that could not be read in full has its reason in
	// Coverage; the rest is returned all the same. The error is for what
	// makes every kind unknown.
	Observe(ctx context.Context, scope Scope) (*Snapshot, error)

	// Confirm reads the named resources again, live and one by one where the
	// API tells more that way, so that absence from a bulk read is never the
	// only proof of absence. An id in the result's Resources exists; an id
	// that is in neither Resources nor Unconfirmed does not.
	Confirm(ctx context.Context, scope Scope, ids []ID) (*Confirmation, error)
}

// Confirmation is the answer of [Provider.Confirm].
type Confirmation struct {
	// Resources that exist, as seen just now.
	Resources map[ID]*Resource
	// Unconfirmed ids could not be read; the error says why.
	Unconfirmed map[ID]error
}

// Registration is what a provider folder offers for registration by cmd.
type Registration struct {
	// Name is the provider's name, equal to Scope.Provider.
	Name string
	// AddToScheme adds the provider's API types and their conversions.
	AddToScheme func(*runtime.Scheme) error
	// Owners are the infrastructure kinds that the provider gives a desired
	// state for: its machines, clusters and their kin.
	Owners []OwnerKind
	// Initial gives cluster-scoped objects that upstream's controller makes when
	// it starts and that owners refer to by default; nil is none. Whoever takes
	// its place makes them where they are not there.
	Initial func() []client.Object
	// Holds gives the objects of its user's that an owner cannot be unmade without,
	// such as the Secret with its credentials; nil is none. They are held by a
	// finalizer, upstream's, and belong to the owner, for as long as it is there.
	Holds func(infra client.Object) []Hold
	// Related are further kinds to load: templates, identities, zones.
	Related []schema.GroupVersionKind
	// Bootstrap are kinds that a Machine's spec.bootstrap.configRef may name and
	// that are to be loaded with it. Several providers may name the same.
	Bootstrap []schema.GroupVersionKind
	// Unmodelled are kinds that the provider knows of and does not compare,
	// with the reason that a report shows.
	Unmodelled map[schema.GroupKind]string
	// Catalog lists every field that the provider compares.
	Catalog []CatalogRow
	// New makes the provider. The reader serves identity objects and Secrets
	// from wherever the owners came from.
	New func(reader client.Reader) (Provider, error)
}

// Hold is an object that is to stay while an owner is there.
type Hold struct {
	// Object is empty but for its name and namespace.
	Object    client.Object
	Finalizer string
}

// OwnerKind is an infrastructure kind that owns cloud resources.
type OwnerKind struct {
	// GVK is the version that the provider's Desired reads. Other served
	// versions are converted to it when they are loaded.
	GVK schema.GroupVersionKind
	// Role is Machine for kinds that a Machine's infrastructureRef names,
	// Cluster for those that a Cluster's names.
	Role Role
	// Finalizer keeps an owner until a [Builder] has unmade what it made. It is
	// that of the upstream provider, so that clusters can be handed from one to
	// the other; empty where the provider cannot build.
	Finalizer string
}

// Role is what an infrastructure kind stands for.
type Role string

// The roles of Cluster API's infrastructure contract.
const (
	RoleMachine Role = "Machine"
	RoleCluster Role = "Cluster"
)

// CatalogRow documents one compared field. The rows of all providers make
// docs/catalog.md and the paths that a policy may name.
type CatalogRow struct {
	// Kind is the resource kind, such as Instance.
	Kind string
	// Path is a JSON pointer; an upper-case segment such as KEY stands for
	// any one segment.
	Path string
	// From is the spec field that the wanted value comes from.
	From string
	// Mutability says how the cloud lets the field change.
	Mutability Mutability
	// Compare says in a few words what makes two values equal.
	Compare string
	// Source names the API reference page or contract section of the rule.
	Source string
}

// ScopeError says that an owner's place in the cloud cannot be used: a
// forbidden identity, missing credentials, another account than expected.
// Reason is a CamelCase word for conditions and metrics.
type ScopeError struct {
	Reason string
	Err    error
}

func (e *ScopeError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *ScopeError) Unwrap() error { return e.Err }

// Reasons of a ScopeError.
const (
	ReasonCredentials  = "CredentialsUnavailable"
	ReasonForbidden    = "IdentityNotAllowed"
	ReasonWrongAccount = "WrongAccount"
	ReasonUnreachable  = "CloudUnreachable"
	ReasonInvalidSpec  = "InvalidSpec"
)

// ErrNotRead is the coverage of a kind that was not asked for or not reached,
// because something before it failed.
var ErrNotRead = errors.New("not read")
