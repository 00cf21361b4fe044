package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Group, Version and Kind of the policy document.
const (
	Group           = "drift.holdfast.io"
	Version         = "v1alpha1"
	KindDriftPolicy = "DriftPolicy"
)

// Annotations that an owner, its Machine or its Cluster may carry. They can
// only make things safer: none of them allows what the policies do not.
const (
	// AnnotationMode lowers the mode: off, observe or dryRun. A value that is
	// no mode counts as observe.
	AnnotationMode = Group + "/mode"
	// AnnotationIgnore lists paths, separated by commas, whose drift is
	// ignored: "/tags/*, /instanceType"; "*" is every path.
	AnnotationIgnore = Group + "/ignore"
	// AnnotationSkipReplace keeps a machine from being replaced. Every value
	// but "false" does.
	AnnotationSkipReplace = Group + "/skip-replace"
)

// DriftPolicy says what is done about drift between Cluster API objects and
// the clouds behind them. It is a file or an object of the management cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=dp,categories=holdfast
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].reason`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.matchedClusterCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DriftPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Spec is the policy itself.
	Spec DriftPolicySpec `json:"spec"`
	// Status is what became of it in a management cluster; a file has none.
	Status DriftPolicyStatus `json:"status,omitzero"`
}

// DriftPolicyList is a list of DriftPolicies.
//
// +kubebuilder:object:root=true
type DriftPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []DriftPolicy `json:"items"`
}

// DriftPolicyStatus is what became of a policy in a management cluster.
type DriftPolicyStatus struct {
	// ObservedGeneration is the generation that was judged last.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastGoodGeneration is the generation that is in effect. A later one that
	// is not valid changes nothing; the last good one is lost when the daemon
	// starts anew, and then nothing of the policy is in effect.
	LastGoodGeneration int64 `json:"lastGoodGeneration,omitempty"`
	// MatchedClusterCount is how many Clusters the policy is for.
	MatchedClusterCount int32 `json:"matchedClusterCount"`
	// MatchedClusters are the first of them as NAMESPACE/NAME, sorted.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	MatchedClusters []string `json:"matchedClusters,omitempty"`
	// Conditions: Valid, with what is wrong and where in its message, and
	// Matched, which is False while the policy is for no Cluster that there is.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionValid is the DriftPolicy condition that says whether it is valid.
const ConditionValid = "Valid"

// ConditionMatched is the DriftPolicy condition that says whether there is a
// Cluster that it is for. There is none while no Cluster is known of at all.
const ConditionMatched = "Matched"

// DriftPolicySpec is the policy itself. What it leaves out comes from policies
// of lower precedence: built-in, then default (no match), then matched by
// label, then naming the cluster.
type DriftPolicySpec struct {
	// Match says which clusters the policy is for. A policy without it is a
	// default for every cluster.
	Match *Match `json:"match,omitempty"`
	// Mode is how far the policy goes: `off` compares nothing, `observe`
	// reports, `dryRun` and `enforce` decide in full. The built-in mode is
	// observe. Only `enforce` changes anything, and only where holdfast
	// controller runs: a report says what would be done.
	Mode Mode `json:"mode,omitempty"`
	// Schedule says when clouds are read.
	Schedule *Schedule `json:"schedule,omitempty"`
	// Rules say what follows from which drift. For one differing value the
	// last rule that matches decides, and rules of a more specific policy
	// come after those of a less specific one. A rule with the id of a rule
	// in a less specific policy changes that rule: what it leaves out stays.
	//
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=500
	Rules []Rule `json:"rules,omitempty"`
	// Ignore lists drift that is known and accepted. Entries of all policies
	// that match a cluster are used together.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Ignore []Ignore `json:"ignore,omitempty"`
	// Budgets bound how many actions run at once. The most restrictive of all
	// that apply wins.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Budgets []Budget `json:"budgets,omitempty"`
	// Windows say when actions may run. They never gate detection.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Windows []Window `json:"windows,omitempty"`
	// Safety bounds what may happen whatever the rules say. Of several
	// policies the stricter value wins.
	Safety *Safety `json:"safety,omitempty"`
}

// Match says which clusters a policy is for: those that any entry of clusters
// names (if there are entries), that clusterSelector selects (if it is set),
// and that no entry of exclude names.
type Match struct {
	// Clusters names clusters. A policy with entries here is more specific
	// than one with a selector only.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Clusters []ClusterPattern `json:"clusters,omitempty"`
	// ClusterSelector selects clusters by the labels of their Cluster object.
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// Exclude names clusters that the policy is not for.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Exclude []ClusterPattern `json:"exclude,omitempty"`
}

// ClusterPattern names clusters.
type ClusterPattern struct {
	// Namespace of the Cluster object; `*` stands for any run of characters.
	// Without it every namespace matches.
	//
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// Name of the Cluster object; `*` stands for any run of characters.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Schedule says when clouds are read.
//
// +kubebuilder:validation:XValidation:rule="!has(self.staleAfter) || duration(self.staleAfter) > duration('0s')",message="staleAfter must be above 0s",fieldPath=".staleAfter"
type Schedule struct {
	// Cron is when to read, in the five fields of cron or a word like
	// `@hourly`.
	//
	// +kubebuilder:validation:Pattern=`^(@[a-z]+( .*)?|\S+( +\S+){4})$`
	// +kubebuilder:validation:MaxLength=200
	Cron string `json:"cron,omitempty"`
	// TimeZone is the IANA name of the zone that cron is in, UTC if not set.
	//
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Jitter is the longest random delay after the time that cron gives.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=40
	Jitter *metav1.Duration `json:"jitter,omitempty"`
	// StaleAfter is how long a read counts as fresh in reports.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=40
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// Rule says what follows from one kind of drift.
type Rule struct {
	// ID names the rule. Policies change each other's rules by it.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`
	// Target says which resources the rule is about.
	Target *Target `json:"target,omitempty"`
	// Paths are JSON pointers of the fields that the rule is about, in the
	// words of the catalog. A path covers everything under it; `*` stands for
	// any run of characters within one segment. Without paths the rule is
	// about every field, and about findings that have no differing field.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Pattern=`^/([^~]|~[01])*$`
	// +kubebuilder:validation:items:MaxLength=512
	Paths []string `json:"paths,omitempty"`
	// When is a CEL expression that must be true. It sees want and have (the
	// resource's fields as nested maps), owner, cluster, finding, diff and
	// now. Where it cannot be evaluated nothing acts.
	//
	// +kubebuilder:validation:MaxLength=4096
	When string `json:"when,omitempty"`
	// Severity says how bad this drift is; medium if not set.
	Severity Severity `json:"severity,omitempty"`
	// Action is what follows. A field that the cloud cannot change in place
	// cannot be patched.
	Action Action `json:"action,omitempty"`
	// Grace is how long and how often drift must be seen before an action.
	Grace *Grace `json:"grace,omitempty"`
	// Approval says whether a person must approve each action.
	Approval Approval `json:"approval,omitempty"`
	// Attempts bound how often an action is tried for the same drift; 3 in 24h
	// if not set.
	Attempts *Attempts `json:"attempts,omitempty"`
	// Disruptive says whether a patch may stop the machine, for fields that
	// the cloud changes only while it is stopped: its node is cordoned and
	// drained first. `never` if not set.
	Disruptive Disruption `json:"disruptive,omitempty"`
	// Replace says how a machine is replaced.
	Replace *Replace `json:"replace,omitempty"`
}

