package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// KindRemediation is the Kind of the record of an action.
const KindRemediation = "Remediation"

// Remediation records one action against drift: why it is to be done, what
// holds it back, what was done and whether it helped. It is written before
// anything is changed, and stands beside the object that it is about.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=rem,categories=holdfast
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner.name`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.action`
// +kubebuilder:printcolumn:name="Severity",type=string,JSONPath=`.spec.severity`,priority=1
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Attempts",type=integer,JSONPath=`.status.attemptCount`
// +kubebuilder:printcolumn:name="Changed by",type=string,JSONPath=`.spec.changedBy`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Remediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Spec is what is to be done, and why.
	Spec RemediationSpec `json:"spec"`
	// Status is how far it got.
	Status RemediationStatus `json:"status,omitzero"`
}

// RemediationList is a list of Remediations.
//
// +kubebuilder:object:root=true
type RemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Remediation `json:"items"`
}

// RemediationSpec is what is to be done, and why. But for approved and
// approvedBy it is written by Holdfast alone.
type RemediationSpec struct {
	// ClusterName is the Cluster that the owner belongs to, in the same
	// namespace.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterName is written once"
	ClusterName string `json:"clusterName"`
	// Owner is the infrastructure object that wants the resource. Its apiVersion
	// is a spelling, which later releases may change.
	//
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind && self.name == oldSelf.name && self.uid == oldSelf.uid",message="kind, name and uid of the owner are written once"
	Owner ObjectRef `json:"owner"`
	// Machine is the owner's Machine; it is not set for owners that are
	// clusters.
	Machine *ObjectRef `json:"machine,omitempty"`
	// Pool is what the Machine is one of, as Kind/name.
	Pool string `json:"pool,omitempty"`
	// Zone is the Machine's failure domain.
	Zone string `json:"zone,omitempty"`
	// ControlPlane is true for a control-plane Machine.
	ControlPlane bool `json:"controlPlane,omitempty"`
	// Scope is the place in the cloud where the resource is.
	Scope ScopeRef `json:"scope"`
	// Resource is what is to be changed or replaced.
	//
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind && self.id == oldSelf.id",message="kind and id of the resource are written once"
	Resource ResourceRef `json:"resource"`
	// Fingerprint names the drift: the same drift of the same resource has the
	// same one in every read.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="fingerprint is written once"
	Fingerprint string `json:"fingerprint"`
	// Action is patch or replace.
	//
	// +kubebuilder:validation:Enum=patch;replace
	Action WriteAction `json:"action"`
	// Severity is the deciding rule's.
	Severity Severity `json:"severity"`
	// Rule is what decided it.
	Rule DecidingRule `json:"rule"`
	// Attempts bound how often it is tried; no more than ten are counted.
	Attempts *Attempts `json:"attempts,omitempty"`
	// Strategy is the path by which the rule wants a machine replaced.
	Strategy ReplacePath `json:"strategy,omitempty"`
	// Disruptive is true where the machine is stopped or removed.
	Disruptive bool `json:"disruptive,omitempty"`
	// Plan lists each value that differs, as it was when the record was made.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Plan []PlannedChange `json:"plan,omitempty"`
	// ChangedBy is who made the change, where the cloud's events tell: an IAM
	// principal, a vCenter user.
	ChangedBy string `json:"changedBy,omitempty"`
	// FirstSeen is when the drift was first seen.
	FirstSeen *metav1.Time `json:"firstSeen,omitempty"`
	// PriorAttempts are when the same was tried before under another record: on
	// a machine whose place this one took, or for more or fewer of the same
	// values. They count as attempts.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	PriorAttempts []metav1.Time `json:"priorAttempts,omitempty"`
	// Approved is a person's answer where the rule wants one: true to go
	// ahead, false to leave it.
	Approved *bool `json:"approved,omitempty"`
	// ApprovedBy names who answered.
	ApprovedBy string `json:"approvedBy,omitempty"`
	// RetriedAt is set by a person to try again what is Failed or Latched:
	// attempts before it do not count.
	RetriedAt *metav1.Time `json:"retriedAt,omitempty"`
}

