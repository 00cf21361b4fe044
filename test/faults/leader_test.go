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
	"github.com/holdfast-io/holdfast/test/management"
)

// pause is how long a leader stands still: twice as long as its lease lasts.
const pause = 30 * time.Second

// TestPausedLeader stops the leader, with the lease that is the default, at the
// worst moments: right after an attempt is stored as begun, and right after it
// has acted. Another replica takes over and ends what was begun; the first, when
// it goes on, does nothing.
func TestPausedLeader(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 1})
	c.WaitReady(ctx)
	on := awsField(ctx, t, g, c)
	t.Run("before it acts", func(t *testing.T) {
		pausedLeader(ctx, t, g, on, func(w write) bool {
			return strings.HasPrefix(w.what, "PUT remediations") && slices.ContainsFunc(on.records(ctx, t), func(r v1alpha1.Remediation) bool {
				return r.Status.Phase == v1alpha1.PhaseRunning
			})
		})
	})
	t.Run("after it acted", func(t *testing.T) {
		if !*every {
			t.Skip("runs with -faults.every (make faults)")
		}
		pausedLeader(ctx, t, g, on, func(w write) bool { return w.cloud })
	})
}

func pausedLeader(ctx context.Context, t *testing.T, g *management.Ground, on *field, at func(write) bool) {
	t.Helper()
	on.forget(ctx, t)
	on.reset()
	m := on.victim()
	first := run(t, g, on.front, patchPath.policy)
	var stopped atomic.Bool
	on.front.watch(nil, func(w write) {
		if at(w) && stopped.CompareAndSwap(false, true) {
			_ = first.cmd.Process.Signal(syscall.SIGSTOP)
		}
	})
	defer on.front.watch(nil, nil)
	on.drift(m)
	on.eventually(t, "swept by a leader", func() error {
		if !stopped.Load() && on.front.settled() {
			on.sweepNow(ctx, t)
		}
		if !stopped.Load() {
			return fmt.Errorf("the leader has not come to the point; records: %d", len(on.records(ctx, t)))
		}
		return nil
	})
	began := time.Now()
	second := run(t, g, on.front, patchPath.policy)
	on.eventually(t, "repaired by the second replica", func() error { return on.repaired(ctx, t, m) })
	t.Logf("repaired by the second replica %s after the first stood still", time.Since(began).Round(time.Second))
	on.notMissing(ctx, t, pause-time.Since(began))
	calls := len(g.AWS().Mutations())
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	on.notMissing(ctx, t, 6*time.Second)
	if n := len(g.AWS().Mutations()); n != calls || n != 1 {
		t.Errorf("%d changes to the cloud, %d of them before the first replica went on; want one", n, calls)
	}
	on.once(t)
	if second.dead() {
		t.Error("the second replica has ended")
	}
	first.kill()
	second.kill()
}

// TestLeaderWithoutAPIServer takes the API server away from a leader for a
// minute, right after an attempt is stored as begun. It gives up, as it cannot
// know who leads; the next one, which Kubernetes starts, ends what was begun.
func TestLeaderWithoutAPIServer(t *testing.T) {
	if !*every {
		t.Skip("runs with -faults.every (make faults)")
	}
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 1})
	c.WaitReady(ctx)
	on := awsField(ctx, t, g, c)
	m := on.victim()
	leader := run(t, g, on.front, patchPath.policy)
	on.eventually(t, "swept by a leader", func() error { return on.inSync(ctx, t) })
	begun := make(chan struct{})
	var once atomic.Bool
	on.front.watch(nil, func(w write) {
		if strings.HasPrefix(w.what, "PUT remediations/status Running") && once.CompareAndSwap(false, true) {
			close(begun)
		}
	})
	on.drift(m)
	on.sweepNow(ctx, t)
	<-begun
	on.front.api.Stop()
	gone := time.Now()
	on.eventually(t, "ended without an API server", func() error {
		if !leader.dead() {
			return fmt.Errorf("it goes on after %s", time.Since(gone))
		}
		return nil
	})
	t.Logf("the leader ended %s after the API server was away", time.Since(gone).Round(time.Second))
	on.notMissing(ctx, t, time.Minute-time.Since(gone))
	must(on.front.api.Start())
	next := run(t, g, on.front, patchPath.policy)
	on.eventually(t, "repaired by the next leader", func() error { return on.repaired(ctx, t, m) })
	on.once(t)
	next.kill()
}