// Replace says how a machine is replaced.
type Replace struct {
	// Strategy is the path: `auto` asks the MachineHealthCheck that covers the
	// machine, or else its MachineSet or KubeadmControlPlane; `surge` lets the
	// MachineDeployment make one machine more first; `delete` deletes the
	// Machine. `auto` if not set.
	Strategy ReplacePath `json:"strategy,omitempty"`
}

// Target says which resources are meant. Everything that is set must match.
type Target struct {
	// Provider is the cloud: aws, vsphere, docker.
	//
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider,omitempty"`
	// Kind is the kind of resource, such as Instance or SecurityGroup.
	//
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// ID is the cloud's own identifier; `*` stands for any run of characters.
	//
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id,omitempty"`
	// Name is the resource's display name; `*` stands for any run of
	// characters. Names do not identify anything: prefer id.
	//
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name,omitempty"`
	// Statuses are what comparing came to; without it, every one. What hides
	// findings (an ignore entry, a rule whose action is ignore) hides
	// NotChecked and Unknown only if they are named here.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=6
	Statuses []Status `json:"statuses,omitempty"`
}

// Grace is how long and how often drift must be seen before an action.
type Grace struct {
	// For is how long the drift must have lasted.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=40
	For *metav1.Duration `json:"for,omitempty"`
	// Observations is in how many reads the drift must have been seen.
	//
	// +kubebuilder:validation:Minimum=1
	Observations *int32 `json:"observations,omitempty"`
}

