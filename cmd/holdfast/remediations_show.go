package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

var showFormats = []string{"text", "json", "yaml"}

func newRemediationsShow() *cobra.Command {
	f := &objectFlags{}
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Tell the story of one remediation",
		Long:    "Tell the story of one remediation: what drifts, why it is acted on, what holds\nit back, what was done, and what comes next. NAME may be NAMESPACE/NAME.",
		Example: "  holdfast remediations show prod/prod-eu-md-0-x7k2p-3f9a1c",
		Args:    wantArguments("remediation", false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.checkOutput(showFormats...); err != nil {
				return err
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			key, err := f.key(args[0])
			if err != nil {
				return err
			}
			r := &v1alpha1.Remediation{}
			if err := c.Get(cmd.Context(), key, r); err != nil {
				return fmt.Errorf("show remediation %s: %w", key, whereIsIt(cmd.Context(), c, orNotInstalled(err), "remediation", key, remediationKeys))
			}
			r.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindRemediation))
			if f.output != "text" {
				return encode(cmd.OutOrStdout(), f.output, r)
			}
			return tell(cmd.OutOrStdout(), r)
		},
	}
	f.register(cmd, showFormats...)
	cmd.ValidArgsFunction = f.completeRemediations()
	return cmd
}

// tell writes a record as a story.
func tell(w io.Writer, r *v1alpha1.Remediation) error {
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	s, st := &r.Spec, &r.Status
	line("%s/%s: %s %s of cluster %s", r.Namespace, r.Name, s.Action, subject(r), s.ClusterName)
	scope := s.Scope.Provider + "/" + s.Scope.Account
	if s.Scope.Region != "" {
		scope += "/" + s.Scope.Region
	}
	line("\nWhat drifts\n  %s %s in %s", s.Resource.Kind, shown(strings.TrimSpace(s.Resource.ID+" "+s.Resource.Name), 160), scope)
	for i := range s.Plan {
		line("  %s", planned(&s.Plan[i]))
	}
	if s.FirstSeen != nil {
		line("  first seen %s", clock(s.FirstSeen))
	}
	if s.ChangedBy != "" {
		line("  changed by %s", shown(s.ChangedBy, 200))
	}
	line("\nWhy it is acted on\n  rule %s of policy %s, severity %s", shown(s.Rule.ID, 63), orDash(shown(s.Rule.Policy, 253)), s.Severity)
	if s.Approved != nil {
		answer := map[bool]string{true: "approved", false: "denied"}[*s.Approved]
		line("  %s by %s", answer, orDash(shown(s.ApprovedBy, 253)))
	}
	if len(st.Blocked) > 0 {
		line("\nWhat holds it back")
	}
	for i := range st.Blocked {
		g := &st.Blocked[i]
		until := ""
		if g.Until != nil {
			until = ", until " + clock(g.Until)
		}
		line("  %s: %s%s", g.By, shown(g.Detail, 240), until)
	}
	attemptsOf(st, line)
	line("\nNow\n  %s", strings.TrimRight(strings.Join([]string{orDash(string(st.Phase)), shown(st.Reason, 60), shown(st.Message, 400)}, ": "), ": "))
	if st.ContestedBy != "" {
		line("  set back by %s", shown(st.ContestedBy, 200))
	}
	if next := nextStep(r); next != "" {
		line("  %s", next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func attemptsOf(st *v1alpha1.RemediationStatus, line func(string, ...any)) {
	if len(st.Attempts) > 0 {
		line("\nWhat was done")
	}
	for i := range st.Attempts {
		a := &st.Attempts[i]
		outcome := "still under way"
		if a.Outcome != "" {
			outcome = a.Outcome
			if a.EndedAt != nil {
				outcome += " at " + clock(a.EndedAt)
			}
		}
		text := fmt.Sprintf("  %d. begun %s: %s", a.Number, clock(&a.StartedAt), outcome)
		if a.Message != "" {
			text += ": " + shown(a.Message, 240)
		}
		line("%s", text)
	}
	if p := st.Replacement; p != nil {
		text := "  replaced by the path " + string(p.Strategy)
		if p.Step != "" {
			text += ", step " + shown(p.Step, 60)
		}
		if p.ReplacedBy != "" {
			text += ", by Machine " + p.ReplacedBy
		}
		line("%s", text)
	}
}

func planned(c *v1alpha1.PlannedChange) string {
	value := func(v *string) string {
		switch {
		case c.Sensitive:
			return "(not shown)"
		case v == nil:
			return "absent"
		}
		return shown(*v, 160)
	}
	return fmt.Sprintf("%s: wanted %s, seen %s", shown(c.Path, 160), value(c.Want), value(c.Seen))
}

func clock(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }

// nextStep says what a person can do.
func nextStep(r *v1alpha1.Remediation) string {
	name := r.Namespace + "/" + r.Name
	switch r.Status.Phase {
	case v1alpha1.PhaseAwaitingApproval:
		return "next: holdfast remediations approve " + name + ", or deny"
	case v1alpha1.PhaseLatched, v1alpha1.PhaseFailed:
		return "next: find out why, then holdfast remediations retry " + name
	default:
		return ""
	}
}
