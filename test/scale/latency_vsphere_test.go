package scale

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
	"github.com/holdfast-io/holdfast/test/running"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// vworld is a management cluster with one cluster in a vcsim.
type vworld struct {
	plane
	env *vspherecluster.Environment
}

// vothers are the machines of the example that are not in its first pool.
const vothers = 6

func newVWorld(t testing.TB, machines int32, edit func(*vspherecluster.Manifest)) *vworld {
	t.Helper()
	v, err := vspherecluster.StartVCenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	m, err := vspherecluster.Load(vsphereexamples.Files, vspherecluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	w := &vworld{}
	begun := time.Now()
	w.env, err = vspherecluster.Build(t.Context(), v, vspherecluster.Options{Manifest: m, Edit: edit,
		Workers: map[string]int32{m.Deployments[0].Name: max(1, machines-vothers)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d machines were cloned in %s", len(w.env.Machines), time.Since(begun).Round(time.Second))
	w.plane = newPlane(t, planeOptions{})
	if err := running.Install(t.Context(), w.client, w.env.Objects()); err != nil {
		t.Fatal(err)
	}
	return w
}

// workers are the Machines of the first pool and the BIOS UUIDs of their
// virtual machines.
func (w *vworld) workers() (machines []*clusterv1.Machine, uuids []string) {
	for i, m := range w.env.Machines {
		if m.Labels[clusterv1.MachineDeploymentNameLabel] == w.env.Deployments[0].Name {
			machines, uuids = append(machines, m), append(uuids, w.env.VSphereVMs[i].Spec.BiosUUID)
		}
	}
	return machines, uuids
}

// cores sets a virtual machine's CPUs as a person does.
func (w *vworld) cores(t testing.TB, uuid string, n int32) {
	t.Helper()
	vm, err := w.env.VirtualMachine(t.Context(), uuid)
	if err != nil || vm == nil {
		t.Fatalf("virtual machine %s: %v, %v", uuid, vm, err)
	}
	task, err := vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{NumCPUs: n})
	if err == nil {
		err = task.WaitEx(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// watchedVSphere runs the program and returns when vCenter's events reach it:
// what changes before that is the next sweep's.
func watchedVSphere(t testing.TB, machines int32) (*vworld, *running.Daemon, *conditions) {
	t.Helper()
	w := newVWorld(t, machines, nil)
	d := running.Start(t, running.Options{Kubeconfig: w.api.Kubeconfig, Policy: quiet(0, "observe")})
	w.inSync(t)
	seen := watchConditions(t, w.client)
	ms, uuids := w.workers()
	last, n := len(ms)-1, int32(2)
	running.Eventually(t, 3*time.Minute, "told of changes", func() error {
		n = 4 - n // 2 and, on a second try, what differs from it again
		w.cores(t, uuids[last], n)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		_, err := seen.since(ctx, ms[last], metav1.ConditionTrue, time.Time{})
		return err
	})
	return w, d, seen
}

// A virtual machine that is resized is on the Machine's condition because the
// PropertyCollector tells of it.
func TestVCenterEventReachesTheCondition(t *testing.T) {
	w, d, seen := watchedVSphere(t, 12)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ms, uuids := w.workers()
	reads, at := d.Reads(t, "Event"), time.Now()
	w.cores(t, uuids[0], 2)
	took, err := seen.since(ctx, ms[0], metav1.ConditionTrue, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("after %s", took.Round(time.Millisecond))
	becauseOfEvents(t, d, reads)
	if _, told := seen.of(ms[1], metav1.ConditionTrue); told {
		t.Errorf("%s, which nobody touched, is said to drift", ms[1].Name)
	}
}

// BenchmarkEventToConditionVSphere takes the time from a reconfiguration until a
// watch of the API server shows the condition, among a thousand machines. Most
// of it is vcsim's, which reads the whole filter again at each change, for most of
// a second of processor time: changes come no faster than it can tell of them.
func BenchmarkEventToConditionVSphere(b *testing.B) {
	const machines, changes, between = 1000, 60, 2 * time.Second
	var lags []time.Duration
	for b.Loop() {
		w, _, seen := watchedVSphere(b, machines)
		ms, uuids := w.workers()
		lags = make([]time.Duration, changes)
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
		var group sync.WaitGroup
		for i := range changes {
			w.cores(b, uuids[i], 2)
			at := time.Now()
			group.Go(func() {
				var err error
				if lags[i], err = seen.since(ctx, ms[i], metav1.ConditionTrue, at); err != nil {
					b.Error(err)
				}
			})
			time.Sleep(between)
		}
		group.Wait()
		cancel()
	}
	p50, p99 := percentiles(lags)
	b.ReportMetric(p50.Seconds(), "p50-s")
	b.ReportMetric(p99.Seconds(), "p99-s")
}
