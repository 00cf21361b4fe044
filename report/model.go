// Package report turns decisions into what people and programs read: one
// model, and a writer for each format. It does no I/O beyond the writer it is
// given.
package report

import (
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// APIVersion of the report's JSON form, on which scripts rely.
const APIVersion = "report.holdfast.io/v1alpha1"

// Kind of the report, beside its APIVersion.
const Kind = "DriftReport"

// Report is one scan. Its JSON form is the contract of `-o json`.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Generated  time.Time `json:"generated"`
	// Version of the binary that made it.
	Version  string    `json:"version"`
	Clusters []Cluster `json:"clusters"`
	Findings []Finding `json:"findings"`
	Summary  Summary   `json:"summary"`
	// Problems are what the scan itself met: objects that could not be read,
	// owners whose cloud could not be reached.
	Problems []Problem `json:"problems,omitempty"`
	// Compared is nil unless a previous report was given.
	Compared *Comparison `json:"compared,omitempty"`
}

// Comparison says what became of a previous report's findings.
type Comparison struct {
	// Previous is when the previous report was made.
	Previous time.Time `json:"previous"`
	// New and Unchanged count the listed findings by their Since.
	New       int `json:"new"`
	Unchanged int `json:"unchanged"`
	// Resolved are findings of the previous report that were looked for again
	// and are gone.
	Resolved []Finding `json:"resolved"`
	// Unverified are findings of the previous report that are not among the
	// present ones and were not looked for either: their owner was not part
	// of this scan, or their resource could not be read. They are not
	// resolved.
	Unverified []Finding `json:"unverified"`
}

// Cluster is one cluster that was looked at.
type Cluster struct {
	Namespace    string     `json:"namespace"`
	Name         string     `json:"name"`
	Provider     string     `json:"provider"`
	Scope        string     `json:"scope"`
	SnapshotTime *time.Time `json:"snapshotTime" jsonschema:"nullable"`
	Coverage     Coverage   `json:"coverage"`
	// Ignored and Foreign count the cluster's findings that were silenced,
	// also where they are not listed.
	Ignored int `json:"ignored"`
	Foreign int `json:"foreign"`
	// Owners lists the owners looked at, with their resources that are in
	// sync, for wide output.
	Owners []Owner `json:"owners,omitempty"`
}

// Owner is one infrastructure object that was looked at.
type Owner struct {
	providers.OwnerRef
	Pool string `json:"pool,omitempty"`
	// Source is the file and line that the object was read from, as
	// providers.Owner gives it; empty for the API server.
	Source string `json:"source,omitempty"`
	// InSync are resources with nothing to say about.
	InSync []detector.ResourceRef `json:"inSync,omitempty"`
}

// Coverage counts wanted fields that were and were not compared; Ratio is
// checked/(checked+notChecked), 1 when nothing was wanted.
type Coverage struct {
	Checked    int     `json:"checked"`
	NotChecked int     `json:"notChecked"`
	Ratio      float64 `json:"ratio"`
}

// Finding is one decision.
type Finding struct {
	Fingerprint string               `json:"fingerprint"`
	Cluster     detector.ClusterRef  `json:"cluster"`
	Owner       providers.OwnerRef   `json:"owner"`
	Pool        string               `json:"pool,omitempty"`
	Resource    detector.ResourceRef `json:"resource"`
	Status      detector.Status      `json:"status"`
	Severity    policies.Severity    `json:"severity"`
	Action      policies.Action      `json:"action"`
	Rule        string               `json:"rule"`
	Policy      string               `json:"policy,omitempty"`
	RuleAt      *policies.Position   `json:"ruleAt,omitempty"`
	Reason      string               `json:"reason"`
	BlockedBy   []string             `json:"blockedBy"`
	Blocks      []Block              `json:"blocks,omitempty"`
	Ignored     *Ignored             `json:"ignored" jsonschema:"nullable"`
	Diffs       []Diff               `json:"diffs"`
	Warnings    []string             `json:"warnings,omitempty"`
	FirstSeen   *time.Time           `json:"firstSeen" jsonschema:"nullable"`
	// Since compares with a previous report: new, or unchanged; empty where
	// no previous report was given.
	Since Since `json:"since,omitempty"`
}

// Since places a finding against a previous report.
type Since string

// The places.
const (
	SinceNew       Since = "new"
	SinceUnchanged Since = "unchanged"
)

// Trouble reports whether the finding is drift that somebody should look at:
// drifted, missing or unexpected, and not silenced.
func (f *Finding) Trouble() bool {
	switch f.Status {
	case detector.Drifted, detector.Missing, detector.Unexpected:
		return f.Ignored == nil
	}
	return false
}

// Incomplete reports whether the finding says that something could not be
// compared, and nobody silenced it.
func (f *Finding) Incomplete() bool {
	return f.Ignored == nil && (f.Status == detector.NotChecked || f.Status == detector.Unknown)
}

// Block is one gate that holds an action back.
type Block struct {
	By     string     `json:"by"`
	Detail string     `json:"detail"`
	Until  *time.Time `json:"until,omitempty"`
}

// Ignored says what silenced a finding.
type Ignored struct {
	By        string     `json:"by"`
	Reason    string     `json:"reason"`
	ExpiresAt *time.Time `json:"expiresAt" jsonschema:"nullable"`
}

// Diff is one differing value.
type Diff struct {
	Path      string            `json:"path"`
	Want      providers.Value   `json:"want"`
	Have      providers.Value   `json:"have"`
	Type      detector.DiffType `json:"type"`
	Sensitive bool              `json:"sensitive"`
	Adopted   bool              `json:"adopted,omitempty"`
}

// Problem is something the scan met that is no drift.
type Problem struct {
	Cluster *detector.ClusterRef `json:"cluster,omitempty"`
	Object  string               `json:"object,omitempty"`
	Reason  string               `json:"reason"`
	Message string               `json:"message"`
	// Warning problems kept nothing from being compared: a field that the API
	// does not have, for one.
	Warning bool `json:"warning,omitempty"`
}

// Summary counts. Drifted to Unknown count findings, and neither ignored nor
// foreign ones; Ignored and Foreign count those also where they are not
// listed.
type Summary struct {
	// Owners counts the infrastructure objects that were looked at.
	Owners int `json:"owners"`
	// Checked counts the resources that got a verdict.
	Checked    int `json:"checked"`
	Drifted    int `json:"drifted"`
	Missing    int `json:"missing"`
	Unexpected int `json:"unexpected"`
	NotChecked int `json:"notChecked"`
	Unknown    int `json:"unknown"`
	Ignored    int `json:"ignored"`
	Foreign    int `json:"foreign"`
	// BySeverity counts drifted, missing and unexpected findings; every
	// severity has an entry.
	BySeverity map[policies.Severity]int `json:"bySeverity"`
	// WouldPatch and WouldReplace count findings by the action that was
	// decided, whether or not a gate holds it back; Blocked counts those of
	// them that a gate holds back.
	WouldPatch   int `json:"wouldPatch"`
	WouldReplace int `json:"wouldReplace"`
	Blocked      int `json:"blocked"`
}
