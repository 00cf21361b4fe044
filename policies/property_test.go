package policies

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// randomPolicies are loaded once; a random input picks one.
var randomPolicies = []string{
	"spec: {mode: enforce, rules: [{id: aws-instance-type, grace: {for: 0s}}, {id: aws-instance-tags, grace: {for: 0s}}], safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 50%, controlPlane: enforce}, budgets: [{scope: pool, max: 2}, {scope: cluster, max: 30%}, {scope: zone, max: 3, actions: [replace]}, {scope: all, max: 5}]}\n",
	"spec: {mode: enforce, rules: [{id: all, target: {provider: aws}, action: replace}], safety: {maxDriftRatio: 60%, minHealthy: 1, controlPlane: enforce}, budgets: [{scope: pool, max: 25%}]}\n",
	"spec: {mode: dryRun, rules: [{id: all, target: {provider: aws}, action: patch, when: \"have.state == 'running'\"}], safety: {maxDriftRatio: 100%}}\n",
	"spec: {mode: enforce, rules: [{id: all, target: {provider: aws}, action: replace, grace: {for: 1h, observations: 2}, approval: required, attempts: {max: 1, per: 2h}}], safety: {maxDriftRatio: 100%, controlPlane: enforce}}\n",
	"spec: {mode: enforce, rules: [{id: all, target: {}, action: replace}], windows: [{kind: allow, cron: \"0 9 * * *\", duration: 2h}, {kind: deny, cron: \"30 10 * * *\", duration: 10m}]}\n",
}

// randomInput makes an input in which everything may be true, false or
// unknown; wild ones leave more out.
func randomInput(t testing.TB, rng *rand.Rand, wild bool) Input {
	in := Input{Now: testNow, Policies: mustLoad(t, randomPolicies[rng.IntN(len(randomPolicies))]),
		Clusters: map[detector.ClusterRef]ClusterFacts{}, Owners: map[providers.OwnerRef]OwnerFacts{},
		InFlight: []InFlight{}, History: map[string]History{}}
	fact := func() Fact {
		switch rng.IntN(40) {
		case 0:
			return Yes("x")
		case 1:
			return Fact{}
		default:
			return No()
		}
	}
	for c := range 1 + rng.IntN(2) {
		ref := detector.ClusterRef{Namespace: "prod", Name: fmt.Sprint("eu-", c)}
		facts := ClusterFacts{Breaker: fact(), ControlPlane: Yes("ok"), Pools: map[string]PoolFacts{}, Zones: map[string]ZoneFacts{}}
		if rng.IntN(5) == 0 {
			facts.ControlPlane = fact()
		}
		for p, pool := range []string{"KubeadmControlPlane/cp", "MachineDeployment/a", "MachineDeployment/b"} {
			size := 1 + rng.IntN(9)
			ready := 0
			for m := range size {
				owner := machineRef(fmt.Sprintf("%d-%d-%d", c, p, m))
				o := OwnerFacts{Paused: fact(), Deleting: fact(), Moving: fact(), ExternallyManaged: fact(), Rollout: fact(), OldRevision: fact(),
					SkipRemediation: fact(), Ambiguous: fact(), Replaceable: Yes("x"), Ready: If(rng.IntN(8) > 0, "")}
				if o.Ready.True() {
					ready++
				}
				in.Owners[owner] = o
				zone := fmt.Sprint("z", m%3)
				z := facts.Zones[zone]
				z.Machines++
				facts.Zones[zone] = z
				facts.Machines++
				place := func(f *detector.Finding) { f.Cluster, f.Pool, f.Zone, f.ControlPlane = ref, pool, zone, p == 0 }
				switch rng.IntN(4) {
				case 0:
					in.Findings = append(in.Findings, instanceFinding(owner, place, withDiffs(typeDiff, tagDiff("a"))))
				case 1:
					in.Findings = append(in.Findings, instanceFinding(owner, place, missing("gone")))
				case 2:
					if rng.IntN(6) == 0 {
						in.InFlight = append(in.InFlight, InFlight{Cluster: ref, Owner: owner, Pool: pool, Zone: zone, ControlPlane: p == 0,
							Action: []Action{Patch, Replace}[rng.IntN(2)], By: "somebody", Failed: []string{"", "", "x"}[rng.IntN(3)]})
					}
				}
			}
			facts.Pools[pool] = PoolFacts{Desired: size, Ready: ready}
		}
		facts.Owners = facts.Machines + 1
		in.Clusters[ref] = facts
	}
	for _, d := range Decide(in) {
		in.History[HistoryKey(d.Finding.Owner, d.Finding.Fingerprint)] = History{FirstSeen: testNow.Add(-time.Duration(rng.IntN(300)) * time.Minute),
			Observations: rng.IntN(4), ApprovedBy: []string{"", "anna"}[rng.IntN(2)]}
	}
	if wild {
		makeWild(&in, rng)
	}
	return in
}

