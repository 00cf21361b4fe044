package policies

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
)

// gateCases is how many random inputs TestGatesProperty decides on; `make
// gates` takes a million.
var gateCases = flag.Int("gates.cases", 500, "random inputs of the property test of the gates")

// dstZones are six zones whose clocks change by different amounts, in both
// hemispheres.
var dstZones = []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Australia/Sydney", "America/Santiago", "Pacific/Auckland"}

// changesOf gives the instants of a year at which a zone's clocks change.
func changesOf(zone *time.Location) []time.Time {
	var out []time.Time
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for end := at.AddDate(1, 0, 0); at.Before(end); at = at.Add(30 * time.Minute) {
		_, before := at.Add(-30 * time.Minute).In(zone).Zone()
		if _, after := at.In(zone).Zone(); before != after {
			out = append(out, at)
		}
	}
	return out
}

// randomWindow is one in a zone whose clocks change that night.
type randomWindow struct {
	kind         v1alpha1.WindowKind
	zone         *time.Location
	hour, minute int
	duration     time.Duration
}

func (w *randomWindow) yaml() string {
	return fmt.Sprintf("{kind: %s, cron: \"%d %d * * *\", duration: %s, timeZone: %s}", w.kind, w.minute, w.hour, w.duration, w.zone)
}

// openAt tells by brute force, minute by minute, whether the window is open:
// it opens when its zone's clock first shows its time on a day, or where that
// time is skipped, at the first instant after the gap.
func (w *randomWindow) openAt(t time.Time) bool {
	for at := t.Truncate(time.Minute); t.Sub(at) < w.duration; at = at.Add(-time.Minute) {
		if w.opensAt(at) {
			return true
		}
	}
	return false
}

func (w *randomWindow) opensAt(at time.Time) bool {
	wall := func(t time.Time) int { return t.In(w.zone).Hour()*60 + t.In(w.zone).Minute() }
	mine := w.hour*60 + w.minute
	_, before := at.Add(-time.Minute).In(w.zone).Zone()
	if _, after := at.In(w.zone).Zone(); after > before { // a gap ends here
		last := (wall(at.Add(-time.Minute)) + 1) % (24 * 60)
		if gap := (after - before) / 60; (mine-last+24*60)%(24*60) < gap {
			return true
		}
	}
	if wall(at) != mine {
		return false
	}
	// A time that shows twice counts at its first showing.
	for earlier := at.Add(-time.Minute); at.Sub(earlier) <= 2*time.Hour; earlier = earlier.Add(-time.Minute) {
		if wall(earlier) == mine && earlier.In(w.zone).Day() == at.In(w.zone).Day() {
			return false
		}
	}
	return true
}

// TestGatesProperty decides on random inputs on nights on which clocks change,
// under random windows: what may be executed keeps every budget and the control
// plane, is within its windows, is approved where it must be, does not pass an
// open breaker, and whatever is not known holds it back.
func TestGatesProperty(t *testing.T) {
	var nights []time.Time
	zones := map[string]*time.Location{}
	for _, name := range dstZones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones[name] = zone
		changes := changesOf(zone)
		if len(changes) != 2 {
			t.Fatalf("the clocks of %s change %d times", name, len(changes))
		}
		nights = append(nights, changes...)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	executed, windowed := 0, 0
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wg.Go(func() {
			done, held := 0, 0
			for n := worker; n < *gateCases && !t.Failed(); n += workers {
				a, b := gateCase(t, uint64(n), nights, zones)
				done, held = done+a, held+b
			}
			mu.Lock()
			executed, windowed = executed+done, windowed+held
			mu.Unlock()
		})
	}
	wg.Wait()
	if executed < *gateCases/4 || windowed < *gateCases/8 {
		t.Errorf("of %d inputs %d decisions could be executed, and windows held back %d: they test little", *gateCases, executed, windowed)
	}
}

func gateCase(t *testing.T, seed uint64, nights []time.Time, zones map[string]*time.Location) (executed, windowed int) {
	rng := rand.New(rand.NewPCG(seed, 23))
	in := randomInput(t, rng, false)
	windows := randomWindows(rng, zones)
	approval := rng.IntN(3) == 0
	in.Policies = propertyPolicy(t, rng, windows, approval)
	at := nights[rng.IntN(len(nights))].Add(time.Duration(rng.IntN(10*60)-5*60) * time.Minute)
	moveTo(&in, at)
	var chosen []Decision
	for _, d := range Decide(in) {
		if slices.ContainsFunc(d.Blocked, func(b Block) bool { return b.By == GateWindow }) {
			windowed++
		}
		if !d.Executable() {
			continue
		}
		chosen = append(chosen, d)
		h := in.History[HistoryKey(d.Finding.Owner, d.Finding.Fingerprint)]
		switch {
		case approval && h.ApprovedBy == "":
			t.Errorf("seed %d: executable without approval: %s", seed, d.Finding.Owner)
		case !in.Clusters[d.Finding.Cluster].Breaker.False():
			t.Errorf("seed %d: executable past an open breaker", seed)
		case !allowedBy(windows, at):
			t.Errorf("seed %d: executable at %s outside the windows", seed, at)
		}
	}
	for ref, facts := range in.Clusters {
		checkChosen(t, seed, &in, ref, facts, chosen)
	}
	if len(chosen) > 0 {
		failsClosed(t, seed, in, &chosen[rng.IntN(len(chosen))], rng.IntN(len(removals)))
	}
	return len(chosen), windowed
}

