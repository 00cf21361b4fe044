package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/inventory/stage"
	"github.com/holdfast-io/holdfast/policies"
)

// clusterSummary is how one cluster stands, as its objects tell.
type clusterSummary struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Drift is the status of the Cluster's condition; empty where none is set.
	Drift   string       `json:"drift"`
	Reason  string       `json:"reason,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	Message string       `json:"message,omitempty"`
	// Stage is how far it has come in being made, or that it is ready; Machine the
	// one that keeps it from that for longest, nil if none does.
	Stage   stage.Stage   `json:"stage"`
	Machine *machineStage `json:"machine,omitempty"`
	// Paused says that Cluster API lets it be.
	Paused bool `json:"paused"`
	// Machines, and those that drift or could not be compared.
	Machines int `json:"machines"`
	Drifting int `json:"drifting"`
	Unknown  int `json:"unknown"`
	// Remediations by phase, without those that ended well.
	Remediations map[string]int `json:"remediations,omitempty"`
	// BreakerOpen is true while too much drifts at once.
	BreakerOpen bool           `json:"breakerOpen"`
	Blocked     []blockSummary `json:"blocked,omitempty"`
	// Metrics are the controller's, where they could be read.
	Metrics *clusterMetrics `json:"metrics,omitempty"`
	// Stale says that nobody keeps this up: the controller is not running, or
	// its last sweep is older than the policies allow. What it was is above.
	Stale bool `json:"stale"`
	// Controller is who keeps it up.
	Controller *controllerSummary `json:"controller,omitempty"`

	infrastructure clusterv1.ContractVersionedObjectReference
	machines       []*clusterv1.Machine
}

// machineStage is the stage of a Machine.
type machineStage struct {
	Name  string      `json:"name"`
	Stage stage.Stage `json:"stage"`
}

type blockSummary struct {
	Gate  string       `json:"gate"`
	Count int          `json:"count"`
	Until *metav1.Time `json:"until,omitempty"`
}

// statusFlags are those of `holdfast status`.
type statusFlags struct {
	objectFlags
	metrics   string
	tokenFile string
	insecure  bool
	lease     string
}

var statusFormats = []string{"table", "json", "yaml"}

func newStatusCommand() *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how each cluster stands: drift, remediations, what is held back until when",
		Long: `Show how each cluster stands, from what the controller keeps on objects: the
condition DriftDetected of Clusters and Machines, and Remediations with the gates
that hold them back. Of a cluster that is not ready it says at which stage it is
(infrastructure, control plane, workers; deleting), for how long, and what it waits
for in Cluster API's own words, with the machine that has waited longest.

Conditions stay when the controller is gone. The Lease that it renews tells whether
one is running, and is looked for by its name, "holdfast" or one with it in it; who
may not list Leases can name it with --lease. Where nobody is looking, it says so,
and calls each cluster stale.

When the last sweep was, and how much it could compare, changes with every sweep:
the controller writes that to no object, and tells it by its metrics alone. With
--metrics they are read too, from an address such as that of kubectl port-forward.`,
		Example: `  holdfast status
  kubectl -n holdfast-system port-forward deploy/holdfast 8443 &
  holdfast status --metrics https://127.0.0.1:8443/metrics --metrics-token token.txt --metrics-insecure`,
		Args: noArguments("-n narrows the list to a namespace"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd, statusFormats...)
	cmd.Flags().Lookup("namespace").Usage = "namespace (default all)"
	f.registerAll(cmd, "every namespace, which is the default")
	cmd.Flags().StringVar(&f.lease, "lease", "", "NAMESPACE/NAME of the controller's Lease (default the one with holdfast in its name)")
	cmd.Flags().StringVar(&f.metrics, "metrics", "", "address of the controller's metrics, for the last sweep and coverage")
	cmd.Flags().StringVar(&f.tokenFile, "metrics-token", "", "file with a token that may get /metrics")
	cmd.Flags().BoolVar(&f.insecure, "metrics-insecure", false, "do not check the certificate of --metrics: it is self-signed unless one was given to the controller")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command) error {
	if err := f.checkOutput(statusFormats...); err != nil {
		return err
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	all, err := summaries(cmd.Context(), c, f.inNamespace())
	if err != nil {
		return err
	}
	if f.metrics != "" {
		if err := f.addMetrics(cmd.Context(), all); err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
	}
	now := time.Now()
	if err := f.addController(cmd.Context(), c, all, now); err != nil {
		return err
	}
	if f.output != "table" {
		return encode(cmd.OutOrStdout(), f.output, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), noClusters(f.inNamespace()))
		return err
	}
	if err := writeStatus(cmd.OutOrStdout(), all, now); err != nil {
		return err
	}
	return f.writeNotes(cmd.OutOrStdout(), all, now)
}

