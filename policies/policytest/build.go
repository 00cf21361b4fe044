package policytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// roomy is how many machines and owners a cluster has that does not say.
const roomy = 100

// build makes what Decide takes.
func (in *Input) build(set *policies.Set) (policies.Input, error) {
	if in.Now.IsZero() {
		return policies.Input{}, fmt.Errorf("now is not set: give a time such as 2026-11-30T10:00:00Z")
	}
	if in.Cluster.Name == "" {
		return policies.Input{}, fmt.Errorf("cluster.name is not set")
	}
	out := policies.Input{Now: in.Now, Policies: set,
		Clusters: map[detector.ClusterRef]policies.ClusterFacts{in.ref(): in.clusterFacts()},
		Owners:   map[providers.OwnerRef]policies.OwnerFacts{},
		InFlight: []policies.InFlight{}, History: map[string]policies.History{}}
	named := map[string]bool{}
	for i := range in.Findings {
		f, err := in.Findings[i].build(in)
		if err != nil {
			return out, fmt.Errorf("findings[%d]: %w", i, err)
		}
		out.Findings = append(out.Findings, f)
		if f.Owner.Name != "" {
			out.Owners[f.Owner] = in.ownerFacts(in.Findings[i].Owner)
			named[in.Findings[i].Owner] = true
		}
	}
	for name := range in.Owners {
		if !named[name] {
			return out, fmt.Errorf("owners: no finding belongs to %q", name)
		}
	}
	for i, f := range in.InFlight {
		owner, err := in.ownerRef(f.Owner)
		if err != nil {
			return out, fmt.Errorf("inFlight[%d]: %w", i, err)
		}
		out.InFlight = append(out.InFlight, policies.InFlight{Cluster: in.ref(), Owner: owner, Pool: f.Pool, Zone: f.Zone,
			ControlPlane: f.ControlPlane, Action: policies.Action(f.Action), By: f.By, Failed: f.Failed})
	}
	in.addHistory(&out)
	return out, nil
}

// addHistory tells the history of each finding to every decision that it is
// split into. Into which does not depend on the history.
func (in *Input) addHistory(out *policies.Input) {
	for i := range in.Findings {
		f := &in.Findings[i]
		if f.FirstSeen.IsZero() && f.Observations == 0 && len(f.Attempts) == 0 && f.Latched == "" && f.ApprovedBy == "" {
			continue
		}
		probe := *out
		probe.Findings = out.Findings[i : i+1]
		for _, d := range policies.Decide(probe) {
			out.History[policies.HistoryKey(d.Finding.Owner, d.Finding.Fingerprint)] = policies.History{FirstSeen: f.FirstSeen, Observations: f.Observations,
				Attempts: f.Attempts, Latched: f.Latched, ApprovedBy: f.ApprovedBy}
		}
	}
}

func (in *Input) clusterFacts() policies.ClusterFacts {
	c := &in.Cluster
	out := policies.ClusterFacts{Labels: c.Labels, Annotations: c.Annotations,
		Owners: valueOr(c.Owners, roomy), Machines: valueOr(c.Machines, roomy),
		ControlPlane: factOr(c.ControlPlane, policies.Yes("healthy")), Breaker: factOr(c.Breaker, policies.No()),
		Pools: map[string]policies.PoolFacts{}, Zones: map[string]policies.ZoneFacts{}}
	for _, f := range in.Findings {
		if f.Pool != "" {
			out.Pools[f.Pool] = policies.PoolFacts{Desired: 10, Ready: 10}
		}
		if f.Zone != "" {
			out.Zones[f.Zone] = policies.ZoneFacts{Machines: roomy}
		}
	}
	for name, p := range c.Pools {
		out.Pools[name] = policies.PoolFacts(p)
	}
	for name, z := range c.Zones {
		out.Zones[name] = policies.ZoneFacts{Machines: z.Machines, Unhealthy: z.Unhealthy}
	}
	return out
}

