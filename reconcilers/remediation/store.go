package remediation

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/remediator"
)

// pageSize is how many records one list call asks for.
const pageSize = 500

// Store reads and writes records. It is safe for concurrent use: each write
// carries the version of the record that was read. A read that is older than
// what it has written itself is an error. It must not be copied.
type Store struct {
	// Client writes; Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	// Namespace, if not empty, is the only one with records.
	Namespace string
	// Now is the clock.
	Now func() time.Time
	// Fence, if not nil, says with an error that this process may not write any
	// more: another one leads. It is asked before each write.
	Fence func(context.Context) error
	// Told, if not nil, is called after a phase was stored that differs from
	// the one before. It must not block or change the record.
	Told func(ctx context.Context, from v1alpha1.RemediationPhase, r *v1alpha1.Remediation)

	versions versions
	begun    beginnings
	flying   flying
}

var (
	_ sweep.Records = (*Store)(nil)
	_ sweep.Sink    = (*Store)(nil)
)

// list reads every record, or those that the options select.
func (s *Store) list(ctx context.Context, selection ...client.ListOption) ([]v1alpha1.Remediation, error) {
	var out []v1alpha1.Remediation
	page := &v1alpha1.RemediationList{}
	for {
		opts := []client.ListOption{client.Limit(pageSize), client.Continue(page.Continue)}
		if s.Namespace != "" {
			opts = append(opts, client.InNamespace(s.Namespace))
		}
		opts = append(opts, selection...)
		if err := s.Reader.List(ctx, page, opts...); err != nil {
			return nil, fmt.Errorf("list Remediations: %w", err)
		}
		if err := s.versions.list(page.ResourceVersion); err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if page.Continue == "" {
			return out, nil
		}
	}
}

type resumingKey struct{}

// resuming makes Facts leave out what a record has begun itself, so that an
// attempt that goes on is not held back by its own beginning.
func resuming(ctx context.Context, r *v1alpha1.Remediation) context.Context {
	return context.WithValue(ctx, resumingKey{}, r.UID)
}

// Facts tells what was done before, by [policies.HistoryKey], and what
// is in flight or keeps its pool from the next replacement.
func (s *Store) Facts(ctx context.Context) (map[string]policies.History, []policies.InFlight, error) {
	s.begun.note(ctx) // before they are read: what begins meanwhile may be missing
	records, err := s.list(ctx)
	if err == nil {
		err = s.complete(ctx, records)
	}
	if err != nil {
		return nil, nil, err
	}
	history, inFlight := make(map[string]policies.History, len(records)), []policies.InFlight{}
	for i := range records {
		r := &records[i]
		h := remediator.HistoryOf(r)
		own := ctx.Value(resumingKey{}) == r.UID
		if own && r.Status.Phase.InFlight() && len(h.Attempts) > 0 {
			h.Attempts = h.Attempts[:len(h.Attempts)-1]
		}
		if r.Name == remediator.Name(remediator.OwnerOf(r), r.Spec.Fingerprint) { // else it speaks for no drift
			history[policies.HistoryKey(remediator.OwnerOf(r), r.Spec.Fingerprint)] = h
		}
		flight := policies.InFlight{
			Cluster: clusterOf(r), Owner: remediator.OwnerOf(r), Pool: r.Spec.Pool, Zone: r.Spec.Zone, ControlPlane: r.Spec.ControlPlane,
			Action: policies.Action(r.Spec.Action), Disruptive: r.Spec.Disruptive, By: v1alpha1.FieldManager,
		}
		if r.Status.Phase.InFlight() && remediator.Altered(r) != "" {
			// What it says of itself is not to be believed: the worst is.
			flight.ControlPlane, flight.Disruptive, flight.Anywhere, flight.Action = true, true, true, policies.Replace
		}
		switch {
		case r.Status.Phase.InFlight() && !own:
			inFlight = append(inFlight, flight)
		case remediator.Halts(r):
			flight.Failed = r.Status.Reason + ": " + r.Status.Message
			inFlight = append(inFlight, flight)
		}
	}
	return history, inFlight, nil
}

func clusterOf(r *v1alpha1.Remediation) detector.ClusterRef {
	return detector.ClusterRef{Namespace: r.Namespace, Name: r.Spec.ClusterName}
}

// write stores a status if it is worth it, under the version of the record that
// was read, and brings the record up to date.
func (s *Store) write(ctx context.Context, r *v1alpha1.Remediation, status v1alpha1.RemediationStatus) error {
	if !remediator.Changed(&r.Status, &status) {
		return nil
	}
	from := r.Status.Phase
	if err := s.fenced(ctx); err != nil {
		return err
	}
	next := r.DeepCopy()
	next.Status = status
	if err := s.Client.Status().Update(ctx, next, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("store the status of Remediation %s: %w", r.Name, err)
	}
	*r = *next
	s.versions.wrote(r)
	s.flying.note(r)
	if from != r.Status.Phase && s.Told != nil {
		s.Told(ctx, from, r.DeepCopy())
	}
	return nil
}

