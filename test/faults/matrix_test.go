package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

// fault is a row of the matrix: what goes wrong on which way, and for how long.
type fault struct {
	name string
	// begin makes it go wrong, until the function that it returns is called.
	begin func(g *management.Ground, f *front) (end func())
	// lasts is how long it goes wrong while the daemon is asked to sweep.
	lasts time.Duration
}

func cloudFault(fs ...ec2sim.Fault) func(*management.Ground, *front) func() {
	return func(g *management.Ground, _ *front) func() {
		var ends []func()
		for _, f := range fs {
			ends = append(ends, g.AWS().Server.InjectFault(f))
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}
}

func failing(code string, status int) ec2sim.Fault {
	return ec2sim.Fault{Service: "ec2", Action: "Describe*", Kind: ec2sim.FaultError, Code: code, Status: status}
}

const aWhile = 4 * time.Second

// faultMatrix: time-outs, throttling, server errors, pages, credentials,
// connections.
func faultMatrix() []fault {
	expired := failing("ExpiredToken", 400)
	expired.From = 3 // in the middle of a sweep
	return []fault{
		{"time-out after success", cloudFault(ec2sim.Fault{Service: "ec2", Action: "CreateTags", Kind: ec2sim.FaultDrop, AfterSuccess: true, Times: 2}), aWhile},
		{"throttling", cloudFault(failing("RequestLimitExceeded", 503)), aWhile},
		{"server errors", cloudFault(failing("InternalError", 500)), aWhile},
		{"empty pages", cloudFault(ec2sim.Fault{Service: "ec2", Kind: ec2sim.FaultEmptyPage, Page: 1}), aWhile},
		{"short pages", cloudFault(ec2sim.Fault{Service: "ec2", Kind: ec2sim.FaultShortPage, Items: 1}), aWhile},
		{"a page's end is lost", cloudFault(ec2sim.Fault{Service: "ec2", Action: "DescribeInstances", Kind: ec2sim.FaultShortPage, Items: 1},
			ec2sim.Fault{Service: "ec2", Action: "DescribeInstances", Page: 2, Kind: ec2sim.FaultMalformed}), aWhile},
		{"cut answers", cloudFault(ec2sim.Fault{Service: "ec2", Action: "Describe*", Kind: ec2sim.FaultMalformed}), aWhile},
		{"credentials expire in a sweep", cloudFault(expired), aWhile},
		{"AWS is away", func(_ *management.Ground, f *front) func() {
			f.aws.Stop()
			return func() { must(f.aws.Start()) }
		}, aWhile},
		{"AWS hangs", func(_ *management.Ground, f *front) func() {
			_, err := f.aws.Toxics.AddToxicJson(strings.NewReader(`{"name":"hang","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`))
			must(err)
			return func() { must(f.aws.Toxics.RemoveToxic(context.Background(), "hang")) }
		}, aWhile},
		{"AWS breaks connections", func(_ *management.Ground, f *front) func() {
			_, err := f.aws.Toxics.AddToxicJson(strings.NewReader(`{"name":"cut","type":"limit_data","stream":"downstream","attributes":{"bytes":900}}`))
			must(err)
			return func() { must(f.aws.Toxics.RemoveToxic(context.Background(), "cut")) }
		}, aWhile},
		{"the API server is away", func(_ *management.Ground, f *front) func() {
			f.api.Stop()
			return func() { must(f.api.Start()) }
		}, 15 * time.Second},
	}
}

// TestFaultMatrix: whatever fails on the way to AWS or to the API server, and
// while a drift waits to be repaired, nothing is called missing, nothing is done
// twice, and two sweeps after the fault has ended the drift is repaired.
func TestFaultMatrix(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2})
	c.WaitReady(ctx)
	f := newFront(t, g)
	run(t, g, f, patchPath.policy, "--leader-elect=false")
	for _, row := range faultMatrix() {
		t.Run(row.name, func(t *testing.T) { faultRow(ctx, t, g, c, f, row) })
	}
}

func faultRow(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, f *front, row fault) {
	t.Helper()
	forget(ctx, t, g)
	g.AWS().Server.ResetCalls()
	m := c.Workers(ctx, "general")[0]
	end := row.begin(g, f)
	ended := false
	defer func() {
		if !ended {
			end()
		}
	}()
	patchPath.drift(ctx, t, g, c, m)
	sweepNow(ctx, t, g, c)
	watchFor(ctx, t, g, c, row.lasts)
	end()
	ended = true
	sweeps := 0
	c.Eventually(ctx, "repaired after "+row.name, func(ctx context.Context) error {
		if said := missing(ctx, t, g, c); len(said) > 0 {
			t.Fatalf("after the fault: %v", said)
		}
		err := repaired(ctx, t, g, c, m)
		if err != nil && sweeps < 2 && settled(g) {
			sweeps++
			sweepNow(ctx, t, g, c)
		}
		return err
	})
	t.Logf("repaired; %d sweeps were asked for", sweeps)
	once(ctx, t, g)
}

