package ec2sim

import (
	"time"

	"k8s.io/utils/clock"
)

// Options configure a [Server]. The zero value is one account with one access
// key, the real clock, EC2-like delays, strong consistency and no throttling.
type Options struct {
	// Clock tells all times; nil is the real clock.
	Clock clock.PassiveClock
	// Delays say how long state changes take; nil is [DefaultDelays].
	Delays *Delays
	// Consistency delays what reads show of new objects and tags.
	Consistency Consistency
	// Throttle turns the documented request buckets on.
	Throttle bool
	// Credentials that are accepted; none means one, [DefaultCredential].
	Credentials []Credential
	// Roles that sts:AssumeRole may take, by ARN; see [Role].
	Roles []Role
	// Regions that exist; none means us-east-1, us-west-2 and eu-west-1.
	Regions []string
	// Seed varies the generated ids; equal seeds give equal ids.
	Seed uint64
	// OnEvent, if set, is handed what EventBridge would deliver: a record of
	// each call that changes something (or was refused to), and notices of
	// instances' states. It is called without any lock by the goroutine that
	// serves the call, before the call is answered; so what it is handed is
	// there when the caller goes on, and it may call the server itself.
	OnEvent func(Event)
	// BalancerHost, if set, names load balancers, for clients that are to reach
	// what stands in for their targets.
	BalancerHost func(name string) string
	// SkipSignatures accepts any signature of a known access key, for proxies
	// that rewrite requests.
	SkipSignatures bool
}

// Delays are how long each state lasts on the server's clock.
type Delays struct {
	// Pending is how long an instance is pending after a launch or start.
	Pending time.Duration
	// Stopping is how long an instance is stopping.
	Stopping time.Duration
	// ShuttingDown is how long an instance is shutting-down.
	ShuttingDown time.Duration
	// TerminatedVisible is how long a terminated instance is still described.
	// The EC2 API reference of DescribeInstances says "usually less than one
	// hour". Zero means one hour.
	TerminatedVisible time.Duration
	// StatusChecks is how long instance status is "initializing" after a start.
	StatusChecks time.Duration
	// NATGateway is how long a NAT gateway is pending, and then deleting.
	NATGateway time.Duration
	// NATGatewayVisible is how long a deleted NAT gateway is still described;
	// zero means one hour, as its user guide says.
	NATGatewayVisible time.Duration
	// Volume is how long a volume is creating, and an attachment attaching
	// or detaching.
	Volume time.Duration
	// VolumeModifying and VolumeOptimizing are the two states that a volume
	// modification passes before it is completed.
	VolumeModifying, VolumeOptimizing time.Duration
	// LoadBalancer is how long a v2 load balancer is provisioning.
	LoadBalancer time.Duration
	// TargetHealth is how long a registered target is initial, and a
	// deregistered one draining.
	TargetHealth time.Duration
}

// DefaultDelays are of the order that AWS shows in practice.
func DefaultDelays() *Delays {
	return &Delays{
		Pending: 20 * time.Second, Stopping: 30 * time.Second, ShuttingDown: 30 * time.Second,
		TerminatedVisible: time.Hour, StatusChecks: 2 * time.Minute,
		NATGateway: time.Minute, NATGatewayVisible: time.Hour,
		Volume: 5 * time.Second, VolumeModifying: 5 * time.Second, VolumeOptimizing: 5 * time.Minute,
		LoadBalancer: 2 * time.Minute, TargetHealth: 30 * time.Second,
	}
}

// Consistency is how late reads see writes ("Eventual consistency in the
// Amazon EC2 API", EC2 developer guide). Writes always see everything.
type Consistency struct {
	// HideReads is how many reads that would have shown a new object miss it.
	HideReads int
	// HideFor is how long after its creation an object is missed.
	HideFor time.Duration
	// TagsFor is how long tag changes, those of a creation too, are missed.
	TagsFor time.Duration
}

// Credential is an access key that the server accepts.
type Credential struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	// Account owns the key: twelve digits.
	Account string
	// ARN of the caller; empty means arn:aws:iam::ACCOUNT:user/ec2sim.
	ARN string
	// Expires, if set, is when the key's session ends on the server's clock.
	Expires time.Time
	// Deny lists actions ("RunInstances", "ec2:Describe*", "*") that the
	// caller is not authorized for. Allow, if not empty, lists all that it is.
	Allow, Deny []string
	// Unthrottled calls take no tokens: those of who looks on or tampers, where
	// somebody else's are measured.
	Unthrottled bool
}

// DefaultCredential is accepted where Options name none.
func DefaultCredential() Credential {
	return Credential{
		AccessKeyID: "AKIAEC2SIMDEFAULT000", SecretAccessKey: "ec2sim-secret", Account: "123456789012",
	}
}

// Role is one that callers may assume.
type Role struct {
	// ARN is arn:aws:iam::ACCOUNT:role/NAME.
	ARN string
	// ExternalID, if set, must be given by the caller.
	ExternalID string
	// TrustedAccounts may assume it; none means all. A web identity may
	// assume every role.
	TrustedAccounts []string
	Allow, Deny     []string
	// Duration of its sessions; zero means one hour.
	Duration time.Duration
}
