package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
	"github.com/holdfast-io/holdfast/reconcilers/remediation"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/remediator"
)

var (
	seeds   = flag.Int("faults.seeds", 500, "how many seeds of the stale-view matrix run")
	oneSeed = flag.Int("faults.seed", -1, "the one seed of the stale-view matrix that runs, and tells its story")
)

const clusterKind, machineKind, infraKind, recordKind = "Cluster", "Machine", "AWSMachine", "Remediation"

// profile is one way in which a process sees less than there is.
type profile struct {
	lag         map[string]int // by kind; "" is every other
	lossy, fail float64
	restarts    bool
}

// profiles: everything else is live in each, and the world goes on between any
// two reads and writes in all of them.
var profiles = map[string]profile{
	"reads are live":        {restarts: true},
	"machines are behind":   {lag: map[string]int{machineKind: 30, infraKind: 30, "MachineSet": 20, "MachineDeployment": 20, "MachineHealthCheck": 20}, restarts: true},
	"records are behind":    {lag: map[string]int{recordKind: 25}},
	"everything is behind":  {lag: map[string]int{"": 20}},
	"lists lack objects":    {lossy: 0.3, restarts: true},
	"reads and writes fail": {fail: 0.03, lag: map[string]int{machineKind: 15, infraKind: 15}, restarts: true},
}

var strategies = []string{"auto", "delete", "surge"}

// process is one life of what decides and acts.
type process struct {
	*world
	v          *view
	store      *remediation.Store
	daemon     *sweep.Daemon
	controller *remediation.Controller
	oracle     *oracle
	outcomes   []*sweep.Outcome
}

func (p *process) live() {
	p.store = &remediation.Store{Client: p.v, Reader: p.v, Namespace: ns, Now: p.clock.Now}
	load := &inventory.Live{Kinds: p.kinds, Reader: p.v, Mapper: p.v.RESTMapper(), Namespaces: []string{ns}, AtOnce: 1}
	p.daemon = &sweep.Daemon{
		Providers: map[string]providers.Provider{fake.Name: p.cloud}, Load: load.Load,
		Policies: func() *policies.Set { return p.set }, Records: p.store, Clock: p.clock, StartSpread: -1,
	}
	objects := remediator.Objects{Reader: p.v, Mapper: p.v.RESTMapper()}
	p.controller = &remediation.Controller{
		Store: p.store, Daemon: p.daemon, Appliers: map[string]providers.Applier{fake.Name: p},
		Replacer: &remediator.Replacer{Objects: objects, Client: p.v}, Drainer: &remediator.Drainer{Objects: objects, Client: p.v},
	}
	p.outcomes = nil
}

// Apply is the only way to the cloud.
func (p *process) Apply(ctx context.Context, scope providers.Scope, change providers.Change) error {
	p.v.between()
	p.oracle.applied(&change)
	if err := p.cloud.Apply(ctx, scope, change); err != nil {
		return err
	}
	if p.rand.Float64() < p.v.fail {
		return errReader // time-out after success
	}
	return nil
}

// result is what one seed came to.
type result struct {
	name  string
	acts  map[string]int
	wrong []string
	story []string
	left  int
}

// runSeed plays one life of a cluster, three hundred seconds to half an hour of it.
func runSeed(seed int) result {
	names := make([]string, 0, len(profiles))
	for name := range profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[seed%len(names)]
	strategy := strategies[seed/len(names)%len(strategies)]
	r := rand.New(rand.NewPCG(uint64(seed), 7))
	w := newStaleWorld(r, strategy)
	prof := profiles[name]
	p := &process{world: w}
	p.v = &view{store: w.store, rand: r, lossy: prof.lossy, fail: prof.fail}
	p.v.lag = func(kind schema.GroupKind) int {
		if n, ok := prof.lag[kind.Kind]; ok {
			return n
		}
		return prof.lag[""]
	}
	p.oracle = newOracle(p)
	quiet := false
	p.v.between = func() {
		if !quiet && r.IntN(60) == 0 {
			w.people(p.oracle)
		}
	}
	p.v.wrote = p.oracle.wrote
	p.live()
	rounds := 30
	for round := range rounds {
		if round == rounds*3/4 { // from here on everything is as it seems
			quiet = true
			p.v.lossy, p.v.fail, prof = 0, 0, profile{}
			w.resume()
		}
		if !quiet && r.IntN(3) == 0 {
			w.people(p.oracle)
		}
		if ms := w.machines(); round%8 == 0 && len(ms) > 0 { // always something to do
			w.tamper(p.oracle, ms[r.IntN(len(ms))].Name, []string{"/tags/team", "/keyName", "/keyName"}[r.IntN(3)], "other")
		}
		if prof.restarts && r.IntN(15) == 0 {
			w.log("process: starts anew")
			p.live()
		}
		p.round(round)
	}
	out := result{name: fmt.Sprintf("%s, strategy %s", name, strategy), acts: p.oracle.acts, wrong: p.oracle.wrong, story: w.story}
	for _, m := range w.machines() {
		if w.drifts(m.Name, "") {
			out.left++
		}
	}
	return out
}