func makeWild(in *Input, rng *rand.Rand) {
	for ref := range in.Owners {
		if rng.IntN(6) == 0 {
			delete(in.Owners, ref)
		}
	}
	if rng.IntN(4) == 0 {
		in.InFlight = nil
	}
	if rng.IntN(4) == 0 {
		in.History = nil
	}
	if rng.IntN(4) == 0 {
		in.Policies = nil
	}
	for i := range in.Findings {
		f := &in.Findings[i]
		switch rng.IntN(12) {
		case 0:
			f.Status = []detector.Status{detector.Unknown, detector.NotChecked, detector.Foreign, detector.Unexpected, detector.InSync, ""}[rng.IntN(6)]
		case 1:
			f.SeenAt = time.Time{}
		case 2:
			f.Diffs = nil
		case 3:
			f.Cluster.Name = "elsewhere"
		case 4:
			f.Owner = providers.OwnerRef{}
		case 5:
			f.Pool, f.Zone = "", ""
		}
	}
}

// seeded is a generator whose seed a failing test can name.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// TestBudgetsHold: whatever the input, what may be executed together keeps
// every budget, the minimum of ready machines and the control plane.
func TestBudgetsHold(t *testing.T) {
	executed := 0
	for seed := range uint64(250) {
		in := randomInput(t, seeded(seed), false)
		var chosen []Decision
		for _, d := range Decide(in) {
			if d.Executable() {
				chosen = append(chosen, d)
			}
		}
		executed += len(chosen)
		for ref, facts := range in.Clusters {
			checkChosen(t, seed, &in, ref, facts, chosen)
		}
	}
	if executed < 100 {
		t.Errorf("only %d decisions could be executed: the inputs test nothing", executed)
	}
}

func checkChosen(t *testing.T, seed uint64, in *Input, ref detector.ClusterRef, facts ClusterFacts, chosen []Decision) {
	t.Helper()
	type use struct {
		owner        providers.OwnerRef
		cluster      detector.ClusterRef
		pool, zone   string
		action       Action
		controlPlane bool
		begun        bool
	}
	var uses []use
	perOwner := map[providers.OwnerRef]Action{}
	for _, f := range in.InFlight {
		if f.Failed == "" {
			uses = append(uses, use{f.Owner, f.Cluster, f.Pool, f.Zone, f.Action, f.ControlPlane, true})
			perOwner[f.Owner] = "begun"
		}
	}
	for _, d := range chosen {
		f := d.Finding
		if old, twice := perOwner[f.Owner]; twice && old != d.Action {
			t.Errorf("seed %d: %s and %s of %s at once", seed, old, d.Action, f.Owner)
		}
		perOwner[f.Owner] = d.Action
		uses = append(uses, use{f.Owner, f.Cluster, f.Pool, f.Zone, d.Action, f.ControlPlane, false})
	}
	count := func(in func(use) bool) (all, begun int) {
		seen := map[providers.OwnerRef]bool{}
		for _, u := range uses {
			if !in(u) || seen[u.owner] {
				continue
			}
			seen[u.owner] = true
			all++
			if u.begun {
				begun++
			}
		}
		return all, begun
	}
	total := 0
	for _, c := range in.Clusters {
		total += c.Machines
	}
	effective := in.Policies.For(ref, nil)
	for _, b := range effective.budgets {
		places := map[string]int{"": facts.Machines}
		switch b.Scope {
		case v1alpha1.ScopePool:
			places = map[string]int{}
			for pool, p := range facts.Pools {
				places[pool] = p.Desired
			}
		case v1alpha1.ScopeZone:
			places = map[string]int{}
			for zone, z := range facts.Zones {
				places[zone] = z.Machines
			}
		case v1alpha1.ScopeAll:
			places[""] = total
		}
		for place, size := range places {
			all, begun := count(func(u use) bool {
				return b.actions.has(u.action) && (b.Scope == v1alpha1.ScopeAll || u.cluster == ref) &&
					(b.Scope != v1alpha1.ScopePool || u.pool == place) && (b.Scope != v1alpha1.ScopeZone || u.zone == place)
			})
			if allowed := max(allowance(b.Max, size), begun); all > allowed {
				t.Errorf("seed %d: %d in flight in %s %q of %s, at most %d (%s)", seed, all, b.Scope, place, ref, allowed, b.Max.String())
			}
		}
	}
	if all, begun := count(func(u use) bool { return u.controlPlane && u.cluster == ref && u.action == Replace }); all > max(1, begun) {
		t.Errorf("seed %d: %d machines of the control plane of %s at once", seed, all, ref)
	}
	for pool, p := range facts.Pools {
		ready := p.Ready
		seen := map[providers.OwnerRef]bool{}
		for _, d := range chosen {
			f := d.Finding
			if f.Cluster == ref && f.Pool == pool && d.Action == Replace && !seen[f.Owner] && in.Owners[f.Owner].Ready.True() {
				seen[f.Owner] = true
				ready--
			}
		}
		for _, m := range effective.safety.minHealthy {
			if len(seen) > 0 && ready < m.of(p.Desired-1) {
				t.Errorf("seed %d: %d of %d machines of %s left ready, %s wanted", seed, ready, p.Desired, pool, m.String())
			}
		}
	}
}

