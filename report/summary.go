package report

import (
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// resourceKey tells resources apart; one resource may have several findings.
type resourceKey struct {
	cluster detector.ClusterRef
	owner   providers.OwnerRef
	kind    string
	id      string
}

func summarise(clusters []Cluster, findings []Finding) Summary {
	s := Summary{BySeverity: make(map[policies.Severity]int, len(severities))}
	for _, severity := range severities {
		s.BySeverity[severity] = 0
	}
	checked := map[resourceKey]bool{}
	for i := range clusters {
		c := &clusters[i]
		s.Owners += len(c.Owners)
		for _, o := range c.Owners {
			for _, r := range o.InSync {
				checked[resourceKey{detector.ClusterRef{Namespace: c.Namespace, Name: c.Name}, o.OwnerRef, r.Kind, r.ID}] = true
			}
		}
	}
	for i := range findings {
		f := &findings[i]
		switch f.Status {
		case detector.Drifted, detector.Missing, detector.Unexpected:
			checked[resourceKey{f.Cluster, f.Owner, f.Resource.Kind, f.Resource.ID}] = true
		}
		s.count(f)
	}
	s.Checked = len(checked)
	return s
}

// countSilenced tells each cluster how much of it was silenced: what is not
// listed must not make a cluster look in sync.
func countSilenced(clusters []Cluster, findings []Finding) {
	at := make(map[detector.ClusterRef]*Cluster, len(clusters))
	for i := range clusters {
		c := &clusters[i]
		at[detector.ClusterRef{Namespace: c.Namespace, Name: c.Name}] = c
	}
	for i := range findings {
		f := &findings[i]
		c := at[f.Cluster]
		switch {
		case c == nil:
		case f.Ignored != nil:
			c.Ignored++
		case f.Status == detector.Foreign:
			c.Foreign++
		}
	}
}

func (s *Summary) count(f *Finding) {
	if f.Ignored != nil {
		s.Ignored++
		return
	}
	switch f.Status {
	case detector.Foreign:
		s.Foreign++
	case detector.NotChecked:
		s.NotChecked++
	case detector.Unknown:
		s.Unknown++
	case detector.Drifted:
		s.Drifted++
	case detector.Missing:
		s.Missing++
	case detector.Unexpected:
		s.Unexpected++
	}
	if !f.Trouble() {
		return
	}
	s.BySeverity[severities[rank(f.Severity)]]++
	switch f.Action {
	case policies.Patch:
		s.WouldPatch++
	case policies.Replace:
		s.WouldReplace++
	default:
		return
	}
	if len(f.BlockedBy) > 0 {
		s.Blocked++
	}
}
