package suites

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	awsprovider "github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// fleet is one cluster of many machines on ec2sim, with its objects loaded.
type fleet struct {
	sim      *ec2sim.Server
	env      *awscluster.Environment
	inv      *inventory.Inventory
	provider providers.Provider
}

// newFleet makes a cluster of n machines. It takes a while, and no benchmark
// counts it.
func newFleet(b *testing.B, n int32) *fleet {
	b.Helper()
	fail := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	manifest, err := awscluster.Load(awsexamples.Files, awscluster.DefaultExample)
	fail(err)
	region := manifest.AWSCluster.Spec.Region
	f := &fleet{sim: ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}})}
	b.Cleanup(f.sim.Close)
	others := int32(3) // the control plane
	for _, d := range manifest.Deployments[1:] {
		others += *d.Spec.Replicas
	}
	image, err := f.sim.AddImage(f.sim.DefaultScope(region), ec2sim.Image{Name: "node"})
	fail(err)
	f.env, err = awscluster.Build(b.Context(), awscluster.ClientsFrom(f.sim.Config(region)), awscluster.Options{
		Manifest: manifest, Workers: map[string]int32{manifest.Deployments[0].Name: n - others}, Poll: time.Millisecond, Simulator: f.sim, Image: image,
	})
	fail(err)
	credential := f.sim.Credentials()[0]
	b.Setenv("AWS_ENDPOINT_URL", f.sim.URL())
	b.Setenv("AWS_ACCESS_KEY_ID", credential.AccessKeyID)
	b.Setenv("AWS_SECRET_ACCESS_KEY", credential.SecretAccessKey)
	b.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	registration := awsprovider.Registration()
	kinds, err := inventory.NewKinds(registration)
	fail(err)
	dir := b.TempDir()
	fail(f.env.Write(dir))
	set, err := inventory.FromFiles(kinds, []string{dir}, nil)
	fail(err)
	f.inv, err = inventory.Group(kinds, set, inventory.Selection{})
	fail(err)
	f.provider, err = registration.New(set.Reader(kinds, client.Reader(nil)))
	fail(err)
	return f
}

func (f *fleet) sweep(b *testing.B, p providers.Provider) *sweep.Result {
	b.Helper()
	s := &sweep.Sweeper{Providers: map[string]providers.Provider{"aws": p}, Policies: policies.Builtin(), Now: time.Now}
	r, err := s.Run(b.Context(), f.inv)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkAWSSweep is a whole sweep of ten thousand machines. Beside it, in
// the same run, a plain reader asks for a few of the machines one by one; the
// ratio is what a machine costs there to what it costs here.
func BenchmarkAWSSweep(b *testing.B) {
	const machines, plain = 10_000, 300
	f := newFleet(b, machines)
	f.sim.ResetCalls()
	var took time.Duration
	var peak uint64
	sweeps := 0
	for b.Loop() {
		start := time.Now()
		peak = max(peak, peakHeap(func() { f.sweep(b, f.provider) }))
		took += time.Since(start)
		sweeps++
	}
	counts, calls := f.sim.CallCounts(), 0
	for _, n := range counts {
		calls += n
	}
	pages := counts["ec2:DescribeInstances"] / sweeps
	if pages > machines/1000 {
		b.Errorf("%d pages of DescribeInstances for %d machines", pages, machines)
	}
	if n := len(f.sim.Mutations()); n > 0 {
		b.Errorf("a sweep made %d changing calls", n)
	}
	perMachine := f.plainRead(b, plain) / plain
	b.ReportMetric(float64(pages), "instance-pages")
	b.ReportMetric(float64(calls/sweeps)/(machines/1000), "calls/1000-machines")
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	b.ReportMetric(float64(perMachine)/(float64(took)/float64(sweeps)/machines), "times-cheaper-than-per-machine")
}

// plainRead asks for machines one by one, as the providers' own controllers do.
func (f *fleet) plainRead(b *testing.B, n int) time.Duration {
	b.Helper()
	start := time.Now()
	for _, m := range f.env.AWSMachines[:n] {
		if _, err := f.env.EC2.DescribeInstances(b.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{*m.Spec.InstanceID}}); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

// peakHeap runs f and gives how much the heap grew at most. The simulator's
// own garbage counts too, so that the truth is lower.
func peakHeap(f func()) uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapInuse
	var peak atomic.Uint64
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse))
			}
		}
	}()
	f()
	close(done)
	<-stopped
	if p := peak.Load(); p > before {
		return p - before
	}
	return 0
}

// seen is a provider that has read its cloud already.
type seen struct {
	providers.Provider
	scope providers.Scope
	snap  *providers.Snapshot
}

func (s *seen) Scope(context.Context, *providers.Owner) (providers.Scope, error) { return s.scope, nil }

func (s *seen) Observe(context.Context, providers.Scope) (*providers.Snapshot, error) {
	return s.snap, nil
}

// BenchmarkAWSCompareAndDecide is a sweep without the reading: wanted state,
// comparison and decisions of ten thousand machines, in sync and with a tenth
// of them drifted.
func BenchmarkAWSCompareAndDecide(b *testing.B) {
	const machines = 10_000
	f := newFleet(b, machines)
	first := f.sweep(b, f.provider)
	snap := first.Readings[0].Snapshot
	p := &seen{Provider: f.provider, scope: first.Readings[0].Scope, snap: snap}
	b.Run("in sync", func(b *testing.B) {
		for b.Loop() {
			if r := f.sweep(b, p); len(r.Decisions) > 0 {
				b.Fatalf("%d decisions", len(r.Decisions))
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/machines/1e3, "µs/machine")
	})
	drifted := *snap
	drifted.Resources = make(map[providers.ID]*providers.Resource, len(snap.Resources))
	n := 0
	for id, r := range snap.Resources {
		if n++; id.Kind == providers.KindInstance && n%10 == 0 {
			r = r.Clone()
			r.Fields["/instanceType"] = providers.Field{Value: providers.String("t3.nano")}
		}
		drifted.Resources[id] = r
	}
	p.snap = &drifted
	b.Run("a tenth drifted", func(b *testing.B) {
		for b.Loop() {
			if r := f.sweep(b, p); len(r.Decisions) == 0 {
				b.Fatal("no decisions")
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(b.N)/machines/1e3, "µs/machine")
	})
}
