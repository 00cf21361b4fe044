package remediator_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/remediator"
)

// world is three machines with two kinds of drift each, under real policies,
// with records and a clock that jumps.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	set     *policies.Set
	drift   map[string]bool // by owner and path
	records map[string]*v1alpha1.Remediation
	story   []string
	began   int
}

const worldPolicy = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: p}
spec:
  mode: enforce
  rules:
  - {id: tags, target: {kind: Thing}, paths: [/tags], action: patch, attempts: {max: 2, per: 6h}}
  - {id: type, target: {kind: Thing}, paths: [/type], action: replace, approval: required, attempts: {max: 1}}
  budgets: [{scope: cluster, max: 2}, {scope: pool, max: 2}]
  safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 0%, maxSnapshotAge: 1h}
`

var worldPaths = []string{"/tags/a", "/type"}

func newWorld(t *testing.T, seed uint64) *world {
	set, problems := policies.LoadSources(policies.Options{}, policies.Source{Name: "p.yaml", Data: []byte(worldPolicy)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return &world{t: t, rng: rand.New(rand.NewPCG(seed, 11)), now: now, set: set, drift: map[string]bool{}, records: map[string]*v1alpha1.Remediation{}}
}

func (w *world) ref(i int) providers.OwnerRef {
	name := fmt.Sprint("w-", i)
	return providers.OwnerRef{Kind: "Thing", Namespace: "prod", Name: name, UID: types.UID("uid-" + name)}
}

// decide decides on everything, as seen now; without leaves one record's own
// beginning out.
func (w *world) decide(without *v1alpha1.Remediation) []policies.Decision {
	in := policies.Input{Now: w.now, Policies: w.set, InFlight: []policies.InFlight{}, History: map[string]policies.History{},
		Owners: map[providers.OwnerRef]policies.OwnerFacts{}, Clusters: map[detector.ClusterRef]policies.ClusterFacts{}}
	cluster := detector.ClusterRef{Namespace: "prod", Name: "eu"}
	in.Clusters[cluster] = policies.ClusterFacts{Owners: 10, Machines: 10, Breaker: policies.No(), ControlPlane: policies.Yes(""),
		Pools: map[string]policies.PoolFacts{"MachineSet/a": {Desired: 10, Ready: 10}}, Zones: map[string]policies.ZoneFacts{}}
	for i := range 3 {
		ref := w.ref(i)
		no := policies.No()
		in.Owners[ref] = policies.OwnerFacts{Paused: no, Deleting: no, Moving: no, ExternallyManaged: no, Rollout: no, OldRevision: no,
			SkipRemediation: no, Ambiguous: no, Replaceable: policies.Yes("MachineSet/a"), HealthCheck: no, Ready: policies.Yes("")}
		f := detector.Finding{Cluster: cluster, Owner: ref, Pool: "MachineSet/a", Status: detector.Drifted, SeenAt: w.now,
			Resource: detector.ResourceRef{Provider: "fake", Kind: "Thing", ID: ref.Name}}
		for _, path := range worldPaths {
			if w.drift[ref.Name+path] {
				f.Diffs = append(f.Diffs, detector.Diff{Path: path, Want: providers.String("x"), Type: detector.Changed, Mutability: providers.InPlace})
			}
		}
		if len(f.Diffs) > 0 {
			f.Fingerprint = detector.Fingerprint(&f)
			in.Findings = append(in.Findings, f)
		}
	}
	for _, r := range w.records {
		h := remediator.HistoryOf(r)
		if r == without && len(h.Attempts) > 0 {
			h.Attempts = h.Attempts[:len(h.Attempts)-1]
		}
		in.History[policies.HistoryKey(remediator.OwnerOf(r), r.Spec.Fingerprint)] = h
		f := policies.InFlight{Cluster: cluster, Owner: remediator.OwnerOf(r), Pool: r.Spec.Pool, Action: policies.Action(r.Spec.Action), By: "holdfast"}
		switch {
		case r.Status.Phase.InFlight() && r != without:
			in.InFlight = append(in.InFlight, f)
		case remediator.Halts(r):
			f.Failed = "x"
			in.InFlight = append(in.InFlight, f)
		}
	}
	return policies.Decide(in)
}

func (w *world) read(without *v1alpha1.Remediation) remediator.Read {
	read := remediator.Read{At: w.now, SeenAt: w.now, Owners: map[providers.OwnerRef]bool{}, Exists: map[providers.OwnerRef]bool{}, Decisions: w.decide(without)}
	for i := range 3 {
		read.Owners[w.ref(i)], read.Exists[w.ref(i)] = true, true
	}
	return read
}

func (w *world) sweep() {
	read := w.read(nil)
	for i := range read.Decisions {
		d := &read.Decisions[i]
		name := remediator.Name(d.Finding.Owner, d.Finding.Fingerprint)
		if !remediator.Acting(d) || w.records[name] != nil {
			continue
		}
		r := &v1alpha1.Remediation{Spec: remediator.Spec(d, remediator.Subject{})}
		r.Namespace, r.Name = "prod", name
		w.records[name] = r
	}
	for _, r := range w.records {
		if !r.Status.Phase.InFlight() {
			w.store(r, remediator.Judge(r, remediator.VerdictOn(r, read), w.now))
		}
	}
}

func (w *world) pick(phases ...v1alpha1.RemediationPhase) *v1alpha1.Remediation {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(w.records)) {
		if slices.Contains(phases, w.records[name].Status.Phase) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return w.records[found[w.rng.IntN(len(found))]]
}

func (w *world) store(r *v1alpha1.Remediation, s v1alpha1.RemediationStatus) {
	from := r.Status.Phase
	if from == v1alpha1.PhaseLatched && s.Phase != from && !remediator.Retried(r) {
		w.fail("%s was latched and is %s", r.Name, s.Phase)
	}
	if from.Ended() && s.Phase.InFlight() {
		w.fail("%s goes from %s to %s at once", r.Name, from, s.Phase)
	}
	if from != s.Phase {
		w.story = append(w.story, fmt.Sprintf("%s %s: %s -> %s (%s)", w.now.Format(time.TimeOnly), r.Name, from, s.Phase, s.Reason))
	}
	r.Status = s
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.story[max(0, len(w.story)-40):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) begin() {
	r := w.pick(v1alpha1.PhasePending)
	if r == nil {
		return
	}
	v := remediator.VerdictOn(r, w.read(nil))
	s := remediator.Judge(r, v, w.now)
	w.store(r, s)
	if s.Phase != v1alpha1.PhasePending || v.Decision == nil || !v.Decision.Executable() {
		return
	}
	s, err := remediator.Begin(r, w.now)
	if err != nil {
		w.fail("%v", err)
	}
	w.store(r, s)
	w.began++
}

func (w *world) act() {
	r := w.pick(v1alpha1.PhaseRunning)
	if r == nil {
		return
	}
	switch w.rng.IntN(5) {
	case 0:
		w.store(r, remediator.Failed(r, &providers.ApplyError{Reason: providers.ReasonProtected, Err: fmt.Errorf("x")}, w.now))
	case 1:
		w.store(r, remediator.Failed(r, &providers.ApplyError{Reason: providers.ReasonRefused, Err: fmt.Errorf("x")}, w.now))
	default:
		w.store(r, remediator.Acted(r, "", w.now))
		if w.rng.IntN(2) == 0 {
			delete(w.drift, r.Spec.Owner.Name+r.Spec.Plan[0].Path)
		}
	}
}

func (w *world) verify() {
	r := w.pick(v1alpha1.PhaseVerifying)
	if r == nil {
		return
	}
	if r.Spec.Action == "patch" {
		w.store(r, remediator.Judge(r, remediator.VerdictOn(r, w.read(r)), w.now))
		return
	}
	g := remediator.Group{Desired: 3, Ready: 2 + w.rng.IntN(2)}
	w.store(r, remediator.ReplacementOf(r, g, w.now, time.Hour))
}

func (w *world) person() {
	r := w.pick(v1alpha1.PhaseLatched, v1alpha1.PhaseFailed, v1alpha1.PhaseAwaitingApproval, v1alpha1.PhaseBlocked, v1alpha1.PhaseCancelled)
	if r == nil {
		return
	}
	switch w.rng.IntN(6) {
	case 0:
		r.Spec.RetriedAt = ptr.To(metav1.NewTime(w.now.Truncate(time.Second)))
	case 1:
		r.Spec.Approved = ptr.To(false)
	case 2:
		r.Spec.Approved = nil
	default:
		r.Spec.Approved = ptr.To(true)
	}
}

func (w *world) check() {
	flying := map[types.UID]string{}
	for _, r := range w.records {
		if r.Status.Phase.InFlight() {
			if other, twice := flying[r.Spec.Owner.UID]; twice {
				w.fail("%s and %s of one owner are in flight", other, r.Name)
			}
			flying[r.Spec.Owner.UID] = r.Name
		}
		if n := remediator.Used(r, r.Status.Attempts, *r.Spec.Attempts, w.now); n > int(r.Spec.Attempts.Max) {
			w.fail("%s was tried %d times, at most %d", r.Name, n, r.Spec.Attempts.Max)
		}
		if r.Status.Phase.Ended() != (r.Status.EndedAt != nil) {
			w.fail("%s is %s and ended at %v", r.Name, r.Status.Phase, r.Status.EndedAt)
		}
	}
	if len(flying) > 2 {
		w.fail("%d in flight, at most 2 by the budget", len(flying))
	}
}

// TestAnySequence: whatever happens in whatever order, an owner has one action
// at a time, attempts are bounded, what is latched stays so until a person
// wants it tried again, and nothing begins but from Pending.
func TestAnySequence(t *testing.T) {
	began, latched := 0, 0
	for seed := range uint64(60) {
		w := newWorld(t, seed)
		for range 250 {
			switch w.rng.IntN(9) {
			case 0, 1:
				w.sweep()
			case 2:
				w.begin()
			case 3:
				w.act()
			case 4:
				w.verify()
			case 5:
				w.person()
			case 6:
				w.now = w.now.Add(time.Duration(w.rng.IntN(90)) * time.Minute)
			default:
				w.drift[w.ref(w.rng.IntN(3)).Name+worldPaths[w.rng.IntN(2)]] = true
			}
			w.check()
		}
		began += w.began
		for _, r := range w.records {
			if r.Status.Phase == v1alpha1.PhaseLatched {
				latched++
			}
		}
	}
	if began < 200 || latched < 20 {
		t.Errorf("%d attempts began and %d records latched: the sequences test little", began, latched)
	}
}
