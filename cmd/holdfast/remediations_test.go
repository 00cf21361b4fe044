package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/remediator"
)

func record(name string, phase v1alpha1.RemediationPhase) *v1alpha1.Remediation {
	opens := metav1.NewTime(time.Date(2026, 12, 1, 17, 0, 0, 0, time.UTC))
	return &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name},
		Spec: v1alpha1.RemediationSpec{
			ClusterName: "eu", Owner: v1alpha1.ObjectRef{APIVersion: "x/v1", Kind: "AWSMachine", Name: "m-0", UID: "u"},
			Machine:  &v1alpha1.ObjectRef{APIVersion: "x/v1", Kind: "Machine", Name: "m-0", UID: "u2"},
			Scope:    v1alpha1.ScopeRef{Provider: "aws", Account: "123456789012", Region: "eu-central-1"},
			Resource: v1alpha1.ResourceRef{Kind: "Instance", ID: "i-0abc"}, Fingerprint: name, Action: "replace", Severity: "high",
			Rule: v1alpha1.DecidingRule{ID: "aws-instance-type", Policy: "builtin-aws"}, ChangedBy: "arn:aws:iam::1:user/\x1b[31mmallory",
			Plan: []v1alpha1.PlannedChange{{Path: "/instanceType", Type: "changed", Want: ptr.To("m5.large"), Seen: ptr.To("t3.nano")},
				{Path: "/userData", Type: "changed", Want: ptr.To("s3cret"), Seen: ptr.To("s3cret"), Sensitive: true}},
		},
		Status: v1alpha1.RemediationStatus{Phase: phase, Reason: "Approval", Message: "nobody has approved it",
			Blocked:  []v1alpha1.GateBlock{{By: "Window", Detail: "a deny window is open", Until: &opens}},
			Attempts: []v1alpha1.Attempt{{Number: 1, StartedAt: opens, Outcome: v1alpha1.OutcomeNoEffect}}, AttemptCount: 1},
	}
}

