package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/remediator"
)

func newRemediationsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remediations",
		Aliases: []string{"remediation", "rem"},
		Short:   "List, explain, approve and retry what is done about drift",
		Long: `List, explain, approve and retry what holdfast controller does about drift. Each
action has a Remediation object, which says why it is to be done, what holds it
back, what was done and whether it helped.`,
		Args:                       onlyCommands,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRemediationsList(), newRemediationsShow(),
		newRemediationsChange("approve", "Let an action go ahead that waits for a person", approve(true)),
		newRemediationsChange("deny", "Refuse an action that waits for a person", approve(false)),
		newRemediationsChange("retry", "Try again what failed or latched", tryAgain))
	return cmd
}

var listFormats = []string{"table", "wide", "json", "yaml"}

func newRemediationsList() *cobra.Command {
	f := &objectFlags{}
	var cluster string
	var phases []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List remediations, the newest last",
		Example: `  holdfast remediations list -A
  holdfast remediations list -n prod --phase AwaitingApproval,Latched`,
		Args: noArguments("--cluster and --phase narrow the list, and holdfast remediations show NAME tells of one"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.checkOutput(listFormats...); err != nil {
				return err
			}
			for _, phase := range phases {
				if !slices.Contains(phaseNames, phase) {
					return fmt.Errorf("--phase %q: want some of %s", phase, strings.Join(phaseNames, ", "))
				}
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			ns, err := f.namespace()
			if err != nil {
				return err
			}
			list, err := remediationsIn(cmd.Context(), c, ns)
			if err != nil {
				return err
			}
			list.Items = slices.DeleteFunc(list.Items, func(r v1alpha1.Remediation) bool {
				return cluster != "" && r.Spec.ClusterName != cluster || len(phases) > 0 && !slices.Contains(phases, string(r.Status.Phase))
			})
			if f.output == "json" || f.output == "yaml" {
				return encode(cmd.OutOrStdout(), f.output, list)
			}
			if len(list.Items) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), noRemediations(ns, cluster != "" || len(phases) > 0))
				return err
			}
			return writeRemediations(cmd.OutOrStdout(), list.Items, f.output == "wide", time.Now())
		},
	}
	f.register(cmd, listFormats...)
	f.registerAll(cmd, "every namespace")
	cmd.Flags().StringVar(&cluster, "cluster", "", "name of a Cluster (default all)")
	cmd.Flags().StringSliceVar(&phases, "phase", nil, "phases to list, such as AwaitingApproval,Latched (default all)")
	return cmd
}

// phaseNames are the phases that there are, in their order.
var phaseNames = []string{
	string(v1alpha1.PhasePending), string(v1alpha1.PhaseAwaitingApproval), string(v1alpha1.PhaseBlocked),
	string(v1alpha1.PhaseRunning), string(v1alpha1.PhaseVerifying), string(v1alpha1.PhaseSucceeded),
	string(v1alpha1.PhaseFailed), string(v1alpha1.PhaseLatched), string(v1alpha1.PhaseCancelled),
}

// noRemediations says where there are none: an empty list may be one of the
// wrong place.
func noRemediations(namespace string, narrowed bool) string {
	what := "No remediations"
	if narrowed {
		what = "No such remediations"
	}
	if namespace == "" {
		return what + " in any namespace."
	}
	return what + " in namespace " + namespace + "; -A looks in all."
}

// remediationsIn lists them, the oldest first.
func remediationsIn(ctx context.Context, c client.Client, namespace string) (*v1alpha1.RemediationList, error) {
	list := &v1alpha1.RemediationList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Remediations: %w", orNotInstalled(err))
	}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RemediationList"))
	slices.SortStableFunc(list.Items, func(a, b v1alpha1.Remediation) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return list, nil
}

func writeRemediations(w io.Writer, items []v1alpha1.Remediation, wide bool, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "NAMESPACE\tNAME\tCLUSTER\tOWNER\tACTION\tPHASE\tREASON\tATTEMPTS\tAGE"
	if wide {
		head += "\tSEVERITY\tRULE\tRESOURCE\tCHANGED BY\tMESSAGE"
	}
	_, _ = fmt.Fprintln(t, head)
	for i := range items {
		r := &items[i]
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", r.Namespace, r.Name, r.Spec.ClusterName, subject(r),
			r.Spec.Action, orDash(string(r.Status.Phase)), orDash(shown(r.Status.Reason, 40)), r.Status.AttemptCount, age(r.CreationTimestamp, now))
		if wide {
			_, _ = fmt.Fprintf(t, "\t%s\t%s\t%s\t%s\t%s", r.Spec.Severity, shown(r.Spec.Rule.ID, 63), r.Spec.Resource.Kind+" "+shown(r.Spec.Resource.ID, 60),
				orDash(shown(r.Spec.ChangedBy, 80)), shown(r.Status.Message, 200))
		}
		_, _ = fmt.Fprintln(t)
	}
	return t.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// subject is what an action is about: the Machine, if there is one.
