package faults

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/management"
)

var every = flag.Bool("faults.every", false, "run the long halves of the matrices: kill the program after every write on every path")

// TestCrashesOnTheGround kills the real program right after each of its writes
// on each path, on grounds where upstream's reconcilers go on meanwhile, and
// starts it again. Each time everything comes to the same end, once.
//
// A whole run enumerates the writes of a path by what they say. Then the program
// is killed after each of them, wherever it comes among the others: those that
// show something come in any order.
func TestCrashesOnTheGround(t *testing.T) {
	for _, s := range stages() {
		t.Run(s.name, func(t *testing.T) {
			if s.long && !*every {
				t.Skip("runs with -faults.every (make faults); reconcilers/remediation enumerates these paths against a real API server")
			}
			t.Parallel()
			ctx := t.Context()
			g := management.Start(t)
			c, f := s.set(ctx, t, g)
			c.WaitReady(ctx)
			if s.prepare != nil {
				s.prepare(ctx, t, g, c)
			}
			for _, p := range s.paths {
				t.Run(p.name, func(t *testing.T) { (&crashes{t: t, g: g, c: c, f: f, path: p}).run(ctx) })
			}
		})
	}
}

// point is a write of a path: the nth that says so.
type point struct {
	write
	nth int
}

func (p point) String() string {
	if p.nth == 1 {
		return p.what
	}
	return fmt.Sprintf("%s (%d)", p.what, p.nth)
}

// killer kills a daemon at a point: the write is made, and nobody learns of it.
type killer struct {
	d  *daemon
	at point

	mu     sync.Mutex
	counts map[string]int
	seen   []point
}

func (k *killer) on(w write) {
	k.mu.Lock()
	if k.counts == nil {
		k.counts = map[string]int{}
	}
	k.counts[w.what]++
	p := point{w, k.counts[w.what]}
	k.seen = append(k.seen, p)
	k.mu.Unlock()
	if p == k.at {
		k.d.kill()
	}
}

func (k *killer) points() []point {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.seen)
}

// crashes goes down one path again and again. Who converges is the next victim.
type crashes struct {
	t    *testing.T
	g    *management.Ground
	c    *management.Cluster
	f    *front
	path path

	d        *daemon
	known    []point
	todo     []point
	misses   map[point]int
	restarts int
}

// tries is how often a point is waited for in vain: which waits a record tells
// of, and what is shown in between, depends on who is faster.
func (p point) tries() int {
	if p.shows {
		return 2
	}
	return 4
}

func (x *crashes) start() {
	x.t.Helper()
	x.d = run(x.t, x.g, x.f, x.path.policy, "--leader-elect=false")
}

func (x *crashes) run(ctx context.Context) {
	x.t.Helper()
	begun := time.Now()
	x.misses = map[point]int{}
	placeOf(x.g, x.c).forget(ctx, x.t)
	x.start()
	x.once(ctx, point{}) // a whole run
	for len(x.todo) > 0 {
		at := x.todo[0]
		x.todo = x.todo[1:]
		x.once(ctx, at)
		if x.t.Failed() {
			x.t.Fatalf("killed after %s", at)
		}
	}
	x.d.kill()
	var missed []string
	for p, n := range x.misses {
		if n < p.tries() {
			continue
		}
		missed = append(missed, p.String())
		if p.cloud {
			x.t.Errorf("it was never killed after %s", p)
		}
	}
	slices.Sort(missed)
	for _, w := range x.path.writes {
		if !slices.ContainsFunc(x.known, func(p point) bool { return strings.HasPrefix(p.what, w) }) {
			x.t.Errorf("no write %q: the path does not do what it is to: %v", w, x.known)
		}
	}
	x.t.Logf("%d writes enumerated, %d restarts, %s; seen once and not again: %q", len(x.known), x.restarts, time.Since(begun).Round(time.Second), missed)
}

// once goes down the path and is killed at a point, if it is reached.
func (x *crashes) once(ctx context.Context, at point) {
	t, p := x.t, x.path
	t.Helper()
	x.c.WaitReady(ctx)
	placeOf(x.g, x.c).forget(ctx, t)
	before := x.c.Workers(ctx, "general")
	m := before[0]
	x.f.about(m.Name)
	p.reset(x.g)
	p.drift(ctx, t, x.g, x.c, m)
	k := &killer{d: x.d, at: at}
	x.f.watch(k.on, nil)
	placeOf(x.g, x.c).sweepNow(ctx, t)
	done := func() error { return p.done(ctx, t, x.g, x.c, m) }
	placeOf(x.g, x.c).eventually(t, fmt.Sprintf("dead after %q, or done", at), func() error {
		if x.d.dead() {
			return nil
		}
		if err := done(); err != nil {
			return err
		}
		return x.settled()
	})
	x.f.watch(nil, nil)
	killed := x.d.dead()
	if killed {
		x.restarts++
		x.start()
		placeOf(x.g, x.c).eventually(t, fmt.Sprintf("done after a restart, killed after %s", at), done)
		t.Logf("killed after %s, and done", at)
	}
	p.check(ctx, t, x.g, x.c, m, before)
	tidy(ctx, t, x.g, x.c)
	if !killed {
		x.enumerate(k.points())
		if at.nth > 0 {
			if x.misses[at]++; x.misses[at] < at.tries() {
				x.todo = append(x.todo, at)
			}
		}
	}
}

// settled says that the program may still write.
func (x *crashes) settled() error {
	if !x.f.quiet(1500 * time.Millisecond) {
		return fmt.Errorf("it still writes")
	}
	return nil
}

// enumerate adds what is not known yet of a run that was not killed. What shows
// something counts once, however often it comes.
func (x *crashes) enumerate(seen []point) {
	for _, p := range seen {
		if (!p.shows || *every && p.nth == 1) && !slices.Contains(x.known, p) {
			x.known, x.todo = append(x.known, p), append(x.todo, p)
		}
	}
}

// tidy expects that nothing is left of a repair but its record.
func tidy(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	if rs := placeOf(g, c).records(ctx, t); len(rs) != 1 || rs[0].Status.AttemptCount != 1 {
		t.Errorf("records: %+v", rs)
	}
	for _, m := range c.Machines(ctx) {
		for _, key := range []string{clusterv1.RemediateMachineAnnotation, clusterv1.DeleteMachineAnnotation} {
			if _, left := m.Annotations[key]; left {
				t.Errorf("%s still has %s", m.Name, key)
			}
		}
		if name := m.Status.NodeRef.Name; c.Nodes(ctx)[name].Spec.Unschedulable {
			t.Errorf("node %s is still cordoned", name)
		}
	}
	for _, d := range c.Deployments(ctx) {
		for key := range d.Annotations {
			if strings.HasPrefix(key, "drift.holdfast.io/") {
				t.Errorf("%s still has %s", d.Name, key)
			}
		}
	}
}
