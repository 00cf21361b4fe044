package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// The order of everything in a report: cluster, owner, resource, path. It
// depends on names alone, so that two reports of one state are equal byte for
// byte and two reports of different states differ only where the states do.

func sortClusters(clusters []Cluster) {
	slices.SortStableFunc(clusters, func(a, b Cluster) int {
		return cmp.Or(
			strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Provider, b.Provider),
			strings.Compare(a.Scope, b.Scope),
		)
	})
}

func sortOwners(owners []Owner) []Owner {
	out := slices.Clone(owners)
	slices.SortStableFunc(out, func(a, b Owner) int { return compareOwners(&a.OwnerRef, &b.OwnerRef) })
	for i := range out {
		out[i].InSync = slices.Clone(out[i].InSync)
		slices.SortStableFunc(out[i].InSync, compareResources)
	}
	return out
}

func compareOwners(a, b *providers.OwnerRef) int {
	return cmp.Or(
		strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.APIVersion, b.APIVersion),
		strings.Compare(string(a.UID), string(b.UID)),
	)
}

func compareClusterRefs(a, b detector.ClusterRef) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func compareResources(a, b detector.ResourceRef) int {
	return cmp.Or(
		strings.Compare(a.Provider, b.Provider),
		strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.ID, b.ID),
		strings.Compare(a.Name, b.Name),
	)
}

func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			compareClusterRefs(a.Cluster, b.Cluster),
			compareOwners(&a.Owner, &b.Owner),
			compareResources(a.Resource, b.Resource),
			strings.Compare(string(a.Status), string(b.Status)),
			strings.Compare(firstPath(&a), firstPath(&b)),
			strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.Fingerprint, b.Fingerprint),
			strings.Compare(a.Reason, b.Reason),
		)
	})
}

func firstPath(f *Finding) string {
	if len(f.Diffs) == 0 {
		return ""
	}
	return f.Diffs[0].Path
}

func sortProblems(problems []Problem) []Problem {
	out := slices.Clone(problems)
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(
			compareClusterRefs(refOrZero(a.Cluster), refOrZero(b.Cluster)),
			strings.Compare(a.Object, b.Object),
			strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Message, b.Message),
		)
	})
	return out
}

func refOrZero(c *detector.ClusterRef) detector.ClusterRef {
	if c == nil {
		return detector.ClusterRef{}
	}
	return *c
}

// Severities from the worst, which is also the order of display.
var severities = []policies.Severity{
	policies.Critical, policies.High, policies.Medium, policies.Low, policies.Info,
}

// rank gives 0 for critical up to 4 for info. An unknown word ranks as
// critical: it must not slip below a threshold.
func rank(s policies.Severity) int { return max(slices.Index(severities, s), 0) }