// TestOrderDoesNotMatter: decisions do not depend on the order of findings,
// and equal inputs give equal decisions.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(60) {
		rng := seeded(seed)
		in := randomInput(t, rng, true)
		want := Decide(in)
		shuffled := in
		shuffled.Findings = slices.Clone(in.Findings)
		rng.Shuffle(len(shuffled.Findings), func(i, j int) {
			shuffled.Findings[i], shuffled.Findings[j] = shuffled.Findings[j], shuffled.Findings[i]
		})
		if diff := cmp.Diff(want, Decide(shuffled), cmp.AllowUnexported(providers.Value{})); diff != "" {
			t.Fatalf("seed %d (-in order +shuffled):\n%s", seed, diff)
		}
	}
}

// checkDecisions holds whatever the input is.
func checkDecisions(t *testing.T, in Input) {
	t.Helper()
	before := fmt.Sprintf("%+v", in.Findings)
	for _, d := range Decide(in) {
		facts, known := in.Owners[d.Finding.Owner]
		_, clusterKnown := in.Clusters[d.Finding.Cluster]
		certain := d.Finding.Status == detector.Drifted || d.Finding.Status == detector.Missing
		safe := known && clusterKnown && certain && in.InFlight != nil && in.History != nil && !d.Finding.SeenAt.IsZero() &&
			facts.Paused.False() && facts.Deleting.False() && facts.Moving.False() && facts.ExternallyManaged.False() && facts.Rollout.False() &&
			facts.OldRevision.False() && facts.SkipRemediation.False() && facts.Ambiguous.False() && in.Clusters[d.Finding.Cluster].Breaker.False()
		if d.Executable() && !safe {
			t.Errorf("executable although something is not known or stands against it: %+v", d)
		}
		if d.Reason == "" || d.Mode == "" || severityRank(d.Severity) > 4 {
			t.Errorf("incomplete: %+v", d)
		}
		var at []int
		for _, b := range d.Blocked {
			at = append(at, slices.Index(Gates(), b.By))
			if !b.Until.IsZero() && !b.Until.After(in.Now) {
				t.Errorf("%s opens in the past: %s", b.By, b.Until)
			}
		}
		if !slices.IsSorted(at) || len(at) > 0 && at[0] < 0 {
			t.Errorf("gates out of order: %v", gatesOf(d))
		}
	}
	if after := fmt.Sprintf("%+v", in.Findings); after != before {
		t.Error("Decide changed its input")
	}
}

func FuzzDecide(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(binary.BigEndian.AppendUint64(nil, seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := fnv.New64a()
		_, _ = h.Write(data)
		checkDecisions(t, randomInput(t, seeded(h.Sum64()), true))
	})
}
