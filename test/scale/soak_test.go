package scale

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/running"
	"github.com/holdfast-io/holdfast/test/sqssim"
)

var soakTime = flag.Duration("soak", 75*time.Second, "how long TestSoak goes on; make soak sets it")

// sample is what the program weighs at a moment.
type sample struct {
	at                         time.Time
	goroutines, heap, resident float64 // MiB
}

// soak is a daemon to which things happen.
type soak struct {
	*world
	t                                *testing.T
	d                                *running.Daemon
	queues                           *sqssim.Server
	tampered, storms, sweeps, visits atomic.Int64
	n                                atomic.Int64
	samples                          []sample
}

// TestSoak lets people tamper with a daemon that repairs, clusters come and go,
// policies change and storms of events arrive, all at many times the usual
// speed; and expects it to weigh no more at the end than early on, and to keep
// nothing of what is gone.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two minutes")
	}
	s := newSoak(t)
	ctx, cancel := context.WithTimeout(t.Context(), *soakTime)
	defer cancel()
	var group sync.WaitGroup
	every := func(pause time.Duration, do func()) {
		group.Go(func() {
			for ctx.Err() == nil {
				do()
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	every(time.Second, s.tamper)
	every(7*time.Second, s.storm)
	every(5*time.Second, s.change)
	every(4*time.Second, s.visit)
	every(time.Second, s.sample)
	group.Wait()
	t.Logf("in %s: %d tags changed, %d storms of events, %d changes of policy, %d visits of a cluster, %d records",
		*soakTime, s.tampered.Load(), s.storms.Load(), s.sweeps.Load(), s.visits.Load(), len(s.records()))
	if least := int64(*soakTime / (20 * time.Second)); s.tampered.Load() < least {
		t.Errorf("%d tags changed, want %d at least: what is not repaired is let alone, and little happens", s.tampered.Load(), least)
	}
	s.flat()
	s.leftNothing()
}

const visitor = "visitor"

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{t: t, queues: sqssim.New(sqssim.Options{})}
	t.Cleanup(s.queues.Close)
	s.queues.Create(queueName, time.Hour)
	var ready atomic.Bool
	s.world = newWorldWith(t, planeOptions{collector: true}, func(e ec2sim.Event) {
		if ready.Load() {
			s.queues.Send(queueName, e.Body)
		}
	})
	for i := range 3 {
		s.build(t, fmt.Sprintf("c-%02d", i), 10)
	}
	s.build(t, visitor, 8)
	s.uninstall()
	ready.Store(true)
	environ := s.environ()
	environ["AWS_ENDPOINT_URL_SQS"] = s.queues.URL()
	s.d = running.Start(t, running.Options{Kubeconfig: s.api.Kubeconfig, Environ: environ, Policy: quiet(0, "enforce"),
		Args: []string{"--aws-event-queue", queueName, "--verify-after", "1s", "--poll-interval", "1s", "--remediations-keep", "5"}})
	s.inSync(t)
	return s
}

// tamper takes a tag off a worker, which the daemon puts back. Whose repair is
// still being verified is let alone: that somebody else is at it makes the daemon
// wait, with growing pauses, for longer than this test goes on.
func (s *soak) tamper() {
	m, id := s.machine(rand.IntN(3), rand.IntN(5))
	for _, r := range s.records() {
		if r.Spec.Machine != nil && r.Spec.Machine.Name == m.Name && r.Status.Phase != driftv1.PhaseSucceeded {
			return
		}
	}
	s.retag(s.t, id, "Pool", "")
	s.tampered.Add(1)
}

// storm repeats an event that says something a thousand times.
func (s *soak) storm() {
	_, id := s.machine(rand.IntN(3), rand.IntN(5))
	body := fmt.Sprintf(`{"version":"0","id":"storm","detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":%q,"time":%q,"region":%q,"resources":[],"detail":{"instance-id":%q,"state":"running"}}`,
		s.daemon.Account, time.Now().UTC().Format(time.RFC3339), s.region, id)
	s.queues.Send(queueName, slices.Repeat([]string{body}, 1000)...)
	s.storms.Add(1)
}

// change has everything read again.
func (s *soak) change() {
	s.d.SetPolicy(s.t, quiet(int(s.n.Add(1)), "enforce"))
	s.sweeps.Add(1)
}

// visit has a cluster's objects come, with new UIDs each time, and go while it
// is being looked at. Its machines in the cloud stay.
func (s *soak) visit() {
	e := s.envs[len(s.envs)-1]
	if err := running.Install(s.t.Context(), s.client, e.Objects()); err != nil {
		s.t.Error(err)
	}
	_, id := s.machine(len(s.envs)-1, 0)
	s.retag(s.t, id, "Pool", "")
	time.Sleep(3 * time.Second)
	s.uninstall()
	s.retag(s.t, id, "Pool", "general")
	s.visits.Add(1)
}

// uninstall deletes the visitor's objects, what owns before what is owned; the
// garbage collector would do the same.
func (s *soak) uninstall() {
	strip := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, o := range s.envs[len(s.envs)-1].Objects() {
		if o.GetNamespace() == "" {
			continue
		}
		o = o.DeepCopyObject().(client.Object)
		for _, err := range []error{s.client.Patch(s.t.Context(), o, strip), s.client.Delete(s.t.Context(), o)} {
			if client.IgnoreNotFound(err) != nil {
				s.t.Error(err)
			}
		}
	}
}

func (s *soak) sample() {
	series := s.d.Series(s.t)
	s.samples = append(s.samples, sample{at: time.Now(), goroutines: series["go_goroutines"],
		heap: series["go_memstats_heap_alloc_bytes"] / (1 << 20), resident: running.Resident(s.t, s.d.PID())})
}

// Bounds of the growth from the second quarter to the last: noise of a garbage
// collector and of requests under way. What grows with each of thousands of
// events outgrows them.
const (
	mostGrowth     = 1.25
	mostMoreMiB    = 8
	mostGoroutines = 15
)

// flat compares the last quarter of the time with the second. The first fills
// caches. The least of the heap in each is nearest to what is in use.
func (s *soak) flat() {
	s.t.Helper()
	quarter := len(s.samples) / 4
	if quarter < 5 {
		s.t.Fatalf("only %d samples", len(s.samples))
	}
	early, late := s.samples[quarter:2*quarter], s.samples[3*quarter:]
	least := func(of []sample, what func(sample) float64) float64 {
		out := what(of[0])
		for _, x := range of {
			out = min(out, what(x))
		}
		return out
	}
	heap := func(x sample) float64 { return x.heap }
	resident := func(x sample) float64 { return x.resident }
	goroutines := func(x sample) float64 { return x.goroutines }
	s.t.Logf("from the second quarter to the last: heap %.1f to %.1f MiB, resident %.0f to %.0f MiB, goroutines %.0f to %.0f",
		least(early, heap), least(late, heap), least(early, resident), least(late, resident), least(early, goroutines), least(late, goroutines))
	if was, is := least(early, heap), least(late, heap); is > was*mostGrowth+mostMoreMiB {
		s.t.Errorf("the heap grew from %.1f to %.1f MiB", was, is)
	}
	if was, is := least(early, resident), least(late, resident); is > was*mostGrowth+mostMoreMiB {
		s.t.Errorf("the memory grew from %.0f to %.0f MiB", was, is)
	}
	if was, is := least(early, goroutines), least(late, goroutines); is > was+mostGoroutines {
		s.t.Errorf("goroutines grew from %.0f to %.0f", was, is)
	}
}

func (s *soak) records() []driftv1.Remediation {
	list := &driftv1.RemediationList{}
	if err := s.client.List(s.t.Context(), list); err != nil {
		s.t.Error(err)
	}
	return list.Items
}

// leftNothing waits until all is repaired, and looks for what is left of what
// is gone.
func (s *soak) leftNothing() {
	s.t.Helper()
	running.Eventually(s.t, 3*time.Minute, "repaired", func() error {
		list := &clusterv1.MachineList{}
		if err := s.client.List(s.t.Context(), list); err != nil {
			return err
		}
		if n := len(list.Items); n != 30 {
			return fmt.Errorf("there are %d machines", n)
		}
		states, err := s.drifting()
		if err == nil && states != "" {
			err = fmt.Errorf("still drifting: %s", states)
		}
		return err
	})
	s.inSync(s.t)
	running.Eventually(s.t, time.Minute, "rid of what is gone", func() error {
		for series := range s.d.Series(s.t) {
			if strings.Contains(series, fmt.Sprintf("cluster_name=%q", visitor)) {
				return fmt.Errorf("the series %s is there still", series)
			}
		}
		perCluster := map[string]int{}
		for _, r := range s.records() {
			perCluster[r.Spec.ClusterName]++
			if r.Spec.ClusterName == visitor {
				return fmt.Errorf("the record %s (%s) is there still", r.Name, r.Status.Phase)
			}
		}
		for name, n := range perCluster {
			if n > 5+2 { // what ends this moment is counted with the next
				return fmt.Errorf("%s has %d records", name, n)
			}
		}
		return nil
	})
}

// drifting names the machines that lack their tag in the cloud.
func (s *soak) drifting() (string, error) {
	var out []string
	list := &clusterv1.MachineList{}
	if err := s.client.List(s.t.Context(), list); err != nil {
		return "", err
	}
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == driftv1.ConditionDriftDetected && c.Status != "False" {
				out = append(out, list.Items[i].Name+": "+c.Message)
			}
		}
	}
	return strings.Join(out, "; "), nil
}