// Attempts bound how often an action is tried for the same drift.
//
// +kubebuilder:validation:XValidation:rule="!has(self.per) || duration(self.per) > duration('0s')",message="per must be above 0s, or left out",fieldPath=".per"
type Attempts struct {
	// Max is how many attempts there may be.
	//
	// +kubebuilder:validation:Minimum=1
	Max int32 `json:"max"`
	// Per is the time in which attempts are counted. Without it they are
	// counted for ever.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=40
	Per *metav1.Duration `json:"per,omitempty"`
}

// Ignore is drift that is known and accepted.
type Ignore struct {
	// Target says which resources are meant; without it, every one. Without
	// statuses an entry is about Drifted, Missing and Unexpected alone: what
	// could not be read or told (NotChecked, Unknown) is hidden only where
	// statuses name it.
	Target *Target `json:"target,omitempty"`
	// Paths are JSON pointers of the fields that are meant, as in rules.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Pattern=`^/([^~]|~[01])*$`
	// +kubebuilder:validation:items:MaxLength=512
	Paths []string `json:"paths,omitempty"`
	// When is a CEL expression that must be true, as in rules. Where it
	// cannot be evaluated, nothing is ignored and nothing acts.
	//
	// +kubebuilder:validation:MaxLength=4096
	When string `json:"when,omitempty"`
	// Reason says why the drift is accepted.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// Owner says who answers for the entry.
	//
	// +kubebuilder:validation:MaxLength=253
	Owner string `json:"owner,omitempty"`
	// ExpiresAt is when the entry ends: a date (its start in UTC) or an
	// RFC 3339 time. Without it the entry does not end.
	ExpiresAt Expiry `json:"expiresAt,omitempty"`
}

// Expiry is a date such as 2027-03-01 or an RFC 3339 time.
//
// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T.+)?$`
// +kubebuilder:validation:MaxLength=40
type Expiry string

// Budget bounds how many actions run at once. What is in flight counts whoever
// began it: health checks, rollouts and people too.
type Budget struct {
	// Scope is what is counted in.
	Scope BudgetScope `json:"scope"`
	// Actions that the budget bounds; without it, patch and replace.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Actions []WriteAction `json:"actions,omitempty"`
	// Max is how many owners may be in flight: a number, or a percentage of
	// the machines in the scope. A percentage is rounded down, but one above
	// 0% allows at least one.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == string || int(self) >= 0",message="max must be 0 or more, or a percentage such as 30%"
	Max intstr.IntOrString `json:"max"`
}

// Window is a recurring time that allows or denies actions.
//
// +kubebuilder:validation:XValidation:rule="duration(self.duration) > duration('0s') && duration(self.duration) <= duration('744h')",message="duration must be above 0s and at most 744h",fieldPath=".duration"
type Window struct {
	// Kind is what the window does.
	Kind WindowKind `json:"kind"`
	// Cron is when the window opens, in the five fields of cron.
	//
	// +kubebuilder:validation:Pattern=`^(@[a-z]+( .*)?|\S+( +\S+){4})$`
	// +kubebuilder:validation:MaxLength=200
	Cron string `json:"cron"`
	// Duration is how long the window stays open, in elapsed time.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=40
	Duration metav1.Duration `json:"duration"`
	// TimeZone is the IANA name of the zone that cron is in, UTC if not set.
	//
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Actions that the window gates; without it, patch and replace.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Actions []WriteAction `json:"actions,omitempty"`
}

// Safety bounds what may happen whatever the rules say.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSnapshotAge) || duration(self.maxSnapshotAge) > duration('0s')",message="maxSnapshotAge must be above 0s: nothing could ever act",fieldPath=".maxSnapshotAge"
type Safety struct {
	// MaxDriftRatio is the share of a cluster's owners that may drift at
	// once. Above it nothing acts. A single drifting owner is never too many.
	MaxDriftRatio *Percent `json:"maxDriftRatio,omitempty"`
	// MaxSnapshotAge is how old the read may be that an action rests on.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=40
	MaxSnapshotAge *metav1.Duration `json:"maxSnapshotAge,omitempty"`
	// MinHealthy is how many of the pool's other machines must be ready
	// before one is disrupted: a number, or a percentage rounded up.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == string || int(self) >= 0",message="minHealthy must be 0 or more, or a percentage such as 30%"
	MinHealthy *intstr.IntOrString `json:"minHealthy,omitempty"`
	// MaxUnhealthyZone is the share of a zone's machines that may be unready.
	// Above it nothing in the zone is acted on.
	MaxUnhealthyZone *Percent `json:"maxUnhealthyZone,omitempty"`
	// ControlPlane is what may happen to control-plane machines.
	ControlPlane ControlPlane `json:"controlPlane,omitempty"`
}

// Percent is a whole percentage such as 30%.
//
// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
type Percent string
