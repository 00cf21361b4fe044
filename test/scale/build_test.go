package scale

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/running"
)

// built is what it costs to have clusters made that are all asked for at once.
type built struct {
	clusters, machines int
	took               time.Duration
	// calls are the daemon's to the cloud, by service and action; throttled are
	// those of them that were refused for their number.
	calls, throttled map[string]int
	// twice are instances that nobody needed.
	twice int
	cpu   time.Duration
	peak  float64 // MiB
}

// measureBuild has clusters made of one control plane machine and workers, on a
// cloud that counts requests as EC2 and Elastic Load Balancing say that they do.
func measureBuild(t testing.TB, clusters, each int) *built {
	t.Helper()
	ctx := t.Context()
	g := management.Start(t, management.Boots())
	cloud := g.StartAWS(ec2sim.Options{Throttle: true})
	address, folder := g.Webhooks()
	environ := map[string]string{}
	for _, v := range g.Variables() {
		name, value, _ := strings.Cut(v, "=")
		environ[name] = value
	}
	d := running.Start(t, running.Options{Kubeconfig: g.Kubeconfig, Environ: environ, Policy: quiet(0, "observe"), Args: []string{
		"--reconcilers", "core,kubeadm,aws", "--webhook-bind-address", address, "--webhook-cert-dir", folder,
	}})
	begun := time.Now()
	for i := range clusters {
		g.AWSCluster(ctx, management.AWS{Name: fmt.Sprintf("c-%02d", i), ControlPlanes: 1, Workers: int32(each - 1)})
	}
	b := &built{clusters: clusters, machines: clusters * each, calls: map[string]int{}, throttled: map[string]int{}}
	said := time.Time{}
	running.Eventually(t, time.Hour, "all of them are ready", func() error {
		err := allReady(t, g, b.machines)
		if err != nil && time.Since(said) > 30*time.Second {
			said = time.Now()
			t.Logf("after %s: %v", time.Since(begun).Round(time.Second), err)
		}
		return err
	})
	b.took = time.Since(begun)
	b.cpu, b.peak = running.CPU(t, d.PID()), running.PeakResident(t, d.PID())
	for _, c := range cloud.Calls() {
		b.calls[c.Service+":"+c.Action]++
		if c.Code == "RequestLimitExceeded" || c.Code == "Throttling" {
			b.throttled[c.Service+":"+c.Action]++
		}
	}
	b.twice = twice(t, cloud)
	return b
}

// twice counts the instances that their AWSMachine has more than one of, whether
// they run or have ended.
func twice(t testing.TB, cloud *management.AWSCloud) (n int) {
	t.Helper()
	owners := map[string]bool{}
	pages := ec2.NewDescribeInstancesPaginator(cloud.Clients(cloud.Operator).EC2, &ec2.DescribeInstancesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				owner := ""
				for _, tag := range i.Tags {
					if *tag.Key == "drift.holdfast.io/owner-uid" {
						owner = *tag.Value
					}
				}
				if owner == "" || owners[owner] {
					n++
				}
				owners[owner] = true
			}
		}
	}
	return n
}

// allReady tells which of so many Machines are not running yet.
func allReady(t testing.TB, g *management.Ground, want int) error {
	t.Helper()
	list := &clusterv1.MachineList{}
	if err := g.Client.List(t.Context(), list, client.InNamespace(g.Namespace)); err != nil {
		return err
	}
	phases := map[string]int{}
	for i := range list.Items {
		phases[list.Items[i].Status.Phase]++
	}
	if phases[string(clusterv1.MachinePhaseRunning)] == want {
		return nil
	}
	return fmt.Errorf("of %d machines there are %s", want, text(phases))
}

// atLeast is the time that the buckets of EC2 and Elastic Load Balancing take to
// let through what has been written, and the action that decides it. What was refused
// took no token, and what was read need not have been.
func (b *built) atLeast() (time.Duration, string) {
	counts := map[string]int{}
	for action, n := range b.calls {
		if !strings.Contains(action, ":Describe") {
			counts[ec2sim.Bucket(action)] += n - b.throttled[action]
		}
	}
	longest, which := time.Duration(0), ""
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		burst, refill := ec2sim.Rate(name)
		if refill == 0 {
			continue
		}
		if d := time.Duration((float64(counts[name]) - burst) / refill * float64(time.Second)); d > longest {
			longest, which = d, name
		}
	}
	return longest, which
}

// share is that of the calls that were refused for their number, of those that are
// counted at all.
func (b *built) share() float64 {
	all, refused := 0, 0
	for action, n := range b.calls {
		if ec2sim.Bucket(action) != "" {
			all += n
		}
	}
	for _, n := range b.throttled {
		refused += n
	}
	return float64(refused) / float64(all)
}

// BenchmarkBuild has a hundred clusters of ten machines made at once, in one
// account and region.
func BenchmarkBuild(b *testing.B) {
	clusters, each := 100, 10
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_BENCH_CLUSTERS")); err == nil {
		clusters = n
	}
	var r *built
	for b.Loop() {
		r = measureBuild(b, clusters, each)
	}
	least, which := r.atLeast()
	b.Logf("calls: %s", text(r.calls))
	b.Logf("throttled: %s", text(r.throttled))
	b.Logf("%s for %d machines; the buckets take %s, by %s", r.took.Round(time.Second), r.machines, least.Round(time.Second), which)
	if r.twice > 0 {
		b.Errorf("%d instances were made twice", r.twice)
	}
	b.ReportMetric(r.took.Seconds()/least.Seconds(), "time/least")
	b.ReportMetric(100*r.share(), "%throttled")
	b.ReportMetric(float64(r.twice), "made-twice")
	b.ReportMetric(r.peak, "peak-MiB")
	b.ReportMetric(r.cpu.Seconds()/r.took.Seconds(), "cores")
}
