package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/report"
)

// run is `holdfast report`: load, sweep, write, exit.
func (f *reportFlags) run(cmd *cobra.Command) error {
	s, err := f.parse()
	if err != nil {
		return err
	}
	if s.policies, err = loadPolicies(cmd, f.policies); err != nil {
		return &statusError{code: s.style.Code(report.OutcomeBadPolicy), err: err}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	progress := newProgress(cmd.ErrOrStderr())
	r, err := f.scan(ctx, cmd, s, progress.say)
	progress.clear()
	if err == nil {
		err = report.Write(r, s.outputs, cmd.OutOrStdout(), report.DetectStyle(fileOf(cmd.OutOrStdout()), s.color, os.Getenv))
	}
	if err != nil {
		return &statusError{code: s.style.Code(report.OutcomeError), err: err}
	}
	if code := report.Exit(r, s.failOn, s.style); code != exitOK {
		return &statusError{code: code}
	}
	return nil
}

// scan gathers the objects, sweeps, and makes the report.
func (f *reportFlags) scan(ctx context.Context, cmd *cobra.Command, s settings, say func(string)) (*report.Report, error) {
	kinds, err := inventory.NewKinds(registrations(f.nodes)...)
	if err != nil {
		return nil, err
	}
	say("Reading objects")
	set, reader, err := f.load(ctx, cmd, kinds)
	if err != nil {
		return nil, err
	}
	inv, err := inventory.Group(kinds, set, inventory.Selection{Namespace: *f.kube.Namespace, Clusters: f.clusters})
	if err != nil {
		return nil, err
	}
	f.warnOfUnmatched(cmd.ErrOrStderr(), s.policies, inv)
	clouds, closeClouds, err := f.clouds(reader)
	if err != nil {
		return nil, err
	}
	defer closeClouds()
	now := time.Now()
	sweeper := &sweep.Sweeper{
		Providers: clouds, Policies: s.policies, CreationGrace: f.creationGrace,
		Now: func() time.Time { return now }, Progress: say, History: history(s.previous),
	}
	result, err := sweeper.Run(ctx, inv)
	if err != nil {
		return nil, err
	}
	if f.saveSnapshot != "" {
		if err := saveReadings(f.saveSnapshot, result.Readings); err != nil {
			return nil, err
		}
	}
	in := buildInput(result, inv)
	in.Now, in.Version, in.ShowIgnored, in.Previous = now, buildVersion().Version, f.showIgnored, s.previous
	return report.Build(in), nil
}

// warnOfUnmatched tells of policies that are for none of the clusters there are.
// Where only some of those were asked for, or given as files, that says nothing.
func (f *reportFlags) warnOfUnmatched(w io.Writer, set *policies.Set, inv *inventory.Inventory) {
	if len(inv.Clusters) == 0 || len(f.objects) > 0 || len(f.clusters) > 0 || *f.kube.Namespace != "" || inv.Unlisted != "" {
		return
	}
	all := map[detector.ClusterRef]map[string]string{}
	for _, c := range inv.Clusters {
		all[detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}] = c.Object.Labels
	}
	for _, e := range inv.Elsewhere {
		if e.Object != nil {
			all[detector.ClusterRef{Namespace: e.Key.Namespace, Name: e.Key.Name}] = e.Object.Labels
		}
	}
	for _, u := range set.Unmatched(all) {
		_, _ = fmt.Fprintln(w, legible(fmt.Sprintf("%s: warning: policy %s is for no cluster: %s", u.Position, u.Policy, u.Why)))
	}
}

// load reads objects from where the flags say, with a reader for what
// providers look up on their own.
func (f *reportFlags) load(ctx context.Context, cmd *cobra.Command, kinds *inventory.Kinds) (*inventory.Set, client.Reader, error) {
	if len(f.objects) > 0 {
		set, err := inventory.FromFiles(kinds, f.objects, cmd.InOrStdin())
		if err != nil {
			return nil, nil, err
		}
		return set, set.Reader(kinds, nil), nil
	}
	cfg, err := managementCluster(f.kube)
	if errors.Is(err, errNoCluster) {
		return nil, nil, fmt.Errorf("%w, or give files with --objects", err)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := liveClient(cfg, kinds)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the management cluster %s: %w", cfg.Host, err)
	}
	set, err := inventory.FromCluster(ctx, kinds, c, *f.kube.Namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("read the management cluster %s: %w", cfg.Host, err)
	}
	return set, set.Reader(kinds, c), nil
}

func liveClient(cfg *rest.Config, kinds *inventory.Kinds) (client.Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "holdfast/" + buildVersion().Version
	// A few large lists: client-go's default of 5 a second would only slow
	// them, and the server's own priority and fairness protects it.
	cfg.QPS = -1
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, httpClient)
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: kinds.Scheme(), Mapper: mapper, HTTPClient: httpClient})
}

// clouds makes the providers: the real ones, or the replay of a snapshot.
func (f *reportFlags) clouds(reader client.Reader) (map[string]providers.Provider, func(), error) {
	out := map[string]providers.Provider{}
	var errs []error
	for _, r := range registrations(f.nodes) {
		p, err := r.New(reader)
		if err != nil {
			errs = append(errs, fmt.Errorf("provider %s: %w", r.Name, err))
			continue
		}
		out[r.Name] = p
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	closeAll := func() {
		for _, p := range out {
			if c, ok := p.(io.Closer); ok {
				_ = c.Close() // a session that stays open ends by itself
			}
		}
	}
	if f.snapshot == "" {
		return out, closeAll, nil
	}
	replayed, err := replay(f.snapshot, out)
	return replayed, closeAll, err
}

// history carries the ages of an earlier report's findings over.
func history(previous *report.Report) map[string]policies.History {
	out := map[string]policies.History{}
	if previous == nil {
		return out
	}
	for i := range previous.Findings {
		f := &previous.Findings[i]
		h := policies.History{Observations: 2}
		if f.FirstSeen != nil {
			h.FirstSeen = *f.FirstSeen
		}
		out[policies.HistoryKey(f.Owner, f.Fingerprint)] = h
	}
	return out
}

// buildInput turns what a sweep came to into what a report is built from.
func buildInput(result *sweep.Result, inv *inventory.Inventory) report.BuildInput {
	in := report.BuildInput{Decisions: result.Decisions}
	for _, c := range result.Clusters {
		cluster := report.ClusterInput{
			Ref: c.Ref, Provider: c.Provider, Scope: c.Scope, SnapshotTime: c.TakenAt,
			Checked: c.Checked, NotChecked: c.NotChecked,
		}
		for _, o := range c.Owners {
			cluster.Owners = append(cluster.Owners, report.Owner{OwnerRef: o.Ref, Pool: o.Pool, Source: o.Source, InSync: o.InSync})
		}
		in.Clusters = append(in.Clusters, cluster)
	}
	for _, p := range inv.Problems {
		problem := report.Problem{Object: p.Object, Reason: p.Reason, Message: p.Message, Warning: p.Warning}
		if at := p.At.String(); at != "" {
			problem.Message = at + ": " + problem.Message
		}
		if p.Cluster.Name != "" {
			problem.Cluster = &detector.ClusterRef{Namespace: p.Cluster.Namespace, Name: p.Cluster.Name}
		}
		in.Problems = append(in.Problems, problem)
	}
	return in
}
