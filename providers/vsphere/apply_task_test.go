package vsphere

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/event"
	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// counting counts calls to the simulator, and can answer them itself.
type counting struct {
	mu     sync.Mutex
	calls  map[string]int
	answer func(method string, w http.ResponseWriter) bool
}

func countCalls(s *vcsim) *counting {
	c := &counting{calls: map[string]int{}}
	next := s.server.Config.Handler
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		for _, method := range []string{"ReconfigVM_Task", "PowerOffVM_Task", "PowerOnVM_Task", "ShutdownGuest"} {
			if !bytes.Contains(body, []byte("<"+method)) {
				continue
			}
			c.mu.Lock()
			c.calls[method]++
			answer := c.answer
			c.mu.Unlock()
			if answer != nil && answer(method, w) {
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	return c
}

func (c *counting) of(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[method]
}

// firstMachine gives a scope and a change of the first machine's processors.
func firstMachine(t *testing.T, s *vcsim, p *Provider, cpus int32) (providers.Scope, providers.Change) {
	t.Helper()
	scope, snap := observe(t, p, s.owner())
	have := snap.OfKind(providers.KindVirtualMachine)[0]
	want := &providers.Resource{ID: have.ID}
	want.Set(cpusPath, providers.Field{Value: providers.Int(cpus), Mutability: providers.InPlaceDisruptive})
	want.Set(powerPath, providers.Field{Value: providers.String("poweredOn"), Mutability: providers.InPlace})
	return scope, providers.Change{
		Resource: have.ID, Want: want, Have: have, Disruptive: true, Token: "1",
		Fields: []providers.FieldChange{{
			Path: cpusPath, Want: providers.Int(cpus), Have: have.Fields.Get(cpusPath).Value, Mutability: providers.InPlaceDisruptive,
		}},
	}
}

func applyUntilDone(t *testing.T, p *Provider, scope providers.Scope, c providers.Change) error {
	t.Helper()
	const most = 20
	for range most {
		if err := p.Apply(context.Background(), scope, c); !errors.Is(err, providers.ErrPending) {
			return err
		}
	}
	return errors.New("pending for ever")
}

// A task that takes longer than one call is found again, by the same process
// and by the next one, and never begun twice.
func TestApplyFindsItsTaskAgain(t *testing.T) {
	simulator.TaskDelay.MethodDelay = map[string]int{"ReconfigVm": 6000, "LockHandoff": 0}
	t.Cleanup(func() { simulator.TaskDelay.MethodDelay = nil })
	for name, crash := range map[string]bool{"the same process": false, "the next process": true} {
		t.Run(name, func(t *testing.T) {
			s := startSim(t, nil)
			calls := countCalls(s)
			p := newTestProvider(t)
			scope, change := firstMachine(t, s, p, 4)
			for begun := 0; calls.of("ReconfigVM_Task") == 0; begun++ {
				if err := p.Apply(t.Context(), scope, change); !errors.Is(err, providers.ErrPending) || begun > 5 {
					t.Fatalf("apply %d: %v", begun, err)
				}
			}
			if crash {
				p = newTestProvider(t)
				_, err := p.Scope(t.Context(), s.owner())
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := applyUntilDone(t, p, scope, change); err != nil {
				t.Fatal(err)
			}
			for method, want := range map[string]int{"ReconfigVM_Task": 1, "ShutdownGuest": 0, "PowerOffVM_Task": 1, "PowerOnVM_Task": 1} {
				if n := calls.of(method); n != want {
					t.Errorf("%s was called %d times, want %d", method, n, want)
				}
			}
		})
	}
}

// runTools has the guest of a machine answer.
func runTools(t *testing.T, vm *vimobject.VirtualMachine) {
	t.Helper()
	task, err := vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
		&types.OptionValue{Key: "SET.guest.toolsRunningStatus", Value: "guestToolsRunning"},
	}})
	if err == nil {
		err = task.WaitEx(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tellShutdown has vCenter tell that the user of a client asked a guest to shut
// down.
func tellShutdown(t *testing.T, c *vim25.Client, vm types.ManagedObjectReference) {
	t.Helper()
	if err := event.NewManager(c).PostEvent(context.Background(), &types.VmGuestShutdownEvent{VmEvent: types.VmEvent{
		Event: types.Event{Vm: &types.VmEventArgument{Vm: vm}},
	}}); err != nil {
		t.Error(err)
	}
}

// A guest that somebody else asked to shut down, a while ago and in vain, is
// asked, and not powered off at once.
func TestApplyGuestThatAnotherAsked(t *testing.T) {
	s := startSim(t, nil)
	calls := countCalls(s)
	p := newTestProvider(t)
	scope, change := firstMachine(t, s, p, 4)
	vm := vimobject.NewVirtualMachine(s.client(t), types.ManagedObjectReference{Type: "VirtualMachine", Value: moid(change.Have)})
	runTools(t, vm)
	u := *s.server.URL
	u.User = url.UserPassword("anna", "pass")
	anna, err := govmomi.NewClient(t.Context(), &u, true)
	if err != nil {
		t.Fatal(err)
	}
	tellShutdown(t, anna.Client, vm.Reference())
	p.shutdownPatience = time.Nanosecond
	if err := p.Apply(t.Context(), scope, change); !errors.Is(err, providers.ErrPending) {
		t.Fatal(err)
	}
	if asked, off := calls.of("ShutdownGuest"), calls.of("PowerOffVM_Task"); asked != 1 || off != 0 {
		t.Errorf("the guest was asked %d times and powered off %d times", asked, off)
	}
	if err := applyUntilDone(t, p, scope, change); err != nil {
		t.Fatal(err)
	}
}

// A guest that does not shut down has its time, counted from when vCenter was
// asked, by whichever process; then its machine is powered off.
func TestApplyGuestThatDoesNotShutDown(t *testing.T) {
	s := startSim(t, nil)
	calls := countCalls(s)
	p := newTestProvider(t)
	scope, change := firstMachine(t, s, p, 4)
	c := s.client(t)
	vm := vimobject.NewVirtualMachine(c, types.ManagedObjectReference{Type: "VirtualMachine", Value: moid(change.Have)})
	runTools(t, vm)
	calls.answer = func(method string, w http.ResponseWriter) bool {
		if method != "ShutdownGuest" {
			return false
		}
		// vCenter has asked the guest, which goes on as if nothing were.
		tellShutdown(t, c, vm.Reference())
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><ShutdownGuestResponse xmlns="urn:vim25"></ShutdownGuestResponse></soapenv:Body></soapenv:Envelope>`)
		return true
	}
	for i := range 4 {
		if i == 2 { // the next process knows it too
			p = newTestProvider(t)
			if _, err := p.Scope(t.Context(), s.owner()); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Apply(t.Context(), scope, change); !errors.Is(err, providers.ErrPending) {
			t.Fatalf("apply %d: %v", i, err)
		}
	}
	if asked, off := calls.of("ShutdownGuest"), calls.of("PowerOffVM_Task"); asked != 1 || off != 0 {
		t.Errorf("the guest was asked %d times and powered off %d times within its time", asked, off)
	}
	p.shutdownPatience = time.Nanosecond
	if err := applyUntilDone(t, p, scope, change); err != nil {
		t.Fatal(err)
	}
	if asked, off, on := calls.of("ShutdownGuest"), calls.of("PowerOffVM_Task"), calls.of("PowerOnVM_Task"); asked != 1 || off != 1 || on != 1 {
		t.Errorf("asked %d times, off %d times, on %d times", asked, off, on)
	}
	confirmed, err := p.Confirm(t.Context(), scope, []providers.ID{change.Resource})
	if err != nil {
		t.Fatal(err)
	}
	r := confirmed.Resources[change.Resource]
	if got := r.Fields.Get(cpusPath).Value.Text() + " " + r.Fields.Get(powerPath).Value.Text(); got != "4 poweredOn" {
		t.Errorf("the machine is %s", got)
	}
}

// A task of an earlier call that failed tells its error once, in place of being
// begun again unseen.
func TestApplyTellsHowItsTaskEnded(t *testing.T) {
	s := startSim(t, nil)
	p := newTestProvider(t)
	scope, change := firstMachine(t, s, p, 4)
	c, err := p.connection(scope)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{provider: p, conn: c, scope: scope, change: &change}
	vm := vimobject.NewVirtualMachine(s.client(t), types.ManagedObjectReference{Type: "VirtualMachine", Value: moid(change.Have)})
	task, err := vm.PowerOn(t.Context()) // it is on: the task fails
	if err != nil {
		t.Fatal(err)
	}
	_ = task.WaitEx(t.Context())
	w.remember(task.Reference())
	if err := p.Apply(t.Context(), scope, change); err == nil || !strings.Contains(err.Error(), "the task begun earlier") {
		t.Errorf("the first call gave %v", err)
	}
	if err := applyUntilDone(t, p, scope, change); err != nil {
		t.Errorf("the next call gave %v", err)
	}
}
