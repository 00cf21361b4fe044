package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

var every = flag.Bool("faults.every", false, "kill the program after every write on every path, not only after those that matter most")

// killer kills a daemon when it makes its n-th write of those that count: the
// write is made, and nobody learns of it.
func killer(d *daemon, n int, counts func(write) bool) (on func(write), last func() string) {
	var seen atomic.Int64
	var what atomic.Value
	return func(w write) {
			if counts(w) && int(seen.Add(1)) == n {
				what.Store(w.what)
				d.kill()
			}
		}, func() string {
			s, _ := what.Load().(string)
			return s
		}
}

// most are the writes enumerated on each path: every one to a cloud, a record, a
// Machine or a MachineDeployment; and with faults.every also those that show
// something, which nothing that acts reads. Those come in any order, and would
// hide some of the others.
func most(w write) bool {
	acts := w.cloud
	for _, kind := range []string{"/remediations", "/machines/", "/machinedeployments/"} {
		acts = acts || strings.Contains(w.what, kind)
	}
	return *every || acts && !w.condition
}

// TestCrashesOnTheGround kills the real program right after each of its writes,
// on the ground where upstream's reconcilers go on meanwhile, and starts it
// again. Each time everything comes to the same end, once.
func TestCrashesOnTheGround(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 3})
	c.WaitReady(ctx)
	f := newFront(t, g)
	t.Run("patch", func(t *testing.T) { crashes(ctx, t, g, c, f, patchPath) })
	if !*every {
		t.Skip("the ways of replacement run with -faults.every (make faults); reconcilers/remediation enumerates them against a real API server")
	}
	t.Run("replace by the MachineDeployment", func(t *testing.T) { crashes(ctx, t, g, c, f, replacePath("")) })
	healthCheck(ctx, t, g, c)
	t.Run("replace by a MachineHealthCheck", func(t *testing.T) { crashes(ctx, t, g, c, f, replacePath("")) })
	t.Run("replace by a surge", func(t *testing.T) { crashes(ctx, t, g, c, f, replacePath(", replace: {strategy: surge}")) })
}

func healthCheck(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	deployment := c.Deployments(ctx)[0].Name
	h := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "workers"}}
	h.Spec.ClusterName = c.Name
	h.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: deployment}
	long := int32(3600)
	h.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", TimeoutSeconds: &long}}
	if err := g.Client.Create(ctx, h); err != nil {
		t.Fatal(err)
	}
}

// path is drift, and what it is to come to.
type path struct {
	policy string
	// cloud is the write to the cloud that is on it, if one is.
	cloud string
	drift func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine)
	// done says what is missing yet; check what must not have been.
	done  func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) error
	check func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine, before []*clusterv1.Machine)
}

var patchPath = path{
	policy: strings.Replace(policy, "STRATEGY", "", 1),
	cloud:  "CreateTags",
	drift: func(ctx context.Context, t *testing.T, g *management.Ground, _ *management.Cluster, m *clusterv1.Machine) {
		t.Helper()
		if err := g.AWS().Tag(ctx, management.Instance(m), "Pool", ""); err != nil {
			t.Fatal(err)
		}
	},
	done: repaired,
	check: func(_ context.Context, t *testing.T, g *management.Ground, _ *management.Cluster, _ *clusterv1.Machine, _ []*clusterv1.Machine) {
		t.Helper()
		if n := len(g.AWS().Mutations()); n != 1 {
			t.Errorf("%d changes to the cloud, not one", n)
		}
	},
}

func replacePath(strategy string) path {
	return path{
		policy: strings.Replace(policy, "STRATEGY", strategy, 1),
		drift: func(ctx context.Context, t *testing.T, _ *management.Ground, c *management.Cluster, m *clusterv1.Machine) {
			t.Helper()
			c.Terminate(ctx, m)
		},
		done: func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) error {
			t.Helper()
			if slices.ContainsFunc(c.Workers(ctx, "general"), func(o *clusterv1.Machine) bool { return o.UID == m.UID }) {
				return errors.New("the old machine is there")
			}
			return repaired(ctx, t, g, c, m)
		},
		check: func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine, before []*clusterv1.Machine) {
			t.Helper()
			c.WaitReady(ctx)
			now, stayed := c.Workers(ctx, "general"), 0
			for _, o := range now {
				if slices.ContainsFunc(before, func(b *clusterv1.Machine) bool { return b.UID == o.UID && b.UID != m.UID }) {
					stayed++
				}
			}
			if len(now) != len(before) || stayed != len(before)-1 {
				t.Errorf("%d machines, %d of them as before; %d before", len(now), stayed, len(before))
			}
			if n := len(g.AWS().Mutations()); n != 0 {
				t.Errorf("%d changes to the cloud: machines are replaced through Cluster API", n)
			}
			instances, err := g.AWS().Server.InstanceStates(awsScope(g))
			if err != nil {
				t.Fatal(err)
			}
			running := 0
			for _, s := range instances {
				if s == "running" {
					running++
				}
			}
			if want := len(c.Machines(ctx)); running != want {
				t.Errorf("%d instances run for %d machines", running, want)
			}
		},
	}
}

// crashes goes down a path again and again, killed after one write more each
// time, until it is not killed on it any more. Who converges is the next victim.
func crashes(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, f *front, p path) {
	t.Helper()
	forget(ctx, t, g)
	d := run(t, g, f, p.policy, "--leader-elect=false")
	killed := map[string]bool{}
	first := 1
	if p.cloud != "" {
		first = 0 // after the write to the cloud, wherever it comes among the others
	}
	for n := first; ; n++ {
		c.WaitReady(ctx)
		forget(ctx, t, g)
		f.taken()
		g.AWS().Server.ResetCalls()
		before := c.Workers(ctx, "general")
		m := before[0]
		on, last := killer(d, n, most)
		if n == 0 {
			on, last = killer(d, 1, func(w write) bool { return w.cloud })
		}
		f.watch(on, nil)
		p.drift(ctx, t, g, c, m)
		sweepNow(ctx, t, g, c)
		c.Eventually(ctx, fmt.Sprintf("dead after write %d, or done", n), func(ctx context.Context) error {
			if d.dead() {
				return nil
			}
			return p.done(ctx, t, g, c, m)
		})
		f.watch(nil, nil)
		if !d.dead() {
			p.check(ctx, t, g, c, m, before)
			t.Logf("%d writes on the path: %v", n-1, f.taken())
			d.kill()
			if p.cloud != "" && !killed[p.cloud] {
				t.Errorf("it was not killed after %s: %v", p.cloud, killed)
			}
			if n < 5 {
				t.Errorf("only %d writes: the path does not do what it is to", n-1)
			}
			return
		}
		t.Logf("killed after write %d: %s", n, last())
		killed[last()] = true
		d = run(t, g, f, p.policy, "--leader-elect=false")
		c.Eventually(ctx, "done after a restart", func(ctx context.Context) error { return p.done(ctx, t, g, c, m) })
		p.check(ctx, t, g, c, m, before)
		if t.Failed() {
			t.Fatalf("after write %d, %s", n, last())
		}
	}
}

func awsScope(g *management.Ground) ec2sim.Scope {
	return ec2sim.Scope{Account: g.AWS().Daemon.Account, Region: management.Region}
}
