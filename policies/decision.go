package policies

import (
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
)

// Action is what a decision does, in rising order of consequence.
type Action string

// Actions.
const (
	Ignore  Action = "ignore"
	Observe Action = "observe"
	Patch   Action = "patch"
	Replace Action = "replace"
)

// Severity of a decision.
type Severity string

// Severities, from the worst.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
	Info     Severity = "info"
)

// Mode is how far a policy goes.
type Mode string

// Modes.
const (
	ModeOff     Mode = "off"     // not compared at all
	ModeObserve Mode = "observe" // reported
	ModeDryRun  Mode = "dryRun"  // decided in full, and not executed
	ModeEnforce Mode = "enforce" // executed
)

// Position is where something in a policy stands.
type Position struct {
	// File is a path as the user gave it, "builtin/aws.yaml" for a built-in
	// policy, or "DriftPolicy/NAME" for an object.
	File string `json:"file"`
	// Line and Column count from 1; 0 is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// RuleRef names the rule that decided.
type RuleRef struct {
	ID     string
	Policy string
	Position
}

// Block is one gate that keeps a decision from being executed.
type Block struct {
	// By is the gate's name, a CamelCase word: Mode, Paused, Window, Budget,
	// Grace, Approval, MassDrift …
	By string
	// Detail says what and why, in one line.
	Detail string
	// Until is when the gate opens by itself; zero if it does not.
	Until time.Time
}

// Ignored says which entry silenced a decision.
type Ignored struct {
	By        string // who owns the entry, or the entry's position
	Reason    string
	ExpiresAt time.Time // zero: never
	Position
}

// Decision is what to do about those diffs of one finding that one rule
// decides. Findings without diffs give one decision.
type Decision struct {
	// Finding carries only this decision's diffs, and their fingerprint.
	Finding  detector.Finding
	Action   Action
	Severity Severity
	Mode     Mode
	Rule     RuleRef
	// Reason says in one line why this action and not another.
	Reason string
	// Blocked lists every gate that holds the action back, in a fixed order.
	Blocked []Block
	// Ignored is nil unless an ignore entry matched.
	Ignored *Ignored
	// FirstSeen is when this fingerprint was first seen, if known.
	FirstSeen time.Time
	// Attempts bound how often it is tried: the rule's, or the default.
	Attempts v1alpha1.Attempts
	// Disruptive actions stop or remove a machine.
	Disruptive bool
	// Strategy is the path by which a machine is replaced.
	Strategy v1alpha1.ReplacePath
}
