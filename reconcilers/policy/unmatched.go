package policy

import (
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Reasons of the condition Matched.
const (
	// ReasonMatched: the policy is for a Cluster at least.
	ReasonMatched = "Matched"
	// ReasonNoCluster: it is for none of those that there are.
	ReasonNoCluster = "NoCluster"
)

// maxWhy bounds why a policy is for no cluster.
const maxWhy = 1000

// unmatched gives the policies that are for no Cluster, by name; nil while none
// is known of, since then every policy is.
func (w *Writer) unmatched(set *policies.Set) map[string]policies.Unmatched {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.clusters) == 0 || len(w.nameless) > 0 {
		return nil
	}
	out := map[string]policies.Unmatched{}
	for _, u := range set.Unmatched(w.clusters) {
		out[u.Policy] = u
	}
	return out
}

// sayUnmatched logs once of each policy that is for no Cluster. A file has
// nothing else by which that could be told.
func (w *Writer) sayUnmatched(log logr.Logger, unmatched map[string]policies.Unmatched) {
	if unmatched == nil {
		return
	}
	said := map[string]string{}
	for name, u := range unmatched {
		said[name] = u.File + "\n" + u.Why
		if w.said[name] != said[name] {
			log.Info("Policy is for no cluster", "policy", name, "source", place(u.Origin), "why", cleanWhy(u))
		}
	}
	for name := range w.said {
		if _, still := said[name]; !still {
			log.Info("Policy is for a cluster now, or gone", "policy", name)
		}
	}
	w.said = said
}

func place(o policies.Origin) string { return clean(o.String()) }

func cleanWhy(u policies.Unmatched) string { return providers.Cleaner{Max: maxWhy}.Clean(u.Why) }

// setMatched writes the condition Matched. Nothing is said of a policy of which
// no version is in effect, nor while no Cluster is known of: it would be of all.
func setMatched(p *v1alpha1.DriftPolicy, st *State, unmatched map[string]policies.Unmatched, now metav1.Time) bool {
	if unmatched == nil || !st.inEffect {
		return meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.ConditionMatched)
	}
	c := metav1.Condition{Type: v1alpha1.ConditionMatched, Status: metav1.ConditionTrue, Reason: ReasonMatched,
		ObservedGeneration: st.goodGeneration, LastTransitionTime: now}
	if u, is := unmatched[p.Name]; is {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNoCluster
		c.Message = fmt.Sprintf("It is for no Cluster that there is, and does nothing: %s", strings.TrimSpace(cleanWhy(u)))
	}
	return meta.SetStatusCondition(&p.Status.Conditions, c)
}
