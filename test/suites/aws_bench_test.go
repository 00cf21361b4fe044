package suites

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/ptr"
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
	dir      string
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
	f.dir = b.TempDir()
	fail(f.env.Write(f.dir))
	set, err := inventory.FromFiles(kinds, []string{f.dir}, nil)
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

// BenchmarkAWSSweep is a whole sweep of ten thousand machines, in a process of
// its own. Beside it, in the same run, a plain reader asks for some of the
// machines one by one, with the four calls that CAPA makes for each; the ratio
// is what a machine costs there to what it costs here. On loopback a call has
// no latency, which favours the plain reader.
func BenchmarkAWSSweep(b *testing.B) {
	const machines, plain = 10_000, 250
	f := newFleet(b, machines)
	program := filepath.Join(b.TempDir(), "sweepcost")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "../sweepcost").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	f.sim.ResetCalls()
	var cost struct{ Seconds, CPUSeconds, BeforeMiB, PeakMiB, CompareAndDecideSeconds float64 }
	sweeps := 0
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), program, f.dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(out, &cost); err != nil {
			b.Fatal(err)
		}
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
	perMachine := f.plainRead(b, plain).Seconds() / plain
	b.ReportMetric(float64(pages), "instance-pages")
	b.ReportMetric(float64(calls/sweeps)/(machines/1000), "calls/1000-machines")
	b.ReportMetric(cost.BeforeMiB, "before-MiB")
	b.ReportMetric(cost.PeakMiB, "peak-MiB")
	b.ReportMetric(cost.Seconds, "sweep-s")
	b.ReportMetric(cost.CPUSeconds, "sweep-cpu-s")
	b.ReportMetric(cost.CompareAndDecideSeconds, "compare+decide-s")
	b.ReportMetric(perMachine/(cost.Seconds/machines), "times-cheaper-than-per-machine")
}

// plainRead asks for machines one by one, as CAPA's controller does.
func (f *fleet) plainRead(b *testing.B, n int) time.Duration {
	b.Helper()
	start := time.Now()
	for _, m := range f.env.AWSMachines[:n] {
		ids := []string{*m.Spec.InstanceID}
		_, err1 := f.env.EC2.DescribeInstances(b.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids})
		_, err2 := f.env.EC2.DescribeVpcs(b.Context(), &ec2.DescribeVpcsInput{VpcIds: []string{f.env.AWSCluster.Spec.NetworkSpec.VPC.ID}})
		_, err3 := f.env.EC2.DescribeNetworkInterfaces(b.Context(), &ec2.DescribeNetworkInterfacesInput{
			Filters: []types.Filter{{Name: ptr.To("attachment.instance-id"), Values: ids}}})
		_, err4 := f.env.EC2.DescribeVolumes(b.Context(), &ec2.DescribeVolumesInput{
			Filters: []types.Filter{{Name: ptr.To("attachment.instance-id"), Values: ids}}})
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
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
			r.Fields.Set("/instanceType", providers.Field{Value: providers.String("t3.nano")})
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
