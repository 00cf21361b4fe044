package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/inventory/stage"
	"github.com/holdfast-io/holdfast/policies"
)

// writeNotes says below the table what the table alone does not explain.
func (f *statusFlags) writeNotes(w io.Writer, all []*clusterSummary, now time.Time) error {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, s := range all {
		if s.BreakerOpen {
			add("%s/%s: the breaker is open: more drifted at once than safety.maxDriftRatio allows, which looks like one cause, and nothing is repaired. "+
				"It closes by itself, after two sweeps in a row with at most half of that or one with nothing; what a policy ignores does not count.", s.Namespace, s.Name)
		}
		if s.overdue(now) {
			add("%s/%s: the last sweep was %s ago, and its policies call one stale after %s (schedule.staleAfter): the controller's log says why.",
				s.Namespace, s.Name, age(*s.Metrics.LastSweep, now), duration.HumanDuration(time.Duration(*s.Metrics.StaleAfter*float64(time.Second))))
		}
	}
	if c := all[0].Controller; c != nil && c.State == lookingKnown {
		notes = append(notes, c.Message+".")
	}
	unknown := func(s *clusterSummary) bool {
		return s.Metrics == nil || s.Metrics.LastSweep == nil || s.Metrics.Coverage == nil
	}
	switch {
	case f.metrics == "":
		add("LAST SWEEP and COVERAGE are told by the controller's metrics alone: holdfast status --metrics reads them.")
	case slices.ContainsFunc(all, unknown):
		add("LAST SWEEP and COVERAGE are - where the controller that answered has not swept the cluster since it started, or does not lead.")
	}
	for i, note := range notes {
		if i == 0 {
			note = "\n" + note
		}
		if _, err := fmt.Fprintln(w, note); err != nil {
			return err
		}
	}
	return nil
}

// writeStage says of a cluster that is not ready where it stands, what it waits for
// and how long it has.
func (s *clusterSummary) writeStage(w io.Writer, now time.Time) {
	if s.Stage.Name == stage.Ready && s.Machine == nil && !s.Paused {
		return
	}
	paused := ""
	if s.Paused {
		paused = ", paused: nobody works on it"
	}
	_, _ = fmt.Fprintf(w, "\n%s/%s: %s for %s%s%s\n", s.Namespace, s.Name, s.Stage.Name, age(s.Stage.Since, now), paused, because(&s.Stage))
	if m := s.Machine; m != nil {
		_, _ = fmt.Fprintf(w, "  Machine %s: %s for %s%s\n", m.Name, m.Stage.Name, age(m.Stage.Since, now), because(&m.Stage))
	}
}

// because is what a stage waits for, in one line.
func because(s *stage.Stage) string {
	switch {
	case s.Condition == "":
		return ""
	case s.Message == "":
		return fmt.Sprintf(" (%s: %s)", s.Condition, s.Reason)
	default:
		return fmt.Sprintf(" (%s: %s): %s", s.Condition, s.Reason, shown(s.Message, 300))
	}
}

// readInfrastructure takes in what the condition of a drifting cluster's
// infrastructure object tells: the Cluster's own names no gates. What may not be
// read, or is gone, tells nothing.
func (s *clusterSummary) readInfrastructure(ctx context.Context, c client.Client) error {
	ref := s.infrastructure
	if s.Drift != string(metav1.ConditionTrue) || s.BreakerOpen || ref.Name == "" {
		return nil
	}
	mapping, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the kind %s: %w", ref.Kind, err)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(mapping.GroupVersionKind)
	err = c.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}, o)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s %s/%s: %w", ref.Kind, s.Namespace, ref.Name, err)
	}
	for _, path := range [][]string{{"status", "conditions"}, {"status", "v1beta2", "conditions"}} { // docs/adr/0010
		list, _, _ := unstructured.NestedSlice(o.Object, path...)
		for _, each := range list {
			condition, _ := each.(map[string]any)
			message, _ := condition["message"].(string)
			if condition["type"] == v1alpha1.ConditionDriftDetected && condition["status"] == string(metav1.ConditionTrue) {
				s.BreakerOpen = s.BreakerOpen || strings.Contains(message, policies.GateMassDrift)
			}
		}
	}
	return nil
}