func randomWindows(rng *rand.Rand, zones map[string]*time.Location) []randomWindow {
	out := make([]randomWindow, rng.IntN(3))
	for i := range out {
		out[i] = randomWindow{kind: []v1alpha1.WindowKind{v1alpha1.WindowAllow, v1alpha1.WindowDeny}[rng.IntN(2)],
			zone: zones[dstZones[rng.IntN(len(dstZones))]], hour: rng.IntN(24), minute: []int{0, 15, 30, 45, 59}[rng.IntN(5)],
			duration: time.Duration(1+rng.IntN(8)) * time.Hour}
	}
	return out
}

func allowedBy(windows []randomWindow, at time.Time) bool {
	allows, allowed := false, false
	for i := range windows {
		open := windows[i].openAt(at)
		if windows[i].kind == v1alpha1.WindowDeny && open {
			return false
		}
		if windows[i].kind == v1alpha1.WindowAllow {
			allows, allowed = true, allowed || open
		}
	}
	return !allows || allowed
}

// propertyPolicy is a policy with the windows. It is not kept: there are as
// many as cases.
func propertyPolicy(t *testing.T, rng *rand.Rand, windows []randomWindow, approval bool) *Set {
	text := "spec:\n  mode: enforce\n  safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: " + []string{"0%", "50%", "2"}[rng.IntN(3)] + ", controlPlane: enforce}\n" +
		fmt.Sprintf("  budgets: [{scope: pool, max: %d}, {scope: cluster, max: %d%%}, {scope: all, max: %d}]\n", 1+rng.IntN(3), 10+rng.IntN(40), 1+rng.IntN(5)) +
		"  rules: [{id: all, target: {provider: aws}, action: " + []string{"replace", "patch, disruptive: allowed"}[rng.IntN(2)]
	if approval {
		text += ", approval: required"
	}
	text += "}]\n"
	if len(windows) > 0 {
		text += "  windows:\n"
		for i := range windows {
			text += "  - " + windows[i].yaml() + "\n"
		}
	}
	set, problems := LoadSources(Options{Catalog: testCatalog}, Source{Name: "p.yaml", Data: []byte(head + text)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return set
}

// moveTo moves an input's times from testNow to another.
func moveTo(in *Input, at time.Time) {
	by := at.Sub(in.Now)
	in.Now = at
	for i := range in.Findings {
		in.Findings[i].SeenAt = in.Findings[i].SeenAt.Add(by)
	}
	for f, h := range in.History {
		h.FirstSeen = h.FirstSeen.Add(by)
		in.History[f] = h
	}
}

// removals take one thing that a decision rests on out of an input.
var removals = []struct {
	name string
	take func(*Input, *Decision)
}{
	{"owner", func(in *Input, d *Decision) { delete(in.Owners, d.Finding.Owner) }},
	{"cluster", func(in *Input, d *Decision) { delete(in.Clusters, d.Finding.Cluster) }},
	{"in flight", func(in *Input, _ *Decision) { in.InFlight = nil }},
	{"history", func(in *Input, _ *Decision) { in.History = nil }},
	{"seen at", func(in *Input, d *Decision) {
		for i := range in.Findings {
			if in.Findings[i].Owner == d.Finding.Owner {
				in.Findings[i].SeenAt = time.Time{}
			}
		}
	}},
	{"owners", cluster2(func(c *ClusterFacts) { c.Owners = 0 })},
	{"machines", cluster2(func(c *ClusterFacts) { c.Machines = 0 })},
	{"zones", cluster2(func(c *ClusterFacts) { c.Zones = nil })},
	{"breaker", cluster2(func(c *ClusterFacts) { c.Breaker = Fact{} })},
	{"paused", owner2(func(o *OwnerFacts) { o.Paused = Fact{} })},
	{"deleting", owner2(func(o *OwnerFacts) { o.Deleting = Fact{} })},
	{"moving", owner2(func(o *OwnerFacts) { o.Moving = Fact{} })},
	{"managed", owner2(func(o *OwnerFacts) { o.ExternallyManaged = Fact{} })},
	{"rollout", owner2(func(o *OwnerFacts) { o.Rollout = Fact{} })},
	{"old revision", owner2(func(o *OwnerFacts) { o.OldRevision = Fact{} })},
	{"skip", owner2(func(o *OwnerFacts) { o.SkipRemediation = Fact{} })},
	{"ambiguous", owner2(func(o *OwnerFacts) { o.Ambiguous = Fact{} })},
}

func cluster2(take func(*ClusterFacts)) func(*Input, *Decision) {
	return func(in *Input, d *Decision) {
		c := in.Clusters[d.Finding.Cluster]
		take(&c)
		in.Clusters[d.Finding.Cluster] = c
	}
}

func owner2(take func(*OwnerFacts)) func(*Input, *Decision) {
	return func(in *Input, d *Decision) {
		o := in.Owners[d.Finding.Owner]
		take(&o)
		in.Owners[d.Finding.Owner] = o
	}
}

// failsClosed takes one thing away, after which the decision must not be
// executable.
func failsClosed(t *testing.T, seed uint64, in Input, d *Decision, removal int) {
	in.Findings = slices.Clone(in.Findings)
	r := removals[removal]
	r.take(&in, d)
	for _, again := range Decide(in) {
		if again.Finding.Owner == d.Finding.Owner && again.Finding.Resource == d.Finding.Resource && again.Executable() &&
			(again.Finding.Status == detector.Drifted || again.Finding.Status == detector.Missing) {
			t.Errorf("seed %d: executable without %s: %s", seed, r.name, d.Finding.Owner)
		}
	}
}
