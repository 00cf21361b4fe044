package providers

import (
	"slices"
	"strings"
	"time"
)

// Kinds of resources, in the words of their clouds.
const (
	KindInstance         = "Instance"
	KindVolume           = "Volume"
	KindNetworkInterface = "NetworkInterface"
	KindSecurityGroup    = "SecurityGroup"
	KindVPC              = "VPC"
	KindSubnet           = "Subnet"
	KindInternetGateway  = "InternetGateway"
	KindNATGateway       = "NATGateway"
	KindRouteTable       = "RouteTable"
	KindNetworkACL       = "NetworkACL"
	KindLoadBalancer     = "LoadBalancer"
	KindVirtualMachine   = "VirtualMachine"
	KindContainer        = "Container"
	KindNode             = "Node"
)

// ID names a resource: the same when it is wanted and when it is seen. Name is
// the cloud's own identifier (an instance id, a VM's instance UUID), so that a
// tag or a display name alone never identifies anything.
type ID struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

func (id ID) String() string { return id.Kind + "/" + id.Name }

// Mutability says how a cloud lets a field change.
type Mutability uint8

// Mutabilities, from the least disruptive.
const (
	ReadOnly          Mutability = iota // nothing to write
	InPlace                             // changed live
	InPlaceDisruptive                   // stopped first
	Immutable                           // only by replacement
)

func (m Mutability) String() string {
	return [...]string{"ReadOnly", "InPlace", "InPlaceDisruptive", "Immutable"}[m]
}

// Match says what makes a seen value satisfy a wanted one.
type Match uint8

// Matches. A seen field always has the zero value.
const (
	Exactly  Match = iota // equal
	OneOf                 // the seen string is an element of the wanted set
	AtLeast               // the seen number is not smaller
	Contains              // the seen set has every wanted element
)

func (m Match) String() string { return [...]string{"Exactly", "OneOf", "AtLeast", "Contains"}[m] }

// Field is one canonical value of a resource.
type Field struct {
	Value Value
	// Match is for wanted fields.
	Match Match
	// Mutability is for wanted fields.
	Mutability Mutability
	// Sensitive values are keyed digests already; sinks show only that they
	// differ.
	Sensitive bool
	// Adopted marks a wanted value that the infrastructure provider's own
	// controller has since overwritten in the spec with what it saw in the
	// cloud. Value is still what the user declared, and is compared as usual.
	Adopted bool
	// Foreign names, for a seen set, the elements that another controller or
	// a person owns, with the owner as text. They are never drift.
	Foreign map[string]string
	// Claimed names, for a seen set, the elements that say themselves whose
	// they are, with that owner as text, where anybody could have said so and
	// too much is at stake to take their word: a rule that opens a port to the
	// world, and whose description is a controller's. They are drift that
	// nothing repairs.
	Claimed map[string]string
}

// Resource is one thing in a cloud, wanted or seen.
type Resource struct {
	ID ID
	// Name is for people: a Name tag, a VM's name. It identifies nothing.
	Name string
	// Owner, for wanted resources, is the object that wants it.
	Owner OwnerRef
	// Needs are resources that are made before and deleted after this one.
	Needs []ID
	// Fields by JSON pointer. For a wanted resource an absent path is no
	// opinion. For a seen one it is absent in the cloud if Closed covers it,
	// and not modelled otherwise.
	Fields Fields
	// Closed, for seen resources, are path prefixes that were read in full:
	// "/tags" says that a tag which is not in Fields does not exist.
	Closed []string

	// Absent, for wanted resources, says that the resource must not exist.
	Absent bool
	// Unchecked, for wanted resources, says why this one cannot be compared:
	// not modelled, no identity recorded yet, an ambiguous reference.
	Unchecked string
	// Unsettled, for wanted resources, says that the owner has not finished
	// making it (no provider id yet): nothing about it is drift.
	Unsettled bool
	// Since, for wanted resources, is when the resource was first recorded,
	// if known; absence is believed only after the creation grace.
	Since time.Time

	// Gone, for seen resources, says that it still shows but exists no more:
	// "terminated: Server.SpotInstanceTermination". Its attributes mean
	// nothing.
	Gone string
	// Unknown, for seen resources, says why its state cannot be told:
	// inaccessible, disconnected, two VMs with one UUID. For wanted ones it
	// says why the resource with this id cannot be told to be the owner's: an
	// identity mismatch. Either makes the verdict Unknown, never Missing.
	Unknown string
	// ForeignTo names, for seen resources, the controller or person that the
	// whole resource belongs to although it carries the cluster's tags: a CSI
	// driver's volume, a CNI's interface.
	ForeignTo string
	// Warnings are remarks that are no drift: a port limit on protocol -1.
	Warnings []string
	// ClusterTags, for seen resources, are the names of the clusters whose
	// ownership tags it carries; one that no owner wants is an orphan of
	// theirs.
	ClusterTags []string
}

