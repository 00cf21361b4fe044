package metrics

import (
	"testing"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// TestFailing: what counts is the last attempt that has ended, unless the record
// itself has ended otherwise.
func TestFailing(t *testing.T) {
	const failed, ok, held, none = v1alpha1.OutcomeFailed, v1alpha1.OutcomeSucceeded, v1alpha1.OutcomeHeld, v1alpha1.OutcomeNoEffect
	tests := map[string]struct {
		phase    v1alpha1.RemediationPhase
		outcomes []string
		want     bool
	}{
		"not tried":                   {v1alpha1.PhaseBlocked, nil, false},
		"being tried":                 {v1alpha1.PhaseRunning, []string{""}, false},
		"cooling down":                {v1alpha1.PhaseBlocked, []string{failed}, true},
		"tried again":                 {v1alpha1.PhaseRunning, []string{failed, ""}, true},
		"without effect":              {v1alpha1.PhaseBlocked, []string{ok, none}, true},
		"not let begin":               {v1alpha1.PhaseBlocked, []string{failed, held}, false},
		"failed for good":             {v1alpha1.PhaseFailed, []string{failed}, true},
		"given up, another's to tell": {v1alpha1.PhaseLatched, []string{failed, failed}, false},
		"helped in the end":           {v1alpha1.PhaseSucceeded, []string{failed, ok}, false},
		"needless meanwhile":          {v1alpha1.PhaseCancelled, []string{failed}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &v1alpha1.Remediation{Status: v1alpha1.RemediationStatus{Phase: tc.phase}}
			for _, o := range tc.outcomes {
				r.Status.Attempts = append(r.Status.Attempts, v1alpha1.Attempt{Outcome: o})
			}
			if got := failing(r); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}
