package detector

import (
	"time"

	"github.com/holdfast-io/holdfast/providers"
)

// Status is what comparing one resource came to.
type Status string

// Statuses.
const (
	// InSync resources equal what was wanted, in every field that was wanted.
	InSync Status = "InSync"
	// Drifted resources exist and differ.
	Drifted Status = "Drifted"
	// Missing resources are certainly gone: absent from a complete snapshot,
	// older than the creation grace, and absent again when read live.
	Missing Status = "Missing"
	// Unexpected resources carry a cluster's ownership tag and belong to no
	// object, or were wanted absent and exist.
	Unexpected Status = "Unexpected"
	// Foreign resources or set elements belong to someone else.
	Foreign Status = "Foreign"
	// NotChecked resources were not compared: their kind could not be read,
	// or is not modelled, or has no identity yet.
	NotChecked Status = "NotChecked"
	// Unknown resources were read, and their state could not be told.
	Unknown Status = "Unknown"
)

// DiffType says how a value differs.
type DiffType string

// Diff types, as seen from the spec: an added value is in the cloud only.
const (
	Changed DiffType = "changed"
	Added   DiffType = "added"
	Removed DiffType = "removed"
)

// Diff is one differing value. A set gives one Diff for each differing
// element.
type Diff struct {
	Path       string
	Want, Have providers.Value
	Type       DiffType
	// Element says that Want or Have is one element of a set, not the whole
	// value; such elements are part of a fingerprint.
	Element    bool
	Mutability providers.Mutability
	Sensitive  bool
	// Adopted says that the provider's controller has rewritten the spec to
	// match the cloud; Want is what the user declared.
	Adopted bool
	// Foreign names who owns an added element; such diffs stand in findings
	// of status Foreign, or in one of status Drifted of their own where the
	// element only claims to be someone's.
	Foreign string
}

// ClusterRef names a Cluster object.
type ClusterRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (c ClusterRef) String() string { return c.Namespace + "/" + c.Name }

// ResourceRef names a resource in its cloud.
type ResourceRef struct {
	Provider string `json:"provider"`
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Name     string `json:"name"`
}

// Finding is one resource that is not simply in sync.
type Finding struct {
	// Fingerprint is the same for the same drift of the same resource in
	// every run: it covers owner, resource, status, paths and set elements,
	// and neither times nor seen scalar values.
	Fingerprint string
	Cluster     ClusterRef
	Owner       providers.OwnerRef
	Resource    ResourceRef
	// Pool, Zone and ControlPlane are the owner's, for grouping and budgets.
	Pool         string
	Zone         string
	ControlPlane bool
	Status       Status
	// Tentative says that the resource is absent from a complete snapshot and
	// has not been read again: the status is Unknown until [Settle].
	Tentative bool
	// Reason says why, for every status but Drifted, and there for claimed
	// elements; one line.
	Reason string
	// Diffs are ordered by path, then element.
	Diffs []Diff
	// Warnings are remarks that are no drift.
	Warnings []string
	// Want and Have are the whole resources, for rules and execution; either
	// may be nil.
	Want, Have *providers.Resource
	// SeenAt is the snapshot's time.
	SeenAt time.Time
}