// Set stores a field.
func (r *Resource) Set(path string, f Field) { r.Fields.Set(path, f) }

// Closes reports whether the resource was read in full at the path, so that a
// path which is not in Fields is absent.
func (r *Resource) Closes(path string) bool {
	for _, prefix := range r.Closed {
		if under(path, prefix) {
			return true
		}
	}
	return false
}

func under(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) &&
		(len(path) == len(prefix) || prefix == "" || path[len(prefix)] == '/')
}

// Snapshot is what was seen of a scope in one read.
type Snapshot struct {
	Scope   Scope
	TakenAt time.Time
	// Serves are the clusters, as NAMESPACE/NAME, that a snapshot was taken for,
	// or KIND NAMESPACE/NAME of owners whose cluster lives in several scopes; a
	// saved one says so, a live one need not.
	Serves []string
	// ConfirmedAbsent are ids that a live read after the snapshot found absent
	// again. A saved snapshot has them, since a file cannot be asked again.
	ConfirmedAbsent []ID
	// Coverage has an entry for each kind that was read, "Instance", and for
	// parts of a kind that need reads of their own, "VirtualMachine/tags":
	// nil means complete, an error why it is unknown. A kind without an entry
	// is not modelled. Where each cluster's resources of a kind are read apart
	// from the others', [ClusterPart] names a cluster's.
	Coverage map[string]error
	// Resources that were seen. Their attributes are canonical.
	Resources map[ID]*Resource
}

// OfKind gives the seen resources of a kind, ordered by id.
func (s *Snapshot) OfKind(kind string) []*Resource {
	var out []*Resource
	for id, r := range s.Resources {
		if id.Kind == kind {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Resource) int { return strings.Compare(a.ID.Name, b.ID.Name) })
	return out
}

// Covered says whether a part of the scope was read in full: the most specific
// coverage entry for the kind and path decides. known is false when nothing
// was said about the kind.
func (s *Snapshot) Covered(kind, path string) (err error, known bool) {
	err, known = s.Coverage[kind]
	if err != nil || path == "" {
		return err, known
	}
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end], '/') {
		if e, ok := s.Coverage[kind+path[:end]]; ok {
			return e, true
		}
	}
	return err, known
}

// clusterPart stands in no field's path, so that no part of a kind is taken for
// a cluster's, nor the other way round.
const clusterPart = "/cluster:"

// ClusterPart is the part of a kind, in [Snapshot.Coverage], that one cluster's
// resources are: "Node/cluster:prod/eu-1". A failure to read it says nothing of
// other clusters.
func ClusterPart(kind, namespace, name string) string {
	return kind + clusterPart + namespace + "/" + name
}

// PartOfCluster gives the cluster, as NAMESPACE/NAME, that a part of a kind
// belongs to; ok is false for parts that all clusters share.
func PartOfCluster(part string) (cluster string, ok bool) {
	_, cluster, ok = strings.Cut(part, clusterPart)
	return cluster, ok
}