func subject(r *v1alpha1.Remediation) string {
	if m := r.Spec.Machine; m != nil {
		return m.Kind + "/" + m.Name
	}
	return r.Spec.Owner.Kind + "/" + r.Spec.Owner.Name
}

func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func (f *objectFlags) completeRemediations() cobra.CompletionFunc {
	return f.completeNames(func(ctx context.Context, c client.Client, ns string) []string {
		list, err := remediationsIn(ctx, c, ns)
		if err != nil {
			return nil
		}
		names := make([]string, len(list.Items))
		for i := range list.Items {
			names[i] = list.Items[i].Name
		}
		return names
	})
}

// reply is what a person wants of a record. It edits the record, or says why
// it cannot be done, and gives the word for what was done.
type reply func(r *v1alpha1.Remediation, who string) (done string, err error)

func approve(yes bool) reply {
	return func(r *v1alpha1.Remediation, who string) (string, error) {
		if p := r.Status.Phase; p.InFlight() || p.Ended() && p != v1alpha1.PhaseCancelled {
			return "", fmt.Errorf("it is %s: there is nothing left to answer", p)
		}
		r.Spec.Approved, r.Spec.ApprovedBy = ptr.To(yes), who
		if yes {
			return "approved", nil
		}
		return "denied", nil
	}
}

func tryAgain(r *v1alpha1.Remediation, _ string) (string, error) {
	switch p := r.Status.Phase; p {
	case v1alpha1.PhaseFailed, v1alpha1.PhaseLatched:
		r.Spec.RetriedAt = afterEnds(r, time.Now())
		return "to be tried again", nil
	case v1alpha1.PhaseBlocked:
		r.Spec.RetriedAt = afterEnds(r, time.Now())
		if remediator.Retried(r) {
			return "to be tried again", nil
		}
		return "", errors.New("it is Blocked by gates, which open by themselves or by the policy: see holdfast remediations show")
	default:
		return "", fmt.Errorf("it is %s: only what is Failed, Latched or held after an attempt can be tried again", orDash(string(p)))
	}
}

// afterEnds is the present, or the first second after what has ended: times are
// kept in whole seconds, and clocks differ.
func afterEnds(r *v1alpha1.Remediation, now time.Time) *metav1.Time {
	out := metav1.NewTime(now.UTC().Truncate(time.Second))
	past := func(end *metav1.Time) {
		if end != nil && !out.After(end.Time) {
			out = metav1.NewTime(end.Add(time.Second))
		}
	}
	past(r.Status.EndedAt)
	for i := range r.Status.Attempts {
		past(r.Status.Attempts[i].EndedAt)
	}
	return &out
}

func newRemediationsChange(verb, short string, what reply) *cobra.Command {
	f := &objectFlags{}
	cmd := &cobra.Command{
		Use:     verb + " NAME...",
		Short:   short,
		Long:    short + ". NAME may be NAMESPACE/NAME. The record keeps who asked.",
		Example: "  holdfast remediations " + verb + " prod/prod-eu-md-0-x7k2p-3f9a1c",
		Args:    wantArguments("remediation", true),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			who := f.whoAmI(cmd.Context())
			for _, arg := range args {
				key, err := f.key(arg)
				if err != nil {
					return err
				}
				done, err := changeOne(cmd.Context(), c, key, who, what)
				if err != nil {
					return fmt.Errorf("%s remediation %s: %w", verb, key, whereIsIt(cmd.Context(), c, orNotInstalled(err), "remediation", key, remediationKeys))
				}
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "remediation %s %s\n", key, done)
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.ValidArgsFunction = f.completeRemediations()
	return cmd
}

// changeOne edits the record as it is now: the answer is to what the person saw
// only if nothing came between, and a conflict asks again.
func changeOne(ctx context.Context, c client.Client, key client.ObjectKey, who string, what reply) (done string, err error) {
	once := func() error {
		r := &v1alpha1.Remediation{}
		if err := c.Get(ctx, key, r); err != nil {
			return err
		}
		before := r.DeepCopy()
		if done, err = what(r, who); err != nil {
			return err
		}
		return c.Patch(ctx, r, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	var last error
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { last = once(); return last })
	if err == nil {
		// client-go takes a call that was cancelled or timed out for one that went well.
		err = last
	}
	return done, err
}

// whoAmI asks the API server who the user is. What cannot tell leaves it open:
// the API server's audit log knows anyway.
func (f *objectFlags) whoAmI(ctx context.Context) string {
	cfg, err := managementCluster(f.kube)
	if err != nil {
		return ""
	}
	c, err := authenticationclient.NewForConfig(cfg)
	if err != nil {
		return ""
	}
	review, err := c.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return strings.TrimSpace(shown(review.Status.UserInfo.Username, 253))
}
