// Command sweepcost runs one AWS sweep over a folder of objects and prints what
// it cost, as JSON. It is a process of its own, so that neither the simulator
// that serves it nor the building of the cluster counts.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// cost is what the sweep took.
type cost struct {
	Machines         int     `json:"machines"`
	Decisions        int     `json:"decisions"`
	Seconds          float64 `json:"seconds"`
	CPUSeconds       float64 `json:"cpuSeconds"`
	BeforeMiB        float64 `json:"beforeMiB"` // resident with the objects loaded
	PeakMiB          float64 `json:"peakMiB"`   // resident at most, during the sweep
	CompareAndDecide float64 `json:"compareAndDecideSeconds"`
}

func main() {
	c, err := run(os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sweepcost:", err)
		os.Exit(1)
	}
}

func run(dir string) (*cost, error) {
	debug.SetGCPercent(20) // as cmd/holdfast does
	registration := aws.Registration()
	kinds, err := inventory.NewKinds(registration)
	if err != nil {
		return nil, err
	}
	set, err := inventory.FromFiles(kinds, []string{dir}, nil)
	if err != nil {
		return nil, err
	}
	inv, err := inventory.Group(kinds, set, inventory.Selection{})
	if err != nil {
		return nil, err
	}
	provider, err := registration.New(set.Reader(kinds, nil))
	if err != nil {
		return nil, err
	}
	out := &cost{Machines: len(inv.Clusters[0].Owners) - 1}
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the peak
		return nil, err
	}
	if out.BeforeMiB, err = residentPeak(); err != nil {
		return nil, err
	}
	start, cpu := time.Now(), cpuTime()
	result, err := (&sweep.Sweeper{
		Providers: map[string]providers.Provider{registration.Name: provider}, Policies: policies.Builtin(), Now: time.Now,
	}).Run(context.Background(), inv)
	if err != nil {
		return nil, err
	}
	out.Seconds, out.CPUSeconds = time.Since(start).Seconds(), (cpuTime() - cpu).Seconds()
	out.Decisions = len(result.Decisions)
	if out.PeakMiB, err = residentPeak(); err != nil {
		return nil, err
	}
	replayed := &seen{Provider: provider, reading: &result.Readings[0]}
	start = time.Now()
	_, err = (&sweep.Sweeper{
		Providers: map[string]providers.Provider{registration.Name: replayed}, Policies: policies.Builtin(), Now: time.Now,
	}).Run(context.Background(), inv)
	out.CompareAndDecide = time.Since(start).Seconds()
	return out, err
}

// seen is a provider that has read its cloud already.
type seen struct {
	providers.Provider
	reading *sweep.Reading
}

func (s *seen) Scope(context.Context, *providers.Owner) (providers.Scope, error) {
	return s.reading.Scope, nil
}

func (s *seen) Observe(context.Context, providers.Scope) (*providers.Snapshot, error) {
	return s.reading.Snapshot, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentPeak is the most memory that was resident since the last reset, in
// MiB (proc(5), VmHWM).
func residentPeak() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmHWM")
}
