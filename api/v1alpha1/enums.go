package v1alpha1

// Mode is how far a policy goes: `off` compares nothing, `observe` reports,
// `dryRun` decides in full and executes nothing, `enforce` decides in full and
// lets the daemon act. A report never acts, whatever the mode.
//
// +kubebuilder:validation:Enum=off;observe;dryRun;enforce
type Mode string

// Modes, from the safest.
const (
	ModeOff     Mode = "off"
	ModeObserve Mode = "observe"
	ModeDryRun  Mode = "dryRun"
	ModeEnforce Mode = "enforce"
)

// Values lists every mode, the safest first.
func (Mode) Values() []string { return []string{"off", "observe", "dryRun", "enforce"} }

// Action is what follows from drift: `ignore` hides it, `observe` reports it,
// `patch` sets the field back in the cloud, `replace` has Cluster API make a
// new machine.
//
// +kubebuilder:validation:Enum=ignore;observe;patch;replace
type Action string

// Actions, from the safest.
const (
	ActionIgnore  Action = "ignore"
	ActionObserve Action = "observe"
	ActionPatch   Action = "patch"
	ActionReplace Action = "replace"
)

// Values lists every action, in rising order of consequence.
func (Action) Values() []string { return []string{"ignore", "observe", "patch", "replace"} }

// WriteAction is an action that changes something.
//
// +kubebuilder:validation:Enum=patch;replace
type WriteAction string

// Values lists the actions that change something.
func (WriteAction) Values() []string { return []string{"patch", "replace"} }

// Severity says how bad drift is.
//
// +kubebuilder:validation:Enum=critical;high;medium;low;info
type Severity string

// Values lists every severity, the worst first.
func (Severity) Values() []string { return []string{"critical", "high", "medium", "low", "info"} }

// Approval says whether a person must approve each action: `required` or
// `none`.
//
// +kubebuilder:validation:Enum=none;required
type Approval string

// Approvals.
const (
	ApprovalNone     Approval = "none"
	ApprovalRequired Approval = "required"
)

// Values lists every approval.
func (Approval) Values() []string { return []string{"none", "required"} }

// Disruption says whether a patch may stop a machine: `never` or `allowed`.
//
// +kubebuilder:validation:Enum=never;allowed
type Disruption string

// Disruptions.
const (
	DisruptionNever   Disruption = "never"
	DisruptionAllowed Disruption = "allowed"
)

// Values lists every value, the stricter first.
func (Disruption) Values() []string { return []string{"never", "allowed"} }

// ReplacePath is how a machine is replaced: `auto` asks its MachineHealthCheck
// or its controller, `surge` makes the new machine first, `delete` deletes the
// Machine and lets its controller make another.
//
// +kubebuilder:validation:Enum=auto;surge;delete
type ReplacePath string

// Paths of replacement.
const (
	ReplaceAuto   ReplacePath = "auto"
	ReplaceSurge  ReplacePath = "surge"
	ReplaceDelete ReplacePath = "delete"
)

// Values lists every path.
func (ReplacePath) Values() []string { return []string{"auto", "surge", "delete"} }

// Status is what comparing a resource came to.
//
// +kubebuilder:validation:Enum=Drifted;Missing;Unexpected;Foreign;NotChecked;Unknown
type Status string

// Values lists the statuses that a rule may name. InSync is not among them:
// nothing is decided about a resource in sync.
func (Status) Values() []string {
	return []string{"Drifted", "Missing", "Unexpected", "Foreign", "NotChecked", "Unknown"}
}

// BudgetScope is what a budget counts in: one `pool` (a MachineDeployment, a
// MachineSet or a control plane), one `zone` of a cluster, one `cluster`, or
// `all` clusters together.
//
// +kubebuilder:validation:Enum=pool;zone;cluster;all
type BudgetScope string

// Budget scopes, from the smallest.
const (
	ScopePool    BudgetScope = "pool"
	ScopeZone    BudgetScope = "zone"
	ScopeCluster BudgetScope = "cluster"
	ScopeAll     BudgetScope = "all"
)

// Values lists every scope, the smallest first.
func (BudgetScope) Values() []string { return []string{"pool", "zone", "cluster", "all"} }

// WindowKind is what a window does while it is open: `allow` lets actions run
// only then, `deny` lets none run then. Deny beats allow.
//
// +kubebuilder:validation:Enum=allow;deny
type WindowKind string

// Window kinds.
const (
	WindowAllow WindowKind = "allow"
	WindowDeny  WindowKind = "deny"
)

// Values lists every kind of window.
func (WindowKind) Values() []string { return []string{"allow", "deny"} }

// ControlPlane is what may happen to control-plane machines: `observe` lets
// nothing act on them, `enforce` lets rules act on one at a time while the
// control plane is healthy.
//
// +kubebuilder:validation:Enum=observe;enforce
type ControlPlane string

// What may happen to control planes.
const (
	ControlPlaneObserve ControlPlane = "observe"
	ControlPlaneEnforce ControlPlane = "enforce"
)

// Values lists every value, the stricter first.
func (ControlPlane) Values() []string { return []string{"observe", "enforce"} }