func (in *Input) ownerFacts(name string) policies.OwnerFacts {
	o, named := in.Owners[name]
	if !named {
		o = in.Owner
	}
	replaceable := policies.If(!strings.HasSuffix(kindOf(name), "Cluster"), "its MachineSet")
	return policies.OwnerFacts{Labels: o.Labels, Annotations: o.Annotations,
		Paused: factOr(o.Paused, policies.No()), Deleting: factOr(o.Deleting, policies.No()), Moving: factOr(o.Moving, policies.No()),
		ExternallyManaged: factOr(o.ExternallyManaged, policies.No()), Rollout: factOr(o.Rollout, policies.No()),
		OldRevision: factOr(o.OldRevision, policies.No()), SkipRemediation: factOr(o.SkipRemediation, policies.No()),
		Ambiguous: factOr(o.Ambiguous, policies.No()), Replaceable: factOr(o.Replaceable, replaceable),
		HealthCheck: policies.No(), Ready: factOr(o.Ready, policies.Yes("ready"))}
}

func kindOf(owner string) string {
	kind, _, _ := strings.Cut(owner, "/")
	return kind
}

func (in *Input) ownerRef(owner string) (providers.OwnerRef, error) {
	kind, name, ok := strings.Cut(owner, "/")
	if !ok || kind == "" || name == "" {
		return providers.OwnerRef{}, fmt.Errorf("owner is %q: write Kind/name", owner)
	}
	return providers.OwnerRef{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: kind, Namespace: in.Cluster.Namespace,
		Name: name, UID: types.UID(owner)}, nil
}

func (f *Finding) build(in *Input) (detector.Finding, error) {
	out := detector.Finding{Cluster: in.ref(), Pool: f.Pool, Zone: f.Zone, ControlPlane: f.ControlPlane,
		Status: detector.Drifted, Reason: f.Reason, Want: resource(f.Want), Have: resource(f.Have), SeenAt: in.Now.Add(-time.Minute)}
	if f.Status != "" {
		out.Status = detector.Status(f.Status)
		if !slices.Contains(v1alpha1.Status("").Values(), f.Status) {
			return out, fmt.Errorf("status is %q: known are %s", f.Status, strings.Join(v1alpha1.Status("").Values(), ", "))
		}
	}
	if f.SeenAt != nil {
		out.SeenAt = *f.SeenAt
	}
	if f.Owner != "" {
		owner, err := in.ownerRef(f.Owner)
		if err != nil {
			return out, err
		}
		out.Owner = owner
	}
	parts := strings.SplitN(f.Resource, "/", 3)
	if len(parts) != 3 {
		return out, fmt.Errorf("resource is %q: write provider/Kind/id", f.Resource)
	}
	out.Resource = detector.ResourceRef{Provider: parts[0], Kind: parts[1], ID: parts[2], Name: f.Name}
	for i := range f.Diffs {
		d, err := f.Diffs[i].build()
		if err != nil {
			return out, fmt.Errorf("diffs[%d]: %w", i, err)
		}
		out.Diffs = append(out.Diffs, d)
	}
	out.Fingerprint = detector.Fingerprint(&out)
	return out, nil
}

func (d *Diff) build() (detector.Diff, error) {
	out := detector.Diff{Path: d.Path, Want: d.Want.Value, Have: d.Have.Value, Element: d.Element, Adopted: d.Adopted, Foreign: d.Foreign}
	if !strings.HasPrefix(d.Path, "/") {
		return out, fmt.Errorf("path is %q: write a JSON pointer such as /instanceType", d.Path)
	}
	switch {
	case d.Type != "":
		out.Type = detector.DiffType(d.Type)
	case d.Have.IsAbsent():
		out.Type = detector.Removed
	case d.Want.IsAbsent():
		out.Type = detector.Added
	default:
		out.Type = detector.Changed
	}
	out.Mutability = providers.InPlace
	if d.Mutability == "" {
		return out, nil
	}
	for _, m := range []providers.Mutability{providers.ReadOnly, providers.InPlace, providers.InPlaceDisruptive, providers.Immutable} {
		if m.String() == d.Mutability {
			out.Mutability = m
			return out, nil
		}
	}
	return out, fmt.Errorf("mutability is %q: known are InPlace, InPlaceDisruptive, Immutable, ReadOnly", d.Mutability)
}

func resource(fields map[string]Value) *providers.Resource {
	if fields == nil {
		return nil
	}
	r := &providers.Resource{}
	for path, v := range fields {
		r.Set(path, providers.Field{Value: v.Value})
	}
	return r
}

func valueOr(v *int, otherwise int) int {
	if v == nil {
		return otherwise
	}
	return *v
}

func factOr(f *Fact, otherwise policies.Fact) policies.Fact {
	if f == nil {
		return otherwise
	}
	return f.Fact
}