// summaries gathers how each Cluster stands, ordered by name.
func summaries(ctx context.Context, c client.Client, namespace string) ([]*clusterSummary, error) {
	clusters, err := clustersIn(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	byKey := map[client.ObjectKey]*clusterSummary{}
	out := make([]*clusterSummary, 0, len(clusters))
	for i := range clusters {
		s := &clusterSummary{Namespace: clusters[i].Namespace, Name: clusters[i].Name, Remediations: map[string]int{}}
		if d := meta.FindStatusCondition(clusters[i].Status.Conditions, v1alpha1.ConditionDriftDetected); d != nil {
			s.Drift, s.Reason, s.Message, s.Since = string(d.Status), d.Reason, d.Message, &d.LastTransitionTime
		}
		s.infrastructure = clusters[i].Spec.InfrastructureRef
		s.Stage, s.Paused = stage.OfCluster(&clusters[i]), stage.Paused(&clusters[i])
		byKey[client.ObjectKeyFromObject(&clusters[i])] = s
		out = append(out, s)
	}
	machines := &clusterv1.MachineList{}
	if err := c.List(ctx, machines, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if s := byKey[client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}]; s != nil {
			s.machine(m)
		}
	}
	records, err := remediationsIn(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	for i := range records.Items {
		r := &records.Items[i]
		if s := byKey[client.ObjectKey{Namespace: r.Namespace, Name: r.Spec.ClusterName}]; s != nil {
			s.remediation(r)
		}
	}
	for _, s := range out {
		if m, at := stage.FirstOf(s.machines); m != nil {
			s.Machine = &machineStage{Name: m.Name, Stage: at}
		}
		if err := s.readInfrastructure(ctx, c); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *clusterSummary) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out, nil
}

func (s *clusterSummary) machine(m *clusterv1.Machine) {
	s.Machines++
	s.machines = append(s.machines, m)
	if d := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionDriftDetected); d != nil {
		switch d.Status {
		case metav1.ConditionTrue:
			s.Drifting++
		case metav1.ConditionUnknown:
			s.Unknown++
		}
		s.BreakerOpen = s.BreakerOpen || d.Status == metav1.ConditionTrue && strings.Contains(d.Message, policies.GateMassDrift)
	}
}

func (s *clusterSummary) remediation(r *v1alpha1.Remediation) {
	phase := r.Status.Phase
	if phase == v1alpha1.PhaseSucceeded || phase == v1alpha1.PhaseCancelled {
		return
	}
	s.Remediations[orDash(string(phase))]++
	if phase.Ended() {
		return
	}
	for _, g := range r.Status.Blocked {
		i := slices.IndexFunc(s.Blocked, func(b blockSummary) bool { return b.Gate == g.By })
		if i < 0 {
			s.Blocked = append(s.Blocked, blockSummary{Gate: g.By, Until: g.Until})
			i = len(s.Blocked) - 1
		}
		b := &s.Blocked[i]
		b.Count++
		if g.Until != nil && (b.Until == nil || g.Until.Before(b.Until)) {
			b.Until = g.Until
		}
	}
	slices.SortFunc(s.Blocked, func(a, b blockSummary) int { return strings.Compare(a.Gate, b.Gate) })
}

func writeStatus(w io.Writer, all []*clusterSummary, now time.Time) error {
	if c := all[0].Controller; c != nil && c.State == notLooking {
		if _, err := fmt.Fprintf(w, "%s\n\n", c.Message); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "CLUSTER\tDRIFT\tSINCE\tMACHINES\tDRIFTING\tUNKNOWN\tREMEDIATIONS\tHELD BACK BY\tLAST SWEEP\tCOVERAGE")
	for _, s := range all {
		since, sweep, coverage := "-", "-", "-"
		if s.Since != nil {
			since = age(*s.Since, now)
		}
		if m := s.Metrics; m != nil {
			if m.LastSweep != nil {
				sweep = age(*m.LastSweep, now) + " ago"
			}
			if m.Coverage != nil {
				coverage = fmt.Sprintf("%.0f%%", *m.Coverage*100)
			}
		}
		_, _ = fmt.Fprintf(t, "%s/%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", s.Namespace, s.Name, s.word(), since,
			s.Machines, s.Drifting, s.Unknown, orDash(phasesOf(s.Remediations)), orDash(s.blocks()), sweep, coverage)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		s.writeStage(w, now)
		if s.Message != "" {
			_, _ = fmt.Fprintf(w, "\n%s/%s: %s\n", s.Namespace, s.Name, shown(s.Message, 600))
		}
	}
	return nil
}

// word says in one word how the cluster stands, and whether that is still known.
func (s *clusterSummary) word() string {
	if s.Stale && s.Drift != "" {
		return s.verdict() + ", stale"
	}
	return s.verdict()
}

func (s *clusterSummary) verdict() string {
	switch metav1.ConditionStatus(s.Drift) {
	case metav1.ConditionTrue:
		if s.BreakerOpen {
			return s.Reason + ", breaker open"
		}
		return s.Reason
	case "":
		return "not swept"
	default:
		return s.Reason
	}
}

func phasesOf(n map[string]int) string {
	parts := make([]string, 0, len(n))
	for _, phase := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[phase], phase))
	}
	return strings.Join(parts, ", ")
}

func (s *clusterSummary) blocks() string {
	parts := make([]string, len(s.Blocked))
	for i, b := range s.Blocked {
		parts[i] = b.Gate
		if b.Until != nil {
			parts[i] += " until " + clock(b.Until)
		}
	}
	return strings.Join(parts, ", ")
}