// TestRemediations goes through what a person does with records, on a real API
// server.
func TestRemediations(t *testing.T) {
	m := newManagement(t)
	if err := m.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*v1alpha1.Remediation{record("waits", v1alpha1.PhaseAwaitingApproval), record("latched", v1alpha1.PhaseLatched), record("ran", v1alpha1.PhaseSucceeded)} {
		created := r.DeepCopy()
		if err := m.client.Create(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		created.Status = r.Status
		if err := m.client.Status().Update(t.Context(), created); err != nil {
			t.Fatal(err)
		}
	}
	rem := func(args ...string) output {
		return holdfast(t, append(append([]string{"remediations"}, args...), "--kubeconfig", m.kubeconfig)...)
	}
	has := func(o output, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if o.code != exitOK || !strings.Contains(o.stdout, want) {
				t.Errorf("exit %d, want %q\n%s%s", o.code, want, o.stdout, o.stderr)
			}
		}
		if strings.Contains(o.stdout, "\x1b") {
			t.Error("a cloud's text steers the terminal")
		}
	}
	has(rem("list", "-A"), "waits", "latched", "ran", "Machine/m-0", "AwaitingApproval")
	has(rem("list", "-n", "prod", "-o", "wide"), "aws-instance-type", "Instance i-0abc", `mallory`)
	has(rem("list", "-n", "prod", "-o", "json", "--phase", "Latched"), `"latched"`)
	if o := rem("list", "-n", "prod", "--phase", "Latched"); strings.Contains(o.stdout, "waits") {
		t.Errorf("--phase lists others:\n%s", o.stdout)
	}
	has(rem("list", "-n", "default"), "No remediations in namespace default; -A looks in all.")
	if o := rem("list", "--phase", "Lached"); o.code != exitError || !strings.Contains(o.stderr, `--phase "Lached": want some of`) {
		t.Errorf("a phase that there is not: exit %d\n%s", o.code, o.stderr)
	}
	story := rem("show", "prod/waits")
	has(story, "replace Machine/m-0 of cluster eu", "/instanceType: wanted m5.large, seen t3.nano", "/userData: wanted (not shown)",
		"rule aws-instance-type of policy builtin-aws, severity high", "Window: a deny window is open, until 2026-12-01T17:00:00Z", "1. begun", "NoEffect",
		"AwaitingApproval: Approval: nobody has approved it", "next: holdfast remediations approve prod/waits")
	if strings.Contains(story.stdout, "s3cret") {
		t.Error("a sensitive value is shown")
	}
	has(rem("show", "waits", "-n", "prod", "-o", "yaml"), "kind: Remediation")

	has(rem("approve", "waits", "-n", "prod"), "remediation prod/waits approved")
	live := &v1alpha1.Remediation{}
	get := func(name string) {
		t.Helper()
		*live = v1alpha1.Remediation{}
		if err := m.client.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: name}, live); err != nil {
			t.Fatal(err)
		}
	}
	if get("waits"); live.Spec.Approved == nil || !*live.Spec.Approved || live.Spec.ApprovedBy == "" {
		t.Errorf("approved: %+v", live.Spec)
	}
	has(rem("deny", "prod/waits"), "denied")
	if get("waits"); live.Spec.Approved == nil || *live.Spec.Approved {
		t.Errorf("denied: %+v", live.Spec)
	}
	has(rem("retry", "prod/latched"), "to be tried again")
	if get("latched"); live.Spec.RetriedAt == nil {
		t.Errorf("retried: %+v", live.Spec)
	}
	for _, o := range []output{rem("approve", "prod/ran"), rem("retry", "prod/waits"), rem("show", "prod/none"), rem("list", "-o", "csv"), rem("approve")} {
		if o.code == exitOK || o.stderr == "" {
			t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
		}
	}
	has(holdfast(t, "__complete", "remediations", "show", "--kubeconfig", m.kubeconfig, "-n", "prod", ""), "waits", "latched")
	if o := holdfast(t, "sweep", "--all", "x"); o.code == exitOK {
		t.Error("--all with a name")
	}
	has(holdfast(t, "status", "--kubeconfig", m.kubeconfig), "No clusters.")
}

// TestRetryOfBlocked: what was held after an attempt may be tried again, what
// waits for a gate may not.
func TestRetryOfBlocked(t *testing.T) {
	for by, want := range map[string]bool{remediator.ReasonProtected: true, remediator.ReasonMoved: true, "Window": false} {
		r := record("blocked", v1alpha1.PhaseBlocked)
		r.Status.Blocked = []v1alpha1.GateBlock{{By: by, Until: ptr.To(metav1.NewTime(time.Now().Add(time.Minute)))}}
		if _, err := tryAgain(r, ""); (err == nil) != want {
			t.Errorf("%s: %v", by, err)
		}
	}
}

// TestRetryAtOnce: a retry in the second in which the record ended, or by a clock
// that is behind, is one.
func TestRetryAtOnce(t *testing.T) {
	ended := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	for name, now := range map[string]time.Time{
		"the same second": ended.Add(300 * time.Millisecond),
		"a clock behind":  ended.Add(-time.Hour),
		"later":           ended.Add(time.Minute),
	} {
		r := &v1alpha1.Remediation{Status: v1alpha1.RemediationStatus{Phase: v1alpha1.PhaseLatched, EndedAt: &ended}}
		r.Spec.RetriedAt = afterEnds(r, now)
		if !remediator.Retried(r) {
			t.Errorf("%s: a retry at %s of what ended at %s is none", name, r.Spec.RetriedAt, ended)
		}
	}
	r := &v1alpha1.Remediation{Status: v1alpha1.RemediationStatus{Phase: v1alpha1.PhaseLatched, EndedAt: &ended}}
	if _, err := tryAgain(r, ""); err != nil || !remediator.Retried(r) {
		t.Errorf("retried at %s: %v", r.Spec.RetriedAt, err)
	}
}