// ObjectRef names an object of the record's namespace. The UID tells it from a
// later one of the same name.
type ObjectRef struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

// ScopeRef is one place in a cloud.
type ScopeRef struct {
	// Provider is the cloud: aws, vsphere, docker.
	Provider string `json:"provider"`
	// Account is the AWS account, or the vCenter's host name.
	Account string `json:"account"`
	// Region is the AWS region.
	Region string `json:"region,omitempty"`
	// Identity names the identity object by which it is read.
	Identity string `json:"identity,omitempty"`
}

// ResourceRef names a resource in its cloud.
type ResourceRef struct {
	Kind string `json:"kind"`
	// ID is the cloud's own identifier.
	ID string `json:"id"`
	// Name is for people.
	Name string `json:"name,omitempty"`
}

// DecidingRule names a rule and the policy that it stands in.
type DecidingRule struct {
	ID     string `json:"id"`
	Policy string `json:"policy,omitempty"`
}

// PlannedChange is one value that differs. Values of sensitive fields are left
// out.
type PlannedChange struct {
	// Path is the JSON pointer of the field.
	Path string `json:"path"`
	// Type is changed, added (in the cloud only) or removed (from the cloud).
	Type string `json:"type"`
	// Element is true where want or seen is one element of a set.
	Element bool `json:"element,omitempty"`
	// Want is the declared value; not set where there is none.
	Want *string `json:"want,omitempty"`
	// Seen is the value in the cloud; not set where there is none.
	Seen *string `json:"seen,omitempty"`
	// Sensitive values are not shown.
	Sensitive bool `json:"sensitive,omitempty"`
}

// RemediationPhase is how far a Remediation got.
//
// +kubebuilder:validation:Enum=Pending;AwaitingApproval;Blocked;Running;Verifying;Succeeded;Failed;Latched;Cancelled
type RemediationPhase string

// Phases. Pending, AwaitingApproval and Blocked come before anything is done;
// Running and Verifying are in flight; the rest are ends, of which Latched
// waits for a person.
const (
	// PhasePending is about to be done.
	PhasePending RemediationPhase = "Pending"
	// PhaseAwaitingApproval waits for spec.approved.
	PhaseAwaitingApproval RemediationPhase = "AwaitingApproval"
	// PhaseBlocked is held back by the gates in status.blocked.
	PhaseBlocked RemediationPhase = "Blocked"
	// PhaseRunning has begun: the record of it was stored first.
	PhaseRunning RemediationPhase = "Running"
	// PhaseVerifying was done, and waits for a later read that shows it.
	PhaseVerifying RemediationPhase = "Verifying"
	// PhaseSucceeded was seen to have helped.
	PhaseSucceeded RemediationPhase = "Succeeded"
	// PhaseFailed did not work, and may be tried again.
	PhaseFailed RemediationPhase = "Failed"
	// PhaseLatched is not tried again until a person says so.
	PhaseLatched RemediationPhase = "Latched"
	// PhaseCancelled became needless before anything was done: the drift or
	// the owner is gone, or the policy wants something else now.
	PhaseCancelled RemediationPhase = "Cancelled"
)

// Ended reports whether nothing more happens by itself.
func (p RemediationPhase) Ended() bool {
	switch p {
	case PhaseSucceeded, PhaseFailed, PhaseLatched, PhaseCancelled:
		return true
	default:
		return false
	}
}

// InFlight reports whether it has begun and not ended.
func (p RemediationPhase) InFlight() bool { return p == PhaseRunning || p == PhaseVerifying }

