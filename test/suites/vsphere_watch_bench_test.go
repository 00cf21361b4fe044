package suites

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// mostWork is the processor time that one change may take, nearly all of it the
// simulator's: five seconds are what event to condition may take.
const mostWork = 2 * time.Second

// BenchmarkVSphereWatch says how long after a change among 1,000 machines the
// watch tells of it, and how many events that takes.
func BenchmarkVSphereWatch(b *testing.B) {
	const machines = 1000
	server, uuids := bigVCenter(b, machines)
	owner, p := bigOwner(b, server)
	scope, err := p.Scope(b.Context(), owner)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	events := make(chan providers.Event, 10*machines)
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(ctx, scope, func(e providers.Event) { events <- e }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()

	u := *server.URL
	u.User = url.UserPassword("user", "pass")
	c, err := govmomi.NewClient(b.Context(), &u, true)
	if err != nil {
		b.Fatal(err)
	}
	index := object.NewSearchIndex(c.Client)
	change := func(i int) (string, time.Time) {
		ref, err := index.FindByUuid(b.Context(), nil, uuids[i%machines], true, nil)
		if err != nil {
			b.Fatal(err)
		}
		vm := object.NewVirtualMachine(c.Client, ref.Reference())
		task, err := vm.Reconfigure(b.Context(), types.VirtualMachineConfigSpec{Annotation: strconv.Itoa(i)})
		if err == nil {
			err = task.WaitEx(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		done := time.Now()
		return instanceOf(b, vm), done
	}
	told := 0
	until := func(id string) {
		for timeout := time.After(time.Minute); ; {
			select {
			case e := <-events:
				if told++; slices.Contains(e.IDs, providers.ID{Kind: providers.KindVirtualMachine, Name: id}) {
					return
				}
			case <-timeout:
				b.Fatal("a change was not told of")
			}
		}
	}
	for established := false; !established; { // what is told of was changed after it was
		change(0)
		select {
		case <-events:
			established = true
		case <-time.After(time.Second):
		}
	}
	var lags []time.Duration
	told = 0
	before := cpu(b)
	for i := 1; b.Loop(); i++ {
		id, at := change(i)
		until(id)
		lags = append(lags, time.Since(at))
	}
	slices.Sort(lags)
	p99 := lags[len(lags)*99/100]
	b.ReportMetric(lags[len(lags)/2].Seconds(), "p50-s")
	b.ReportMetric(p99.Seconds(), "p99-s")
	b.ReportMetric(float64(told)/float64(len(lags)), "events/change")
	// The simulator's and the watch's together: they share this process.
	b.ReportMetric((cpu(b)-before).Seconds()/float64(len(lags)), "cpu-s/change")
	// Time on the clock says as much about who else works here as about this.
	if each := (cpu(b) - before) / time.Duration(len(lags)); each > mostWork {
		b.Errorf("telling of one change among %d machines takes %s of processor time, want %s at most", machines, each, mostWork)
	}
}

func instanceOf(b *testing.B, vm *object.VirtualMachine) string {
	b.Helper()
	var o mo.VirtualMachine
	if err := vm.Properties(b.Context(), vm.Reference(), []string{"config.instanceUuid"}, &o); err != nil {
		b.Fatal(err)
	}
	return o.Config.InstanceUuid
}

// cpu is the processor time of this process so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
