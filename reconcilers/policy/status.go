package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// Reasons of the condition Valid.
const (
	// ReasonValid: the newest version is in effect.
	ReasonValid = "Valid"
	// ReasonLastGood: it is bad, and an earlier version is in effect.
	ReasonLastGood = "LastGoodInEffect"
	// ReasonInvalid: it is bad, and nothing of it is in effect.
	ReasonInvalid = "Invalid"
)

// EventInvalid is the reason of the event about a version that is bad.
const EventInvalid = "PolicyInvalid"

// Bounds of what a status holds.
const (
	maxMatched  = 50
	maxProblems = 10
	maxProblem  = 400
	maxNote     = 900
)

// Writer writes the statuses of DriftPolicies, and logs which policies, also of
// files, are for no Cluster; on the leader alone and on change only. As a
// [sweep.Sink] it learns which Clusters there are.
type Writer struct {
	Source *Source
	Client client.Client
	// Reader is not a cache.
	Reader client.Reader
	Events events.EventRecorder
	Now    func() time.Time

	mu       sync.Mutex
	clusters map[detector.ClusterRef]map[string]string // labels
	nameless map[detector.ClusterRef]bool              // of which no labels are known
	said     map[string]string                         // by policy: why it is for no Cluster, as it was logged
}

var _ sweep.Sink = (*Writer)(nil)

// NeedLeaderElection lets the leader alone write.
func (w *Writer) NeedLeaderElection() bool { return true }

// retryAfter is how long to wait after a status could not be written.
const retryAfter = 10 * time.Second

// Start writes until the context ends.
func (w *Writer) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.Source.Loaded():
	}
	for {
		var again <-chan time.Time
		if err := w.write(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Status of policies could not be written")
			t := time.NewTimer(retryAfter)
			defer t.Stop()
			again = t.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.Source.written:
		case <-again:
		}
	}
}

// Consume implements [sweep.Sink].
func (w *Writer) Consume(_ context.Context, o *sweep.Outcome) error {
	if o.Inventory == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clusters == nil {
		w.clusters = map[detector.ClusterRef]map[string]string{}
	}
	changed := false
	note := func(ref detector.ClusterRef, labels map[string]string) {
		old, known := w.clusters[ref]
		if !known || fmt.Sprint(old) != fmt.Sprint(labels) { // fmt prints maps in order
			w.clusters[ref], changed = labels, true
		}
	}
	for _, c := range o.Inventory.Clusters {
		note(detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}, c.Object.Labels)
	}
	nameless := map[detector.ClusterRef]bool{}
	for _, e := range o.Inventory.Elsewhere {
		ref := detector.ClusterRef{Namespace: e.Key.Namespace, Name: e.Key.Name}
		if e.Object != nil {
			note(ref, e.Object.Labels)
		} else if _, known := w.clusters[ref]; !known {
			nameless[ref] = true
		}
	}
	if len(o.Inventory.Clusters)+len(o.Inventory.Elsewhere) > 0 {
		changed = changed || len(nameless) != len(w.nameless)
		w.nameless = nameless
	}
	for _, ref := range o.Gone {
		if _, known := w.clusters[ref]; known {
			delete(w.clusters, ref)
			changed = true
		}
	}
	if changed {
		poke(w.Source.written)
	}
	return nil
}

// matched gives the Clusters that each policy is for; nil where no sweep has
// told which there are.
func (w *Writer) matched(set *policies.Set) map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clusters == nil {
		return nil
	}
	out := map[string][]string{}
	for ref, labels := range w.clusters {
		for _, origin := range set.For(ref, labels).Applied() {
			out[origin.Policy] = append(out[origin.Policy], ref.String())
		}
	}
	for _, list := range out {
		slices.Sort(list)
	}
	return out
}

func (w *Writer) write(ctx context.Context) error {
	w.Source.mu.Lock()
	states, set := slices.Clone(w.Source.states), w.Source.set
	w.Source.mu.Unlock()
	matched, unmatched := w.matched(set), w.unmatched(set)
	w.sayUnmatched(logr.FromContextOrDiscard(ctx), unmatched)
	var first error
	for i := range states {
		if !states[i].Object {
			continue
		}
		if err := w.writeOne(ctx, &states[i], matched, unmatched); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// writeOne brings one status up to date. An object that has changed since, or
// is gone, is left for the next load.
func (w *Writer) writeOne(ctx context.Context, st *State, matched map[string][]string, unmatched map[string]policies.Unmatched) error {
	var told *v1alpha1.DriftPolicy
	once := func() error {
		live := &v1alpha1.DriftPolicy{}
		if err := w.Reader.Get(ctx, client.ObjectKey{Name: st.Name}, live); err != nil {
			return client.IgnoreNotFound(err)
		}
		told = nil
		if live.Generation != st.generation {
			return nil
		}
		next := live.DeepCopy()
		changed := w.fill(next, st, matched, unmatched)
		if !changed {
			return nil
		}
		if err := w.Client.Status().Update(ctx, next, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !st.Valid && live.Status.ObservedGeneration != st.generation {
			told = next
		}
		return nil
	}
	var last error
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { last = once(); return last })
	if err == nil {
		// client-go takes a call that was cancelled or timed out for one that went well.
		err = last
	}
	if err != nil {
		return fmt.Errorf("write the status of DriftPolicy %s: %w", st.Name, err)
	}
	if told != nil && w.Events != nil {
		note := message(st)
		if len(note) > maxNote {
			note = providers.Cleaner{Max: maxNote / 4}.Clean(note)
		}
		w.Events.Eventf(told, nil, corev1.EventTypeWarning, EventInvalid, "Validate", "%s", note)
	}
	return nil
}

// fill writes what is known into a status and reports whether that changed it.
func (w *Writer) fill(p *v1alpha1.DriftPolicy, st *State, matched map[string][]string, unmatched map[string]policies.Unmatched) bool {
	before := p.Status.DeepCopy()
	s := &p.Status
	s.ObservedGeneration, s.LastGoodGeneration = st.generation, st.goodGeneration
	if matched != nil {
		list := matched[p.Name]
		s.MatchedClusterCount = int32(min(len(list), 1<<30))
		s.MatchedClusters = list[:min(len(list), maxMatched)]
	}
	c := metav1.Condition{Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: ReasonValid, ObservedGeneration: st.generation}
	if !st.Valid {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonInvalid, message(st)
		if st.goodGeneration != 0 {
			c.Reason = ReasonLastGood
		}
	}
	c.LastTransitionTime = metav1.NewTime(w.Now())
	conditionChanged := meta.SetStatusCondition(&s.Conditions, c)
	conditionChanged = setMatched(p, st, unmatched, c.LastTransitionTime) || conditionChanged
	return conditionChanged || before.ObservedGeneration != s.ObservedGeneration || before.LastGoodGeneration != s.LastGoodGeneration ||
		before.MatchedClusterCount != s.MatchedClusterCount || !slices.Equal(before.MatchedClusters, s.MatchedClusters)
}

// message tells the first problems, one a line.
func message(st *State) string {
	lines := make([]string, 0, maxProblems+1)
	for i, p := range st.Problems {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(st.Problems)-maxProblems))
			break
		}
		lines = append(lines, providers.Cleaner{Max: maxProblem}.Clean(p))
	}
	return strings.Join(lines, "\n")
}