// RemediationStatus is how far a Remediation got.
type RemediationStatus struct {
	// ObservedGeneration is the generation of the spec that this is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase says how far it got.
	Phase RemediationPhase `json:"phase,omitempty"`
	// Reason says why, in a CamelCase word: a gate's name, an error's code.
	Reason string `json:"reason,omitempty"`
	// Message says the same for people, in one line.
	Message string `json:"message,omitempty"`
	// Blocked lists the gates that hold it back.
	//
	// +listType=atomic
	Blocked []GateBlock `json:"blocked,omitempty"`
	// Attempts are what was tried, the newest last; the last ten are kept.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Attempts []Attempt `json:"attempts,omitempty"`
	// AttemptCount is how often it was tried in all.
	AttemptCount int32 `json:"attemptCount,omitempty"`
	// StartedAt is when the last attempt began.
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// Seal is a digest of the spec as it was then: if it was changed since, the
	// attempt does not go on.
	Seal string `json:"seal,omitempty"`
	// EndedAt is when it ended: the record is kept for a time after.
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// Replacement is how far the replacement of a Machine got.
	Replacement *Replacement `json:"replacement,omitempty"`
	// Drain is how far the node of a machine that a patch stops was emptied.
	Drain *Drain `json:"drain,omitempty"`
	// ContestedBy names who sets the value back, where that is known.
	ContestedBy string `json:"contestedBy,omitempty"`
	// Conditions: Approved, Executed, Removed, Verified.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GateBlock is one gate that is closed.
type GateBlock struct {
	// By is the gate's name: Window, Budget, Approval …
	By string `json:"by"`
	// Detail says what and why, in one line.
	Detail string `json:"detail,omitempty"`
	// Until is when it opens by itself.
	Until *metav1.Time `json:"until,omitempty"`
}

// Attempt is one try.
type Attempt struct {
	// Number counts from 1.
	Number int32 `json:"number"`
	// StartedAt was stored before anything was changed.
	StartedAt metav1.Time `json:"startedAt"`
	// EndedAt is when it was verified or given up.
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// Outcome is Succeeded, Failed, NoEffect (the drift was still there),
	// Reverted (it came back) or Held (nothing was changed: the cloud protects
	// the resource, or it had moved on; such an attempt does not count); empty
	// while it runs.
	Outcome string `json:"outcome,omitempty"`
	// Message says more, in one line.
	Message string `json:"message,omitempty"`
}

// Outcomes of an attempt.
const (
	OutcomeSucceeded = "Succeeded"
	OutcomeFailed    = "Failed"
	OutcomeNoEffect  = "NoEffect"
	OutcomeReverted  = "Reverted"
	OutcomeHeld      = "Held"
)

// Conditions of a Remediation.
const (
	// ConditionApproved is a person's answer, where there is one.
	ConditionApproved = "Approved"
	// ConditionExecuted is True once the last attempt has done what it does.
	ConditionExecuted = "Executed"
	// ConditionRemoved is True once a Machine that is replaced is gone.
	ConditionRemoved = "Removed"
	// ConditionVerified is True once a later read has shown that it helped. A
	// Failed replacement on which it is True no longer halts its pool.
	ConditionVerified = "Verified"
)

// Drain is how far a node was emptied.
type Drain struct {
	// Node is its name.
	Node string `json:"node"`
	// Cordoned is true where Holdfast made the node unschedulable, and will
	// make it schedulable again.
	Cordoned bool `json:"cordoned,omitempty"`
	// StartedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
}

// Replacement is how far the replacement of a Machine got.
type Replacement struct {
	// Strategy is the path that was taken: HealthCheck (a MachineHealthCheck
	// was asked), OwnerRemediation (the Machine's controller was asked by the
	// conditions that it honours), Delete or Surge.
	//
	// +kubebuilder:validation:Enum=HealthCheck;OwnerRemediation;Delete;Surge
	Strategy ReplaceStrategy `json:"strategy"`
	// Step is how far a strategy of several steps got.
	Step string `json:"step,omitempty"`
	// Replicas is what the MachineDeployment had before a surge.
	Replicas *int32 `json:"replicas,omitempty"`
	// ReplacedBy is the name of the Machine that took the place, once known.
	ReplacedBy string `json:"replacedBy,omitempty"`
}

// ReplaceStrategy is a path by which a Machine is replaced.
type ReplaceStrategy string

// Strategies.
const (
	StrategyHealthCheck      ReplaceStrategy = "HealthCheck"
	StrategyOwnerRemediation ReplaceStrategy = "OwnerRemediation"
	StrategyDelete           ReplaceStrategy = "Delete"
	StrategySurge            ReplaceStrategy = "Surge"
)
