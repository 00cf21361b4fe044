package scale

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/running"
)

// What other controllers call for the same machines and period, measured on
// their own code. CAPA 2.13 reconciles an AWSMachine three times in a sync
// period with four EC2 calls each; CAPV 1.16 makes nine round trips for each
// virtual machine in a resync.
const (
	capaCallsPerMachine = 12
	capvCallsPerMachine = 9
)

// perInstance are the actions whose answers hold machines, or what each machine
// has one or more of, at most a thousand to a page: their calls grow with the
// number of machines. All others answer with what a cluster or a region has
// once.
var perInstance = []string{"ec2:DescribeInstances", "ec2:DescribeInstanceStatus", "ec2:DescribeVolumes", "ec2:DescribeNetworkInterfaces"}

// page is the most that EC2 gives in one answer (MaxResults).
const page = 1000

// steady is what ten sweeps in a row cost while nothing drifts.
type steady struct {
	machines, clusters, sweeps int
	reads, mutations           map[string]int // of the cloud
	seen, writes               map[string]int // at the API server
	items                      map[string]int // what there is to describe, by action
	perThousand, constant      float64        // calls a sweep
	cpu                        time.Duration  // of one sweep
	peak                       float64        // MiB
}

func measureSteady(t testing.TB, clusters int, each int32) *steady {
	t.Helper()
	const sweeps = 10
	w := newWorld(t, nil)
	policy := &driftv1.DriftPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	policy.Spec.Mode = "observe"
	if err := w.client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for i := range clusters {
		w.build(t, fmt.Sprintf("c-%02d", i), each)
	}
	t.Logf("%d clusters of %d machines were made in %s", clusters, each, time.Since(begun).Round(time.Second))
	d := running.Start(t, running.Options{Kubeconfig: w.api.Kubeconfig, Environ: w.environ(), Policy: quiet(0, "enforce")})
	w.inSync(t)
	w.sweep(t, d, 1) // what the start has left to write is written
	w.settle(t)

	s := &steady{machines: clusters * int(each), clusters: clusters, sweeps: sweeps}
	first := 0
	for _, n := range w.api.Writes() {
		first += n
	}
	if first < s.machines {
		t.Fatalf("the API server was written to %d times for %d machines that had no condition: they are not counted", first, s.machines)
	}
	w.api.Reset()
	w.sim.ResetCalls()
	cpu := running.CPU(t, d.PID())
	for i := range sweeps {
		w.sweep(t, d, 2+i)
	}
	s.cpu = (running.CPU(t, d.PID()) - cpu) / sweeps
	s.peak = running.PeakResident(t, d.PID())
	s.reads, s.mutations = w.calls()
	s.seen, s.writes = w.api.Seen(), w.api.Writes()
	s.items = w.items(t)
	for action, n := range s.reads {
		if slices.Contains(perInstance, action) {
			s.perThousand += float64(n) / sweeps / float64(s.machines) * 1000
		} else {
			s.constant += float64(n) / sweeps
		}
	}
	w.inSync(t)
	return s
}

// items counts what answers of [perInstance] hold.
func (w *world) items(t testing.TB) map[string]int {
	t.Helper()
	c := ec2.NewFromConfig(w.sim.ConfigFor(w.operator, w.region))
	out := map[string]int{}
	instances := ec2.NewDescribeInstancesPaginator(c, &ec2.DescribeInstancesInput{})
	for instances.HasMorePages() {
		answer, err := instances.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range answer.Reservations {
			out["ec2:DescribeInstances"] += len(r.Instances)
		}
	}
	out["ec2:DescribeInstanceStatus"] = out["ec2:DescribeInstances"]
	volumes := ec2.NewDescribeVolumesPaginator(c, &ec2.DescribeVolumesInput{})
	for volumes.HasMorePages() {
		answer, err := volumes.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out["ec2:DescribeVolumes"] += len(answer.Volumes)
	}
	interfaces := ec2.NewDescribeNetworkInterfacesPaginator(c, &ec2.DescribeNetworkInterfacesInput{})
	for interfaces.HasMorePages() {
		answer, err := interfaces.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out["ec2:DescribeNetworkInterfaces"] += len(answer.NetworkInterfaces)
	}
	return out
}

