package policies

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
)

// Unmatched is a policy that is for none of some clusters.
type Unmatched struct {
	Origin
	// Why says what of the policy's match rules the clusters out, and what may
	// have been meant, in one sentence without an end.
	Why string `json:"why"`
}

// Unmatched gives the policies beside the built-in ones that are for none of the
// clusters, which have these labels, in the order of precedence. It is pure.
func (s *Set) Unmatched(clusters map[detector.ClusterRef]map[string]string) []Unmatched {
	if s == nil {
		return nil
	}
	var out []Unmatched
	for _, p := range s.policies {
		if p.level == levelBuiltin {
			continue
		}
		matched := false
		for ref, set := range clusters {
			if is, _ := p.matches(ref.Namespace, ref.Name, labels.Set(set)); is {
				matched = true
				break
			}
		}
		if !matched {
			out = append(out, Unmatched{Origin: p.origin(p.Position), Why: p.whyNone(clusters)})
		}
	}
	slices.SortStableFunc(out, func(a, b Unmatched) int { return strings.Compare(a.Policy, b.Policy) })
	return out
}

// maxPatterns bounds how many names and labels a reason lists.
const maxPatterns = 5

// whyNone says what rules out each of the clusters.
func (p *policy) whyNone(clusters map[detector.ClusterRef]map[string]string) string {
	m := p.spec.Match
	if m == nil {
		return "there are no clusters"
	}
	var named, selected int
	names := make([]string, 0, len(clusters))
	for ref, set := range clusters {
		names = append(names, ref.String())
		if p.named(ref) {
			named++
			if p.selector == nil || p.selector.Matches(labels.Set(set)) {
				selected++
			}
		}
	}
	slices.Sort(names)
	switch {
	case selected > 0:
		return "spec.match.exclude leaves none of those that it is for otherwise"
	case named > 0:
		return fmt.Sprintf("spec.match.clusterSelector selects clusters with the labels %s", p.selector)
	}
	patterns, hint := make([]string, 0, maxPatterns), ""
	for i, c := range m.Clusters {
		pattern := c.Namespace + "/" + c.Name
		if c.Namespace == "" {
			pattern = "*/" + c.Name
		}
		if i < maxPatterns {
			patterns = append(patterns, pattern)
		}
		if near := nearestCluster(c.Namespace, c.Name, names); hint == "" && near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
	}
	if more := len(m.Clusters) - maxPatterns; more > 0 {
		patterns = append(patterns, fmt.Sprintf("%d more", more))
	}
	return "spec.match.clusters names " + strings.Join(patterns, ", ") + hint
}

// named reports whether the names of a policy's match have the cluster.
func (p *policy) named(ref detector.ClusterRef) bool {
	m := p.spec.Match
	return len(m.Clusters) == 0 || slices.ContainsFunc(m.Clusters, func(c v1alpha1.ClusterPattern) bool {
		return optionalGlob(c.Namespace, ref.Namespace) && glob(c.Name, ref.Name)
	})
}

// nearestCluster gives the NAMESPACE/NAME that was meant by one that there is
// not: with another namespace, or misspelt.
func nearestCluster(namespace, name string, all []string) string {
	for _, full := range all {
		if _, n, _ := strings.Cut(full, "/"); n == name {
			return full
		}
	}
	if strings.Contains(namespace+name, "*") {
		return ""
	}
	if namespace != "" {
		return nearest(namespace+"/"+name, all)
	}
	short := map[string]string{}
	var names []string
	for _, full := range all {
		_, n, _ := strings.Cut(full, "/")
		short[n], names = full, append(names, n)
	}
	return short[nearest(name, names)]
}
