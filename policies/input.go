package policies

import (
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Input is everything that Decide knows. Gathering it is somebody else's work;
// Decide does no I/O and reads no clock.
//
// Each fact that is not given counts as unknown, and what is unknown blocks:
// an Input with findings and nothing else gives decisions that all observe or
// are blocked.
type Input struct {
	// Now is the time of the decision.
	Now time.Time
	// Policies are the loaded policies; nil means the built-in ones alone.
	Policies *Set
	// Findings in any order. Decide changes none of them.
	Findings []detector.Finding
	// Clusters by reference. Findings of a cluster that is not in it are
	// blocked.
	Clusters map[detector.ClusterRef]ClusterFacts
	// Owners by reference. Findings of an owner that is not in it are
	// blocked. Findings without an owner (orphans) need none.
	Owners map[providers.OwnerRef]OwnerFacts
	// InFlight are the actions that run now, whoever began them. Nil means
	// that this is not known, which blocks; use an empty slice for none.
	InFlight []InFlight
	// History by the [HistoryKey] of a decision. Nil means that there is no
	// record at all, which blocks what needs one; a fingerprint that is not
	// in it is new.
	History map[string]History
}

// Fact is something that is true, false, or not known. The zero Fact is not
// known.
type Fact struct {
	state factState
	// Why says what makes it true, in one line.
	Why string
}

type factState uint8

const (
	unknown factState = iota
	no
	yes
)

// Yes is a true fact; why says what makes it so.
func Yes(why string) Fact { return Fact{state: yes, Why: why} }

// No is a false fact.
func No() Fact { return Fact{state: no} }

// If is Yes when the condition holds, and No otherwise.
func If(condition bool, why string) Fact {
	if condition {
		return Yes(why)
	}
	return No()
}

// Known reports whether the fact is known.
func (f Fact) Known() bool { return f.state != unknown }

// True reports whether the fact is known to be true.
func (f Fact) True() bool { return f.state == yes }

// False reports whether the fact is known to be false.
func (f Fact) False() bool { return f.state == no }

// OwnerFacts are what gates need to know about one owner.
type OwnerFacts struct {
	// Labels and Annotations of the owner and its Machine together, for rules
	// and for the annotations of package v1alpha1. Where both set one of the
	// latter, the stricter counts: see [FactsOf].
	Labels, Annotations map[string]string

	// Paused: the owner, its Machine or its Cluster is paused.
	Paused Fact
	// Deleting: the owner, its Machine or its Cluster is being deleted.
	Deleting Fact
	// Moving: clusterctl is moving the objects.
	Moving Fact
	// ExternallyManaged: somebody else manages the infrastructure
	// (cluster.x-k8s.io/managed-by on this owner).
	ExternallyManaged Fact
	// Rollout: the owner's pool is rolling out.
	Rollout Fact
	// OldRevision: the machine is of an older revision than its pool wants.
	OldRevision Fact
	// SkipRemediation: the machine is kept from remediation
	// (cluster.x-k8s.io/skip-remediation).
	SkipRemediation Fact
	// Ambiguous: two candidates claim the same resource or the same owner.
	Ambiguous Fact
	// Replaceable: the machine has an owner that makes a new one; Why names
	// it. Replacing without one is never done.
	Replaceable Fact
	// HealthCheck: a MachineHealthCheck covers the machine; Why names it.
	// Nothing is blocked by it.
	HealthCheck Fact
	// Ready: the machine's node is ready. Not known counts as ready where it
	// would be disrupted.
	Ready Fact
	// Spare: the machine is the only one of its control plane that is not ready,
	// and etcd keeps its quorum without it. What is down already can go, where
	// nothing else can: see [ClusterFacts.ControlPlane].
	Spare Fact
}

// ClusterFacts are what gates need to know about one cluster.
type ClusterFacts struct {
	// Labels and Annotations of the Cluster object.
	Labels, Annotations map[string]string
	// Owners is how many owners were compared, of which the mass-drift gate
	// takes its share; 0 means not known.
	Owners int
	// Machines is how many machines the cluster has; 0 means not known.
	Machines int
	// Pools by Kind/name as in Finding.Pool, and Zones by name.
	Pools map[string]PoolFacts
	Zones map[string]ZoneFacts
	// ControlPlane: every control-plane machine is ready, and etcd keeps its
	// quorum when one of them goes.
	ControlPlane Fact
	// Breaker: the mass-drift breaker is open from before.
	Breaker Fact
}

// PoolFacts counts one pool's machines.
type PoolFacts struct {
	// Desired is how many machines the pool should have, Ready how many have
	// a ready node.
	Desired, Ready int
}

// ZoneFacts counts one zone's machines.
type ZoneFacts struct {
	// Machines is how many the zone has, Unhealthy how many of them are not
	// ready or cannot be reached.
	Machines, Unhealthy int
	// Breaker: the zone's own mass-drift breaker is open from before. Not
	// known is as good as closed: the cluster's own fact is what fails closed.
	Breaker Fact
}

// InFlight is one action that has begun and not ended. A replacement ends when
// the new machine is ready, not when the old one is gone.
type InFlight struct {
	Cluster detector.ClusterRef
	Owner   providers.OwnerRef
	Pool    string
	Zone    string
	// ControlPlane reports whether the owner is a control-plane machine.
	ControlPlane bool
	Action       Action
	// Disruptive patches stop the machine.
	Disruptive bool
	// By says who began it: holdfast, MachineHealthCheck, rollout, a person.
	By string
	// Anywhere says that it is not known in what pool and zone of the cluster it
	// is: it takes a slot in each.
	Anywhere bool
	// Failed says why it failed, empty while it runs. A failed replacement
	// halts its pool until the entry is gone.
	Failed string
}

// HistoryKey names what is known of one drift of an owner. The owner's namespace
// is part of it: what somebody writes down in another namespace says nothing.
func HistoryKey(owner providers.OwnerRef, fingerprint string) string {
	return owner.Namespace + "/" + fingerprint
}

// History is what is known of one fingerprint from before.
type History struct {
	// FirstSeen is when it was first seen, zero if not known.
	FirstSeen time.Time
	// Observations is in how many reads it was seen, this one included.
	Observations int
	// Attempts are the times at which an action was begun.
	Attempts []time.Time
	// Latched says why no further attempt is made: the last one did not help,
	// or another controller reverts it. Empty if it is not latched.
	Latched string
	// Held says why the action is not begun for a time, or not at all: the last
	// attempt ended a short while ago, the cloud protects the resource, a
	// person has denied it. HeldUntil is when that ends by itself; zero if it
	// does not. Empty if nothing holds it.
	Held      string
	HeldUntil time.Time
	// ApprovedBy names who approved the action, empty if nobody has.
	ApprovedBy string
}

// Annotations on owners, Machines and Clusters: see package v1alpha1.
const (
	AnnotationMode        = v1alpha1.AnnotationMode
	AnnotationIgnore      = v1alpha1.AnnotationIgnore
	AnnotationSkipReplace = v1alpha1.AnnotationSkipReplace
)
