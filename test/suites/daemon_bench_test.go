package suites

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/holdfast-io/holdfast/test/objectserver"
)

// Limits of the daemon at ten thousand machines.
const (
	maxDaemonMB    = 300
	maxDaemonCores = 0.1
	// between are the seconds of the built-in schedule.
	between = 15 * 60
)

// BenchmarkDaemon is the daemon over ten thousand machines, in a process of its
// own: objects listed over HTTP with managed fields, ec2sim as the cloud.
func BenchmarkDaemon(b *testing.B) {
	machines := 10_000
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_BENCH_MACHINES")); err == nil {
		machines = n // for a first look
	}
	f := newFleet(b, int32(machines))
	objects, err := objectserver.New(f.env.Objects())
	if err != nil {
		b.Fatal(err)
	}
	f.sim.ResetCalls()
	server := httptest.NewServer(objects)
	b.Cleanup(server.Close)
	program := filepath.Join(b.TempDir(), "daemoncost")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "../daemoncost").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	var cost struct {
		Machines, Decisions                                                              int
		SweepCPUSeconds, SweepSeconds, TargetCPUSeconds, TargetSeconds, IdleMiB, PeakMiB float64
	}
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), program, server.URL)
		cmd.Stderr = os.Stderr
		// What docs/daemon.md advises for a container of 300 MB: the runtime
		// collects harder near it, and there is processor to spare.
		cmd.Env = append(os.Environ(), "GOMEMLIMIT=228MiB")
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(out, &cost); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("%+v", cost) // metrics of a failed benchmark are not printed
	if cost.Machines != machines {
		b.Errorf("%d machines were compared, want %d", cost.Machines, machines)
	}
	if n := len(f.sim.Mutations()); n > 0 {
		b.Errorf("the daemon made %d changing calls", n)
	}
	if n := objects.Writes.Load(); n > 0 {
		b.Errorf("the daemon wrote to the API server %d times", n)
	}
	if peak := cost.PeakMiB * (1 << 20) / 1e6; peak > maxDaemonMB {
		b.Errorf("%.0f MB resident, want at most %d", peak, maxDaemonMB)
	}
	if cores := cost.SweepCPUSeconds / between; cores > maxDaemonCores {
		b.Errorf("%.3f cores at the built-in schedule, want at most %.1f", cores, maxDaemonCores)
	}
	b.ReportMetric(cost.SweepCPUSeconds, "sweep-cpu-s")
	b.ReportMetric(cost.SweepSeconds, "sweep-s")
	b.ReportMetric(cost.SweepCPUSeconds/between, "cores-at-15m")
	b.ReportMetric(cost.TargetCPUSeconds, "targeted-cpu-s")
	b.ReportMetric(cost.TargetSeconds, "targeted-s")
	b.ReportMetric(cost.PeakMiB, "peak-MiB")
	b.ReportMetric(cost.IdleMiB, "idle-MiB")
}
