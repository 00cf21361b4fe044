package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// BuildInput is everything that one scan came to.
type BuildInput struct {
	// Version of the binary.
	Version string
	// Now is the time of the report; ages are counted from it.
	Now time.Time
	// Clusters that were looked at, in any order, in sync or not.
	Clusters []ClusterInput
	// Decisions of all clusters, in any order.
	Decisions []policies.Decision
	// Problems that the scan met, in any order.
	Problems []Problem
	// ShowIgnored lists ignored and foreign findings too.
	ShowIgnored bool
	// Previous is the report to compare with, or nil.
	Previous *Report
}

// ClusterInput is one cluster that was looked at.
type ClusterInput struct {
	Ref detector.ClusterRef
	// Provider is the provider's name, also where there is no scope.
	Provider string
	// Scope is the zero Scope where it could not be found out.
	Scope providers.Scope
	// SnapshotTime is zero where nothing could be read.
	SnapshotTime time.Time
	// Checked and NotChecked count wanted fields that were and were not
	// compared.
	Checked, NotChecked int
	// Owners that were looked at.
	Owners []Owner
}

// Build makes the report of a scan. It is pure, and keeps nothing of its
// argument that a caller may change later. Equal inputs in any order give
// equal reports. Sensitive values are masked
// here, so that no writer can leak one.
func Build(in BuildInput) *Report {
	r := &Report{
		APIVersion: APIVersion,
		Kind:       Kind,
		Generated:  in.Now.UTC().Truncate(time.Second),
		Version:    in.Version,
		Clusters:   make([]Cluster, 0, len(in.Clusters)),
		Findings:   []Finding{},
		Problems:   sortProblems(in.Problems),
	}
	for i := range in.Clusters {
		r.Clusters = append(r.Clusters, buildCluster(&in.Clusters[i]))
	}
	sortClusters(r.Clusters)

	all := make([]Finding, 0, len(in.Decisions))
	for i := range in.Decisions {
		if in.Decisions[i].Finding.Status != detector.InSync {
			all = append(all, buildFinding(&in.Decisions[i]))
		}
	}
	sortFindings(all)
	if in.Previous != nil {
		r.Compared = compare(in.Previous, r, all)
	}
	r.Summary = summarise(r.Clusters, all)
	countSilenced(r.Clusters, all)
	for i := range all {
		if in.ShowIgnored || listed(&all[i]) {
			r.Findings = append(r.Findings, all[i])
		}
	}
	if r.Compared != nil {
		countSince(r)
	}
	return r
}

// listed says whether a finding is shown without being asked for.
func listed(f *Finding) bool { return f.Ignored == nil && f.Status != detector.Foreign }

func buildCluster(in *ClusterInput) Cluster {
	c := Cluster{
		Namespace: in.Ref.Namespace,
		Name:      in.Ref.Name,
		Provider:  in.Provider,
		Coverage:  coverageOf(in.Checked, in.NotChecked),
		Owners:    sortOwners(in.Owners),
	}
	if in.Scope != (providers.Scope{}) {
		c.Scope = in.Scope.String()
	}
	c.SnapshotTime = timeOf(in.SnapshotTime)
	return c
}

func coverageOf(checked, notChecked int) Coverage {
	c := Coverage{Checked: checked, NotChecked: notChecked, Ratio: 1}
	if all := checked + notChecked; all > 0 {
		c.Ratio = float64(checked) / float64(all)
	}
	return c
}

func buildFinding(d *policies.Decision) Finding {
	f := Finding{
		Fingerprint: d.Finding.Fingerprint,
		Cluster:     d.Finding.Cluster,
		Owner:       d.Finding.Owner,
		Pool:        d.Finding.Pool,
		Resource:    d.Finding.Resource,
		Status:      d.Finding.Status,
		Severity:    d.Severity,
		Action:      d.Action,
		Rule:        d.Rule.ID,
		Policy:      d.Rule.Policy,
		Reason:      firstOf(d.Finding.Reason, d.Reason),
		BlockedBy:   make([]string, 0, len(d.Blocked)),
		Diffs:       make([]Diff, 0, len(d.Finding.Diffs)),
		Warnings:    slices.Clone(d.Finding.Warnings),
		FirstSeen:   timeOf(d.FirstSeen),
	}
	if d.Rule.Position != (policies.Position{}) {
		at := d.Rule.Position
		f.RuleAt = &at
	}
	for _, b := range d.Blocked {
		f.BlockedBy = append(f.BlockedBy, b.By)
		f.Blocks = append(f.Blocks, Block{By: b.By, Detail: b.Detail, Until: timeOf(b.Until)})
	}
	for i := range d.Finding.Diffs {
		f.Diffs = append(f.Diffs, buildDiff(&d.Finding.Diffs[i]))
	}
	f.Ignored = buildIgnored(d)
	return f
}

// buildIgnored also covers a rule whose action is ignore: a reader needs to
// see one thing that says what silenced the finding, whichever it was.
func buildIgnored(d *policies.Decision) *Ignored {
	switch {
	case d.Ignored != nil:
		by := firstOf(d.Ignored.By, positionText(&d.Ignored.Position))
		return &Ignored{By: by, Reason: d.Ignored.Reason, ExpiresAt: timeOf(d.Ignored.ExpiresAt)}
	case d.Action == policies.Ignore:
		return &Ignored{By: firstOf(d.Rule.ID, "policy"), Reason: d.Reason}
	}
	return nil
}

// masked stands for a sensitive value.
const masked = "(sensitive)"

func buildDiff(d *detector.Diff) Diff {
	out := Diff{Path: d.Path, Want: d.Want, Have: d.Have, Type: d.Type, Sensitive: d.Sensitive, Adopted: d.Adopted}
	if !d.Sensitive {
		return out
	}
	if !d.Want.IsAbsent() {
		out.Want = providers.String(masked)
	}
	if !d.Have.IsAbsent() {
		out.Have = providers.String(masked)
	}
	return out
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// positionText gives file:line as people write it; empty for no position.
func positionText(p *policies.Position) string {
	if p == nil || p.File == "" {
		return ""
	}
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// timeOf gives nil for the zero time, and whole seconds of UTC otherwise:
// finer parts only make two reports of one state differ.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}
