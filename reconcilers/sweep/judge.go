package sweep

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// judgement is the deciding after a read: of all of a site, or of some owners.
type judgement struct {
	daemon   *Daemon
	site     *site
	inv      *inventory.Inventory
	set      *policies.Set
	units    []*unit // of what was read
	readings []*Reading
	whole    bool
	cause    string

	at      time.Time
	results map[*inventory.Owner]detector.Result
	// read are the owners that were read, and in a sweep the clusters too, to
	// which orphans belong.
	read map[providers.OwnerRef]bool
}

// decide makes the outcome, with facts about everything and decisions on what
// was read, and remembers what it came to.
//
// What is known of the other owners of the clusters from before is decided
// along, so that drift which comes to light owner by owner is as much mass
// drift as if a sweep had found it, and a slot goes to the worst finding
// whoever is read first.
func (j *judgement) decide(ctx context.Context) *Outcome {
	d := j.daemon
	j.at = d.Clock.Now()
	j.results = resultsOf(j.units, j.readings)
	j.read = map[providers.OwnerRef]bool{}
	for o := range j.results {
		j.read[o.Ref] = true
	}
	in := input(j.inv, j.at, j.set)
	for _, e := range j.inv.Elsewhere {
		j.addBystander(&in, e)
	}
	records := j.addRecords(ctx, &in)
	fresh := findingsOf(j.units, j.readings, j.results)
	if j.whole {
		for _, c := range j.inv.Clusters {
			j.read[clusterOwner(c.Object)] = true
			in.Findings = append(in.Findings, uncompared(c)...)
		}
	}
	in.Findings = append(in.Findings, fresh...)
	others := j.others()
	for _, k := range others {
		in.Findings = append(in.Findings, k.result.Findings...)
	}
	decisions := j.ask(in, fresh, others, records)

	out := &Outcome{
		At: j.at, Cause: j.cause, Scope: j.site.key.scope, Inventory: j.inv, Policies: j.set,
		Result: assemble(j.units, j.readings, j.results),
	}
	if j.whole {
		out.Result.withoutOwners(j.inv)
		out.Scopes = d.scopesOf(j.inv)
	}
	other := map[providers.OwnerRef]bool{}
	for _, k := range others {
		other[k.result.Owner.Ref] = true
	}
	for _, decision := range decisions {
		if !other[decision.Finding.Owner] {
			out.Result.Decisions = append(out.Result.Decisions, decision)
		}
	}
	if !j.whole && j.cause == CauseVerify {
		out.Held = map[providers.OwnerRef]policies.Block{}
		for o, r := range j.results {
			if b, held := policies.Holding(in, r.Cluster(), o.Ref); held {
				out.Held[o.Ref] = b
			}
		}
	}
	j.remember(out)
	return out
}

// scopesOf tells where clusters have owners.
func (d *Daemon) scopesOf(inv *inventory.Inventory) map[detector.ClusterRef][]providers.Scope {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[detector.ClusterRef][]providers.Scope, len(inv.Clusters))
	for _, c := range inv.Clusters {
		ref := refOf(c)
		for _, s := range d.sites {
			if s.located() && s.members[ref] != nil {
				out[ref] = append(out[ref], s.key.scope)
			}
		}
		slices.SortFunc(out[ref], func(a, b providers.Scope) int { return cmp.Compare(scopeKey(a), scopeKey(b)) })
	}
	return out
}

// addBystander counts a cluster that is not looked at, where a budget is about
// all of them.
func (j *judgement) addBystander(in *policies.Input, e inventory.Elsewhere) {
	ref := detector.ClusterRef{Namespace: e.Key.Namespace, Name: e.Key.Name}
	if e.Object == nil || e.Machines == 0 {
		return
	}
	in.Clusters[ref] = policies.ClusterFacts{Labels: e.Object.Labels, Annotations: e.Object.Annotations, Machines: e.Machines}
	c := &inventory.Cluster{Object: e.Object}
	for _, m := range e.Busy {
		c.Uncompared = append(c.Uncompared, inventory.Uncompared{Machine: m, Ref: providers.OwnerRef{
			Kind: m.Spec.InfrastructureRef.Kind, Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name,
		}})
	}
	in.InFlight = append(in.InFlight, inFlight(ref, c)...)
}

