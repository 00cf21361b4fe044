package faults

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// answer makes calls of some methods, or all, go wrong: it answers in the place
// of vCenter.
func answer(with func(vspherecluster.Call, http.ResponseWriter), methods ...string) func(*testing.T, *field) func() {
	return func(_ *testing.T, on *field) func() {
		on.front.failing(func(call vspherecluster.Call, w http.ResponseWriter) bool {
			if len(methods) > 0 && !slices.ContainsFunc(methods, func(m string) bool { return strings.HasPrefix(call.Method, m) }) {
				return false
			}
			with(call, w)
			return true
		})
		return func() { on.front.failing(nil) }
	}
}

func faulty(f types.BaseMethodFault) func(vspherecluster.Call, http.ResponseWriter) {
	return func(_ vspherecluster.Call, w http.ResponseWriter) { vspherecluster.Fault(w, f) }
}

func status(code int) func(vspherecluster.Call, http.ResponseWriter) {
	return func(_ vspherecluster.Call, w http.ResponseWriter) { http.Error(w, http.StatusText(code), code) }
}

// nothing answers a read with an empty result, as a vCenter that has just
// started may.
func nothing(call vspherecluster.Call, w http.ResponseWriter) {
	_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><`+call.Method+`Response xmlns="urn:vim25"></`+call.Method+`Response></soapenv:Body></soapenv:Envelope>`)
}

// cut breaks an answer off in the middle of it.
func cut(_ vspherecluster.Call, w http.ResponseWriter) {
	w.Header().Set("Content-Length", "4096")
	_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas`)
	panic(http.ErrAbortHandler)
}

// vsphereFaults are the rows on vCenter: sessions that end, once and again and
// again, a restart, refused logins and rights, faults of its methods, and what
// answers in its place.
func vsphereFaults(v *management.VSphereCloud) []fault {
	const read, index = "RetrievePropertiesEx", "FindAllByUuid"
	gone := func(t *testing.T) {
		if err := v.EndSessions(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return []fault{
		{name: "the session is lost", long: true, lasts: aWhile, begin: func(t *testing.T, _ *field) func() {
			gone(t)
			return func() {}
		}},
		{name: "the session is lost in each sweep", lasts: aWhile, begin: losing(gone)},
		{name: "vCenter restarts", begin: answer(status(http.StatusServiceUnavailable)), meanwhile: restart(v, aWhile)},
		{name: "vCenter is away", long: true, begin: answer(status(http.StatusServiceUnavailable)), meanwhile: restart(v, minute())},
		{name: "the login is refused", long: true, lasts: aWhile, begin: func(t *testing.T, on *field) func() {
			end := answer(faulty(&types.InvalidLogin{}), "Login")(t, on)
			gone(t)
			return end
		}},
		{name: "rights are taken away", lasts: aWhile, begin: answer(faulty(&types.NoPermission{}), read, index)},
		{name: "reads fail", long: true, lasts: aWhile, begin: answer(faulty(&types.SystemError{}), read)},
		{name: "reads by id fail", long: true, lasts: aWhile, begin: answer(faulty(&types.HostCommunication{}), index)},
		{name: "objects go while they are read", lasts: aWhile, begin: answer(faulty(&types.ManagedObjectNotFound{}), read)},
		{name: "reads give nothing", long: true, lasts: aWhile, begin: answer(nothing, read)},
		{name: "reads and the index give nothing", lasts: aWhile, begin: answer(nothing, read, index)},
		{name: "answers are cut off", long: true, lasts: aWhile, begin: answer(cut, read)},
		{name: "the gateway answers", long: true, lasts: aWhile, begin: answer(status(http.StatusBadGateway))},
		{name: "tags are away", long: true, lasts: aWhile, begin: answer(status(http.StatusServiceUnavailable), "GET /rest", "POST /rest")},
		{name: "the act is refused for a time", long: true, lasts: aWhile, begin: answer(faulty(&types.TaskInProgress{}), "PowerOnVM_Task")},
		{name: "time-out after success", lasts: aWhile, begin: func(*testing.T, *field) func() {
			v.Log.Lose(func(call vspherecluster.Call) bool { return call.Method == "PowerOnVM_Task" })
			return func() { v.Log.Lose(nil) }
		}},
	}
}

// losing has sessions end all the time.
func losing(gone func(*testing.T)) func(*testing.T, *field) func() {
	return func(t *testing.T, _ *field) func() {
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					gone(t)
				}
			}
		}()
		return func() {
			close(stop)
			<-done
		}
	}
}

// restart has vCenter stop, with all sessions, and answer again after a time.
func restart(v *management.VSphereCloud, after time.Duration) func(context.Context, *testing.T, *field) {
	return func(ctx context.Context, t *testing.T, on *field) {
		t.Helper()
		if err := v.Restart(ctx, func() {
			on.front.failing(nil)
			on.sweepNow(ctx, t)
			on.notMissing(ctx, t, after)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVCenterFaultMatrix has a virtual machine be powered off while vCenter
// fails in one way or the other.
func TestVCenterFaultMatrix(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.VSphereCluster(ctx, management.VSphere{Workers: 2})
	c.WaitReady(ctx)
	v := g.VSphere()
	on := &field{
		place: placeOf(g, c), front: vsphereFront(t, g),
		victim: func() *clusterv1.Machine { return c.Workers(ctx, "general")[0] },
		reset:  v.Log.Reset,
		drift:  func(m *clusterv1.Machine) { c.Stop(ctx, m) },
		once:   func(t *testing.T) { onceVSphere(t, v) },
	}
	run(t, g, on.front, policyOf("vsphere-vm-power, action: patch", "vsphere-vm-missing, action: replace"), "--leader-elect=false")
	on.eventually(t, "swept", func() error { return on.inSync(ctx, t) })
	for _, row := range vsphereFaults(v) {
		t.Run(row.name, func(t *testing.T) {
			on.run(ctx, t, row)
			c.WaitReady(ctx)
		})
	}
}

// onceVSphere sees that the machine was powered on once, but for tries that were
// refused.
func onceVSphere(t *testing.T, v *management.VSphereCloud) {
	t.Helper()
	for _, call := range v.Log.Mutating() {
		if call != "PowerOnVM_Task" {
			t.Errorf("the daemon called %s", call)
		}
	}
}