// settled: the daemon has asked AWS for nothing for two seconds.
func settled(g *management.Ground) bool {
	calls := g.AWS().Calls()
	return len(calls) == 0 || time.Since(calls[len(calls)-1].Time) > 2*time.Second
}

// watchFor sees for a time that nothing is called missing.
func watchFor(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, d time.Duration) {
	t.Helper()
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if said := missing(ctx, t, g, c); len(said) > 0 {
			t.Fatalf("during the fault: %v", said)
		}
	}
}

// once sees that the tag was set in one attempt. A call whose answer was lost
// may have been sent again: it says the same.
func once(ctx context.Context, t *testing.T, g *management.Ground) {
	t.Helper()
	acts := map[string]int{}
	for _, call := range g.AWS().Mutations() {
		acts[call.Action+" "+call.Digest]++
		if call.Action != "CreateTags" {
			t.Errorf("the daemon called %s", call.Action)
		}
		if call.Fate == "answered" && call.Status < 300 {
			acts["answered"]++
		}
	}
	if acts["answered"] > 1 || len(acts) > 2 {
		t.Errorf("more than one act: %v", acts)
	}
	for _, r := range recordsOf(ctx, t, g) {
		if r.Status.AttemptCount != 1 {
			t.Errorf("%d attempts", r.Status.AttemptCount)
		}
	}
}

// TestPausedLeader stops the leader at the worst moments: right after an attempt
// is stored as begun, and right after it has acted. Another replica takes over
// and ends what was begun; the first, when it goes on, does nothing.
func TestPausedLeader(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 1})
	c.WaitReady(ctx)
	f := newFront(t, g)
	lease := []string{"--leader-election-lease-duration=6s", "--leader-election-renew-deadline=4s", "--leader-election-retry-period=1s"}
	for name, at := range map[string]func(write) bool{
		"before it acts": func(w write) bool {
			return strings.HasPrefix(w.what, "PUT ") && strings.Contains(w.what, "/remediations/") &&
				slices.ContainsFunc(recordsOf(ctx, t, g), func(r v1alpha1.Remediation) bool { return r.Status.Phase == v1alpha1.PhaseRunning })
		},
		"after it acted": func(w write) bool { return w.cloud },
	} {
		t.Run(name, func(t *testing.T) { pausedLeader(ctx, t, g, c, f, at, lease) })
	}
}

func pausedLeader(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, f *front, at func(write) bool, lease []string) {
	t.Helper()
	forget(ctx, t, g)
	g.AWS().Server.ResetCalls()
	m := c.Workers(ctx, "general")[0]
	first := run(t, g, f, patchPath.policy, lease...)
	var stopped atomic.Bool
	f.watch(nil, func(w write) {
		if at(w) && stopped.CompareAndSwap(false, true) {
			_ = first.cmd.Process.Signal(syscall.SIGSTOP)
		}
	})
	defer f.watch(nil, nil)
	patchPath.drift(ctx, t, g, c, m)
	c.Eventually(ctx, "swept by a leader", func(ctx context.Context) error {
		if !stopped.Load() && settled(g) {
			sweepNow(ctx, t, g, c)
		}
		if !stopped.Load() {
			return fmt.Errorf("the leader has not come to the point; records: %d", len(recordsOf(ctx, t, g)))
		}
		return nil
	})
	began := time.Now()
	second := run(t, g, f, patchPath.policy, lease...)
	c.Eventually(ctx, "repaired by the second replica", func(ctx context.Context) error { return repaired(ctx, t, g, c, m) })
	time.Sleep(max(0, 12*time.Second-time.Since(began))) // longer than two leases
	calls := len(g.AWS().Mutations())
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	watchFor(ctx, t, g, c, 6*time.Second)
	if n := len(g.AWS().Mutations()); n != calls || n != 1 {
		t.Errorf("%d changes to the cloud, %d of them before the first replica went on; want one", n, calls)
	}
	once(ctx, t, g)
	if second.dead() {
		t.Error("the second replica has ended")
	}
	first.kill()
	second.kill()
}