// addRecords adds what Holdfast itself has in flight. If that cannot be told,
// nothing acts: nil facts close every gate that asks for them.
func (j *judgement) addRecords(ctx context.Context, in *policies.Input) map[string]policies.History {
	if j.daemon.Records == nil {
		return map[string]policies.History{}
	}
	history, inFlight, err := j.daemon.Records.Facts(ctx)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(errors.New(providers.Redact(oneLine(err.Error()))), "Records could not be read, so nothing acts")
		in.InFlight = nil
		return nil
	}
	in.InFlight = append(in.InFlight, inFlight...)
	if history == nil {
		history = map[string]policies.History{}
	}
	return history
}

// others gives what is known of owners of the clusters that were not read now
// and still exist.
func (j *judgement) others() []*known {
	d := j.daemon
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*known
	for _, c := range j.inv.Clusters {
		for _, o := range c.Owners {
			if k := d.known[refOf(c)][o.Ref]; k != nil && !j.read[o.Ref] {
				out = append(out, k)
			}
		}
	}
	return out
}

// ask has the policies decide. They split findings as rules say, and it is the
// parts that have histories; so they are asked once for the parts, and again
// when it is known how old those are and whether a breaker is open.
func (j *judgement) ask(in policies.Input, fresh []detector.Finding, others []*known, records map[string]policies.History) []policies.Decision {
	m := j.daemon.memory
	unknown := unknownOf(fresh)
	m.note(j.at, fresh, records)
	in.History = m.history(records)
	j.setBreakers(in)
	parts := policies.Decide(in)
	var decided []detector.Finding
	for i := range parts {
		if j.read[parts[i].Finding.Owner] {
			decided = append(decided, parts[i].Finding)
		}
	}
	m.note(j.at, decided, records)
	m.settle(j.at, j.read, unknown)
	j.updateBreakers(in, parts, others)
	if records != nil {
		in.History = m.history(records)
	} else {
		in.History = nil
	}
	j.setBreakers(in)
	return policies.Decide(in)
}

func (j *judgement) setBreakers(in policies.Input) {
	for _, c := range j.inv.Clusters {
		in.Clusters[refOf(c)] = j.daemon.breakers.facts(refOf(c), in.Clusters[refOf(c)])
	}
}

// unknownOf tells whether a read could not say anything of a resource.
func unknownOf(findings []detector.Finding) func(providers.OwnerRef, providers.ID) bool {
	owners := map[providers.OwnerRef]bool{}
	resources := map[providers.ID]bool{}
	for i := range findings {
		f := &findings[i]
		if f.Status != detector.Unknown && (f.Status != detector.NotChecked || f.Have != nil) {
			continue
		}
		if f.Resource.Kind == f.Owner.Kind { // of the owner itself: nothing of it was read
			owners[f.Owner] = true
		}
		resources[providers.ID{Kind: f.Resource.Kind, Name: f.Resource.ID}] = true
	}
	return func(o providers.OwnerRef, id providers.ID) bool { return owners[o] || resources[id] }
}

// updateBreakers counts, cluster by cluster, what drifts and is not ignored.
func (j *judgement) updateBreakers(in policies.Input, parts []policies.Decision, others []*known) {
	drifts := map[providers.OwnerRef]*detector.Finding{}
	for i := range parts {
		f := &parts[i].Finding
		if parts[i].Action != policies.Ignore && (f.Status == detector.Drifted || f.Status == detector.Missing) {
			drifts[f.Owner] = f
		}
	}
	byCluster := map[detector.ClusterRef][]detector.Result{}
	add := func(r detector.Result) {
		r.Findings = nil
		if f := drifts[r.Owner.Ref]; f != nil {
			r.Findings = []detector.Finding{*f}
		}
		byCluster[r.Cluster()] = append(byCluster[r.Cluster()], r)
	}
	for _, r := range j.results {
		add(r)
	}
	for _, k := range others {
		add(k.result)
	}
	for _, c := range j.inv.Clusters {
		ref := refOf(c)
		e := j.set.For(ref, in.Clusters[ref].Labels)
		j.daemon.breakers.update(ref, byCluster[ref], e.MaxDriftRatio(), j.whole && j.complete(ref))
	}
}

// complete reports whether the sweep read all of its kinds, as far as they are a
// cluster's: one that did not calms no breaker of it.
func (j *judgement) complete(ref detector.ClusterRef) bool {
	for _, u := range j.units {
		if u.errs != nil {
			return false
		}
	}
	for _, r := range j.readings {
		if r.err != nil {
			return false
		}
		for part, err := range r.Snapshot.Coverage {
			if of, alone := providers.PartOfCluster(part); err != nil && (!alone || of == ref.String()) {
				return false
			}
		}
	}
	return true
}