// fenced says with an error that this process may not write any more.
func (s *Store) fenced(ctx context.Context) error {
	if s.Fence == nil {
		return nil
	}
	if err := s.Fence(ctx); err != nil {
		return fmt.Errorf("this process may not write: %w", err)
	}
	return nil
}

// subjects finds what a record says beyond its decision.
type subjects struct {
	cluster  *clusterv1.Cluster
	machines map[providers.OwnerRef]*v1alpha1.ObjectRef
	scopes   map[providers.OwnerRef]providers.Scope
	// everywhere says that a budget counts what is in flight in all clusters.
	everywhere bool
}

func (s *Store) create(ctx context.Context, d *policies.Decision, sub subjects, changedBy string, records []v1alpha1.Remediation) (*v1alpha1.Remediation, error) {
	f := &d.Finding
	r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.Owner.Namespace, Name: remediator.Name(f.Owner, f.Fingerprint),
		Labels: map[string]string{
			v1alpha1.LabelOwnerUID: string(f.Owner.UID), v1alpha1.LabelFingerprint: f.Fingerprint,
			clusterv1.ClusterNameLabel: f.Cluster.Name,
		},
		// The Cluster owns it, not the object that it is about: the story of a
		// machine outlives the machine.
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: sub.cluster.Name, UID: sub.cluster.UID}},
	}}
	r.Spec = sub.spec(d, changedBy)
	r.Spec.PriorAttempts = prior(r, records)
	if err := s.fenced(ctx); err != nil {
		return nil, err
	}
	switch err := s.Client.Create(ctx, r, client.FieldOwner(v1alpha1.FieldManager)); {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("create Remediation %s: this install has no right to repair, as its policies want: set mode: enforce in the chart's values, or mode: dryRun in the policies: %w", r.Name, err)
	case err != nil:
		return nil, fmt.Errorf("create Remediation %s: %w", r.Name, err)
	}
	s.versions.wrote(r)
	return r, nil
}

func (sub subjects) spec(d *policies.Decision, changedBy string) v1alpha1.RemediationSpec {
	return remediator.Spec(d, remediator.Subject{
		Machine: sub.machines[d.Finding.Owner], Scope: sub.scopes[d.Finding.Owner], ChangedBy: changedBy})
}

// prior gathers the attempts that were made at the same under other records:
// on the machine whose place this one took, and at some of the same values of
// the same resource.
func prior(r *v1alpha1.Remediation, records []v1alpha1.Remediation) []metav1.Time {
	var out []metav1.Time
	for i := range records {
		o := &records[i]
		if o.Namespace != r.Namespace || o.Spec.ClusterName != r.Spec.ClusterName || o.Name == r.Name || o.Spec.Rule.ID != r.Spec.Rule.ID {
			continue
		}
		if succeeds(r, o) || overlaps(r, o) {
			for _, t := range remediator.AttemptsOf(o) {
				out = append(out, metav1.NewTime(t))
			}
		}
	}
	slices.SortFunc(out, func(a, b metav1.Time) int { return a.Compare(b.Time) })
	if n := len(out); n > remediator.MaxAttempts {
		out = out[n-remediator.MaxAttempts:]
	}
	return out
}

// succeeds: the record's Machine took the place of the other's.
func succeeds(r, o *v1alpha1.Remediation) bool {
	return r.Spec.Machine != nil && o.Status.Replacement != nil && o.Status.Replacement.ReplacedBy == r.Spec.Machine.Name && o.Spec.Pool == r.Spec.Pool
}

// overlaps: both are about some value of one resource.
func overlaps(r, o *v1alpha1.Remediation) bool {
	return o.Spec.Owner.UID == r.Spec.Owner.UID && o.Spec.Resource.Kind == r.Spec.Resource.Kind && o.Spec.Resource.ID == r.Spec.Resource.ID &&
		slices.ContainsFunc(o.Spec.Plan, func(c v1alpha1.PlannedChange) bool { return slices.ContainsFunc(r.Spec.Plan, sameElement(c)) })
}

func sameElement(a v1alpha1.PlannedChange) func(v1alpha1.PlannedChange) bool {
	value := func(c v1alpha1.PlannedChange) string {
		switch {
		case !c.Element:
			return ""
		case c.Want != nil:
			return *c.Want
		case c.Seen != nil:
			return *c.Seen
		}
		return ""
	}
	return func(b v1alpha1.PlannedChange) bool {
		return a.Path == b.Path && a.Element == b.Element && value(a) == value(b)
	}
}
