package report

import (
	"github.com/openreports/reports-api/apis/openreports.io/v1alpha1"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// OpenOwner is one owner, and what a read came to for it.
type OpenOwner struct {
	// Namespace is that of the owner's cluster.
	Namespace string
	// Ref is zero for what belongs to no object.
	Ref providers.OwnerRef
	// Decisions about it, in any order; they are not changed.
	Decisions []*policies.Decision
	// InSync says that some resource of it was compared and does not differ.
	InSync bool
}

// OpenResults gives the results that stand for an owner in a Report object that
// lasts, as `-o openreports` writes them in one that tells of a moment: in the order of
// a report, with every text made inert and bounded, and what is silenced left
// out. An owner without findings is one result; what belongs to no object is none
// then.
//
// The same drift gives the same results, whenever it is looked at: gates, which
// count and tell times, are not in them. The timestamp is when a finding was
// first seen, zero where that is not known, and zero for all other results.
// It is pure.
func OpenResults(o *OpenOwner) []v1alpha1.ReportResult {
	var findings []Finding
	quiet := hushUncompared
	if o.InSync {
		quiet = hushInSync
	}
	for _, d := range o.Decisions {
		switch f := buildFinding(d); {
		case d.Mode == policies.ModeOff:
		case f.Status == detector.InSync:
			if quiet == hushUncompared {
				quiet = hushInSync
			}
		case f.Ignored != nil:
			quiet = hushIgnored
		case f.Status == detector.Foreign:
			if quiet != hushIgnored {
				quiet = hushForeign
			}
		default:
			f.Blocks, f.BlockedBy = nil, nil
			findings = append(findings, f)
		}
	}
	if len(findings) == 0 {
		if o.Ref == (providers.OwnerRef{}) {
			return nil
		}
		return []v1alpha1.ReportResult{quietResult(&o.Ref, o.Namespace, quiet, "there is nothing to compare it with")}
	}
	sortFindings(findings)
	out := make([]v1alpha1.ReportResult, 0, len(findings))
	for i := range findings {
		f := &findings[i]
		seen := f.FirstSeen
		f.FirstSeen = nil // the timestamp says it
		result := openResult(f)
		if seen != nil {
			result.Timestamp.Seconds = seen.Unix()
		}
		out = append(out, result)
	}
	return out
}
