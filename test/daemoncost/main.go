// Command daemoncost runs the daemon over an API server and a cloud for some
// sweeps and targeted reads and prints what they cost, as JSON. It is a process
// of its own, so that neither the servers nor the building of the cluster
// counts. The first argument is the API server's URL.
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

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/test/objectserver"
)

// sweeps is how many are run, the first one included, which is none of those
// that count.
const sweeps, reads = 4, 5

// cost is what the daemon took.
type cost struct {
	Machines   int     `json:"machines"`
	Decisions  int     `json:"decisions"`
	SweepCPU   float64 `json:"sweepCPUSeconds"`
	SweepTime  float64 `json:"sweepSeconds"`
	TargetCPU  float64 `json:"targetCPUSeconds"`
	TargetTime float64 `json:"targetSeconds"`
	IdleMiB    float64 `json:"idleMiB"` // resident after the last sweep
	PeakMiB    float64 `json:"peakMiB"` // resident at most
}

func main() {
	c, err := run(os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "daemoncost:", err)
		os.Exit(1)
	}
}

// outcomes hands on what the daemon comes to.
type outcomes chan *sweep.Outcome

func (o outcomes) Consume(ctx context.Context, out *sweep.Outcome) error {
	select {
	case o <- out:
	case <-ctx.Done():
	}
	return nil
}

func run(server string) (*cost, error) {
	debug.SetGCPercent(20) // as cmd/holdfast does
	log.SetLogger(logr.Discard())
	registration := aws.Registration()
	kinds, err := inventory.NewKinds(registration)
	if err != nil {
		return nil, err
	}
	cfg := &rest.Config{Host: server, QPS: -1}
	mapper := mapperOf(registration)
	c, err := client.New(cfg, client.Options{Scheme: kinds.Scheme(), Mapper: mapper})
	if err != nil {
		return nil, err
	}
	provider, err := registration.New(&inventory.Single{Kinds: kinds, Reader: c, Mapper: mapper, Keep: 10 * time.Second, Now: time.Now})
	if err != nil {
		return nil, err
	}
	triggers, err := sweep.NewTriggers(cfg, kinds, mapper)
	if err != nil {
		return nil, err
	}
	live := &inventory.Live{Kinds: kinds, Reader: c, Mapper: mapper}
	told := make(outcomes)
	d := &sweep.Daemon{
		Providers: map[string]providers.Provider{registration.Name: provider}, Load: live.Load, Sinks: []sweep.Sink{told},
		Triggers: triggers, Log: funcr.New(func(_, text string) { fmt.Fprintln(os.Stderr, text) }, funcr.Options{}), StartSpread: -1,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Start(ctx) }()
	out, err := measure(d, told)
	cancel()
	if err := <-ended; err != nil {
		return nil, err
	}
	return out, err
}

func measure(d *sweep.Daemon, told outcomes) (*cost, error) {
	out := &cost{}
	first := <-told
	cluster := first.Result.Clusters[0]
	owner := cluster.Owners[len(cluster.Owners)-1].Ref
	out.Machines, out.Decisions = len(cluster.Owners)-1, len(first.Result.Decisions)
	first = nil // it would count as memory
	start, cpu := time.Now(), cpuTime()
	for range sweeps - 1 {
		d.Ask(sweep.Request{Cause: sweep.CauseRequested})
		if o := <-told; o.Targeted() || o.Result.Clusters[0].NotChecked > out.Machines {
			return nil, fmt.Errorf("a sweep came to %+v", o.Result.Clusters[0])
		}
	}
	out.SweepTime, out.SweepCPU = time.Since(start).Seconds()/(sweeps-1), (cpuTime()-cpu).Seconds()/(sweeps-1)
	start, cpu = time.Now(), cpuTime()
	for range reads {
		o, err := d.Fresh(context.Background(), cluster.Ref, owner)
		if err != nil {
			return nil, err
		}
		if !o.Owners[owner] || len(o.Result.Clusters) != 1 {
			return nil, fmt.Errorf("a targeted read came to %+v", o.Result.Clusters)
		}
	}
	out.TargetTime, out.TargetCPU = time.Since(start).Seconds()/reads, (cpuTime()-cpu).Seconds()/reads
	var err error
	if out.PeakMiB, err = resident("VmHWM:"); err != nil {
		return nil, err
	}
	debug.FreeOSMemory()
	out.IdleMiB, err = resident("VmRSS:")
	return out, err
}

// mapperOf maps the kinds without asking: the server has no discovery.
func mapperOf(r providers.Registration) meta.RESTMapper {
	out := meta.NewDefaultRESTMapper([]schema.GroupVersion{clusterv1.GroupVersion, controlplanev1.GroupVersion, r.Owners[0].GVK.GroupVersion()})
	add := func(gvk schema.GroupVersionKind, scope meta.RESTScope) {
		plural := gvk.GroupVersion().WithResource(objectserver.Plural(gvk.Kind))
		out.AddSpecific(gvk, plural, gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind)), scope)
	}
	for _, kind := range []string{"Cluster", "Machine", "MachineSet", "MachineDeployment"} {
		add(clusterv1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	add(controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"), meta.RESTScopeNamespace)
	for _, o := range r.Owners {
		add(o.GVK, meta.RESTScopeNamespace)
	}
	for _, gvk := range r.Related {
		switch gvk.Kind {
		case "AWSMachineTemplate":
			add(gvk, meta.RESTScopeNamespace)
		case "AWSClusterControllerIdentity":
			add(gvk, meta.RESTScopeRoot)
		}
	}
	return out
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident reads a line of /proc/self/status, in MiB (proc(5)).
func resident(line string) (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), line); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no %s", line)
}