// remember keeps what later reads need, and drops owners that are gone.
func (j *judgement) remember(out *Outcome) {
	d := j.daemon
	until := j.wakes(out.Result.Decisions)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range j.units {
		ref := refOf(u.cluster)
		c := d.clusters[ref]
		if c == nil {
			continue
		}
		if d.known[ref] == nil {
			d.known[ref] = map[providers.OwnerRef]*known{}
		}
		if c.machines == nil {
			c.machines = map[string]providers.OwnerRef{}
		}
		for _, o := range u.owners {
			if o.Machine != nil {
				c.machines[o.Machine.Name] = o.Ref
			}
			d.known[ref][o.Ref] = &known{result: slim(o, j.results[o], c.slim), site: j.site.key, at: j.at}
			delete(j.site.gates, o.Ref)
			if at, ok := until[o.Ref]; ok {
				j.site.gates[o.Ref] = at
			}
		}
	}
	j.site.nextGate()
	for _, c := range j.inv.Clusters {
		j.forgetGone(c)
	}
	if j.whole {
		j.cover(out)
	}
	j.authors(out)
	d.wake()
}

// forgetGone drops what is known of owners that the cluster has no more.
func (j *judgement) forgetGone(c *inventory.Cluster) {
	d, ref := j.daemon, refOf(c)
	there := make(map[providers.OwnerRef]bool, len(c.Owners))
	for _, o := range c.Owners {
		there[o.Ref] = true
	}
	var gone []providers.OwnerRef
	for owner := range d.known[ref] {
		if !there[owner] {
			gone = append(gone, owner)
		}
	}
	d.forgetOwners(ref, gone...)
	if k := d.clusters[ref]; k != nil {
		for machine, owner := range k.machines {
			if !there[owner] {
				delete(k.machines, machine)
			}
		}
	}
}

// cover takes down how much was checked of each cluster.
func (j *judgement) cover(out *Outcome) {
	sums := map[detector.ClusterRef]coverage{}
	for _, c := range out.Result.Clusters {
		sum := sums[c.Ref]
		sum.checked, sum.notChecked = sum.checked+c.Checked, sum.notChecked+c.NotChecked
		sums[c.Ref] = sum
	}
	for ref, sum := range sums {
		if c := j.daemon.clusters[ref]; c != nil && j.site.members[ref] != nil {
			c.coverage[j.site.key] = sum
		}
	}
}

// settling is how long after an event a resource that shows no drift may still
// come to show it: clouds are eventually consistent.
const settling = 2 * time.Minute

// authors tells who changed what drifts, and forgets who changed what does not.
func (j *judgement) authors(out *Outcome) {
	known := j.site.changed
	if len(known.by) == 0 {
		return
	}
	drifts := map[providers.ID]bool{}
	for i := range out.Result.Decisions {
		r := out.Result.Decisions[i].Finding.Resource
		id := providers.ID{Kind: r.Kind, Name: r.ID}
		drifts[id] = true
		if a, ok := known.by[id]; ok {
			if out.ChangedBy == nil {
				out.ChangedBy = map[providers.ID]string{}
			}
			out.ChangedBy[id] = a.name
		}
	}
	for _, r := range j.results {
		for _, id := range r.Wanted {
			if a, ok := known.by[id]; ok && !drifts[id] && j.at.Sub(time.Unix(a.event, 0)) > settling {
				known.drop(id)
			}
		}
	}
}

// slimOwner keeps of an owner what tells it from others.
func slimOwner(o *providers.Owner, cluster *clusterv1.Cluster) *providers.Owner {
	out := &providers.Owner{Ref: o.Ref, Cluster: cluster, Pool: o.Pool, Zone: o.Zone, ControlPlane: o.ControlPlane}
	if o.Machine != nil {
		out.Machine = someMachine
	}
	return out
}

// someMachine says that an owner has a Machine. Ten thousand owners share it.
var someMachine = &clusterv1.Machine{}

// slimCluster is a Cluster's name.
func slimCluster(ref detector.ClusterRef) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
}

// clusterOwner is the owner that detector gives orphans of a cluster.
func clusterOwner(c *clusterv1.Cluster) providers.OwnerRef {
	ref := providers.RefOf(c)
	if ref.Kind == "" {
		ref.Kind, ref.APIVersion = "Cluster", clusterv1.GroupVersion.String()
	}
	return ref
}