func (p *process) round(round int) {
	ctx := context.Background()
	p.step()
	if round%2 == 0 {
		for _, m := range infras(p.world) {
			if !p.drifts(m.Name, "") && p.rand.IntN(6) > 0 {
				continue // the well ones are read seldom, to be quick
			}
			p.oracle.begin("")
			if o, err := p.daemon.Fresh(ctx, clusterRef(), ownerOf(m)); err == nil {
				p.outcomes = append(p.outcomes, o)
			}
		}
	}
	// Outcomes arrive late and in any order.
	p.rand.Shuffle(len(p.outcomes), func(i, j int) { p.outcomes[i], p.outcomes[j] = p.outcomes[j], p.outcomes[i] })
	for len(p.outcomes) > 0 && p.rand.IntN(4) > 0 {
		o := p.outcomes[0]
		p.outcomes = p.outcomes[1:]
		p.oracle.begin("")
		_ = p.store.Consume(ctx, o) // told again by the next
	}
	for _, r := range records(p.world) {
		p.oracle.begin(r.Name)
		_, err := p.controller.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: ns, Name: r.Name}})
		if err != nil && !errors.Is(err, errReader) {
			p.log("process: %s: %v", r.Name, err)
		}
	}
	p.clock.Step(20 * time.Second)
}

// TestStaleViews: whatever a process is shown late, in part or not at all, it
// does nothing to an object that is another one by now, nothing that was not
// right at any instant of the step in which it was done, no more at a time than
// the budget says, and nothing twice.
func TestStaleViews(t *testing.T) {
	if *oneSeed >= 0 {
		r := runSeed(*oneSeed)
		t.Logf("%s: %v, %d left\n%s", r.name, r.acts, r.left, strings.Join(r.story, "\n"))
		for _, s := range r.wrong {
			t.Error(s)
		}
		return
	}
	const chunk = 25
	var mu sync.Mutex
	acts, kinds, left := map[string]int{}, map[string]int{}, 0
	t.Run("seeds", func(t *testing.T) {
		for from := 0; from < *seeds; from += chunk {
			t.Run(fmt.Sprint(from), func(t *testing.T) {
				t.Parallel()
				for seed := from; seed < min(from+chunk, *seeds); seed++ {
					r := runSeed(seed)
					mu.Lock()
					for kind, n := range r.acts {
						acts[r.name] += n
						kinds[kind] += n
					}
					left += r.left
					mu.Unlock()
					for _, s := range r.wrong {
						t.Errorf("seed %d (%s): %s\n(-faults.seed=%d tells the story)", seed, r.name, s, seed)
					}
				}
			})
		}
	})
	total := 0
	for name, n := range acts {
		total += n
		if n == 0 && *seeds >= 200 {
			t.Errorf("%s: nothing was done at all, which shows nothing", name)
		}
	}
	t.Logf("%d seeds, %d acts %v, %d machines still drift at the end", *seeds, total, kinds, left)
	if total < *seeds {
		t.Errorf("%d acts in %d seeds: the matrix shows too little", total, *seeds)
	}
}

// people change one thing.
func (w *world) people(o *oracle) {
	ms := w.machines()
	if len(ms) == 0 {
		return
	}
	m := ms[w.rand.IntN(len(ms))]
	switch w.rand.IntN(14) {
	case 0:
		c := &clusterv1.Cluster{}
		c.Name = "eu"
		w.edit(c, func() {
			paused := c.Spec.Paused == nil || !*c.Spec.Paused
			c.Spec.Paused = &paused
			w.log("people: paused=%v", paused)
		})
	case 1, 2, 3:
		w.tamper(o, m.Name, "/tags/team", "red")
	case 4, 5, 6:
		w.tamper(o, m.Name, "/keyName", "other")
	case 7:
		w.tamper(o, m.Name, "/tags/team", "blue")
		w.tamper(o, m.Name, "/keyName", "k")
	case 8:
		w.log("people: terminate %s", m.Name)
		w.cloud.Remove(idOf(m.Name))
		o.tampered(m.Name, true)
	case 9:
		w.log("people: delete %s", m.Name)
		must(w.store.remove(m))
	case 10:
		w.anew(o, m)
	case 11:
		w.infraAnew(m)
	case 12:
		w.healthCheck()
	case 13:
		w.edit(m, func() { m.Annotations = merged(m.Annotations, "people", fmt.Sprint(w.rand.IntN(1000))) })
	}
}

func merged(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

func (w *world) tamper(o *oracle, machine, path, value string) {
	if w.cloud.Alter(idOf(machine), func(r *providers.Resource) {
		f := r.Fields.Get(path)
		f.Value = providers.String(value)
		r.Set(path, f)
	}) {
		w.log("people: %s%s=%s", machine, path, value)
		o.tampered(machine, w.drifts(machine, ""))
	}
}

// resume ends what would hold everything up.
func (w *world) resume() {
	c := &clusterv1.Cluster{}
	c.Name = "eu"
	w.edit(c, func() { c.Spec.Paused = nil })
}

// healthCheck makes one, or takes it away.
func (w *world) healthCheck() {
	for _, h := range all[clusterv1.MachineHealthCheck](w) {
		must(w.store.remove(h))
		return
	}
	h := &clusterv1.MachineHealthCheck{ObjectMeta: w.meta("h", nil), Spec: clusterv1.MachineHealthCheckSpec{ClusterName: "eu"}}
	h.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: "a"}
	w.create(h)
}