// settle waits until nothing has been written for a while.
func (w *plane) settle(t testing.TB) {
	t.Helper()
	before := ""
	running.Eventually(t, time.Minute, "at rest", func() error {
		now := text(w.api.Writes())
		same := now == before
		before = now
		if !same {
			time.Sleep(2 * time.Second)
			return fmt.Errorf("it wrote %s", now)
		}
		return nil
	})
}

// inSync waits until every Machine is said to be in order.
func (w *plane) inSync(t testing.TB) {
	t.Helper()
	running.Eventually(t, 5*time.Minute, "in order everywhere", func() error {
		list := &clusterv1.MachineList{}
		if err := w.client.List(t.Context(), list); err != nil {
			return err
		}
		for i := range list.Items {
			c := meta.FindStatusCondition(list.Items[i].Status.Conditions, driftv1.ConditionDriftDetected)
			if c == nil || c.Status != metav1.ConditionFalse {
				return fmt.Errorf("machine %s has %+v", list.Items[i].Name, c)
			}
		}
		return nil
	})
}

func (s *steady) check(t testing.TB) {
	t.Helper()
	if len(s.writes) > 0 {
		t.Errorf("the API server was written to: %s", text(s.writes))
	}
	if len(s.mutations) > 0 {
		t.Errorf("the cloud was written to: %s", text(s.mutations))
	}
	// Four calls for a thousand: one each for the machines, their states, their
	// volumes and their interfaces, and one more where there are more than a
	// thousand of those.
	for _, action := range perInstance {
		want := (s.items[action] + page - 1) / page
		if have := s.reads[action]; have > want*s.sweeps {
			t.Errorf("%d calls of %s in %d sweeps, want %d in each for %d items", have, action, s.sweeps, want, s.items[action])
		}
	}
	for action, n := range s.reads {
		name := action[strings.IndexByte(action, ':')+1:]
		if !strings.HasPrefix(name, "Describe") && !strings.HasPrefix(name, "Get") && !strings.HasPrefix(name, "List") {
			t.Errorf("%d calls of %s", n, action)
		}
	}
	// An action that is not known to grow may not grow unseen.
	if most := float64(s.machines) / 10; s.constant > most {
		t.Errorf("%.0f calls a sweep for what clusters have once, which is more than 1 for 10 machines: %s", s.constant, text(s.reads))
	}
}

// A thousand machines that nothing happens to: nothing is written anywhere in
// ten sweeps, and few calls are made.
func TestSteadyState(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand machines take a minute to make")
	}
	s := measureSteady(t, 10, 100)
	t.Logf("cloud, ten sweeps: %s", text(s.reads))
	t.Logf("API server, ten sweeps: %s", text(s.seen))
	t.Logf("there are %s", text(s.items))
	t.Logf("a sweep takes %s of processor time, and %.0f MiB at most", s.cpu, s.peak)
	t.Logf("%.1f calls per 1,000 instances and sweep, and %.1f for the scope", s.perThousand, s.constant)
	s.check(t)
}

// BenchmarkSteadyState prints what a sweep calls, beside what the providers' own
// controllers call for the same machines in one of their periods.
func BenchmarkSteadyState(b *testing.B) {
	const clusters = 10
	machines := 1000
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_BENCH_MACHINES")); err == nil {
		machines = n // ten thousand take ten minutes to make
	}
	var s *steady
	for b.Loop() {
		s = measureSteady(b, clusters, int32(machines/clusters))
	}
	s.check(b)
	total := s.perThousand*float64(s.machines)/1000 + s.constant
	apiReads := 0
	for key, n := range s.seen {
		if strings.HasPrefix(key, "GET ") {
			apiReads += n
		}
	}
	b.ReportMetric(s.perThousand, "calls/1000-instances")
	b.ReportMetric(s.constant, "calls/scope")
	b.ReportMetric(float64(capaCallsPerMachine*s.machines)/total, "CAPA-calls/call")
	b.ReportMetric(float64(capvCallsPerMachine*s.machines)/total, "CAPV-calls/call")
	b.ReportMetric(float64(apiReads)/float64(s.sweeps), "api-reads/sweep")
	b.ReportMetric(float64(len(s.writes)), "api-writes")
	b.ReportMetric(s.cpu.Seconds(), "cpu-s/sweep")
	b.ReportMetric(s.cpu.Seconds()/(15*60), "cores-at-15m")
	b.ReportMetric(s.peak, "peak-MiB")
}
