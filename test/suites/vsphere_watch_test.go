package suites

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// watchPatience is how long a test waits for what must come.
const watchPatience = 30 * time.Second

// vsphereWatch watches an environment until the test ends.
type vsphereWatch struct {
	events chan providers.Event
	scope  providers.Scope
	stop   func() error
	ended  chan error
}

// watchVSphere begins to watch, and returns once the watch is established.
func watchVSphere(t *testing.T, e *vspherecluster.Environment, p *vsphere.Provider) *vsphereWatch {
	t.Helper()
	w := startWatch(t, e, p)
	waiting := func() bool {
		return slices.ContainsFunc(e.Log.Calls(), func(c vspherecluster.Call) bool {
			return c.Method == "WaitForUpdatesEx" && !strings.Contains(c.Body, "<version></version>")
		})
	}
	for deadline := time.Now().Add(watchPatience); !waiting(); {
		if time.Now().After(deadline) {
			t.Fatal("the watch was not established")
		}
		<-time.After(time.Millisecond)
	}
	return w
}

func startWatch(t *testing.T, e *vspherecluster.Environment, p *vsphere.Provider) *vsphereWatch {
	t.Helper()
	scope, err := p.Scope(t.Context(), e.Owners()[0])
	if err != nil {
		t.Fatal(err)
	}
	w := &vsphereWatch{events: make(chan providers.Event, 1000), scope: scope, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), testr.NewWithOptions(t, testr.Options{Verbosity: 1})))
	ended := w.ended
	go func() { ended <- p.Watch(ctx, scope, func(e providers.Event) { w.events <- e }) }()
	w.stop = func() error {
		cancel()
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-time.After(watchPatience):
			t.Error("the watch did not end with its context")
			return nil
		}
	}
	t.Cleanup(func() { _ = w.stop() })
	return w
}

// until waits for an event that will do, and gives it.
func (w *vsphereWatch) until(t *testing.T, what string, will func(providers.Event) bool) providers.Event {
	t.Helper()
	var seen []providers.Event
	for timeout := time.After(watchPatience); ; {
		select {
		case e := <-w.events:
			if will(e) {
				return e
			}
			seen = append(seen, e)
		case <-timeout:
			t.Fatalf("no event for %s; there were %+v", what, seen)
		}
	}
}

func about(id string) func(providers.Event) bool {
	return func(e providers.Event) bool {
		return slices.Contains(e.IDs, providers.ID{Kind: providers.KindVirtualMachine, Name: id})
	}
}

// idOf gives the instance UUID of the machine that a tamper is about.
func idOf(t *testing.T, e *vspherecluster.Environment, name string) string {
	t.Helper()
	for i, m := range e.Machines {
		if m.Name == name {
			return string(e.VSphereVMs[i].UID)
		}
	}
	t.Fatalf("no machine %s", name)
	return ""
}

// vmOf gives the managed object of a machine.
func vmOf(t *testing.T, e *vspherecluster.Environment, name string) types.ManagedObjectReference {
	t.Helper()
	for i, m := range e.Machines {
		if m.Name == name {
			_, moid, _ := strings.Cut(e.VSphereVMs[i].Status.VMRef, ":")
			return types.ManagedObjectReference{Type: "VirtualMachine", Value: moid}
		}
	}
	t.Fatalf("no machine %s", name)
	return types.ManagedObjectReference{}
}

// Whatever people do to a machine, the watch tells of the machine; and by whom,
// where vCenter knows. Watching writes nothing.
func TestVSphereWatch(t *testing.T) {
	const user = vspherecluster.Username
	tests := []struct{ tamper, by, what string }{
		{"powered off", user, "VmPoweredOffEvent"},
		{"suspended", user, "VmSuspendedEvent"},
		{"fewer CPUs", user, "VmReconfiguredEvent"},
		{"cores per socket", user, "VmReconfiguredEvent"},
		{"less memory", user, "VmReconfiguredEvent"},
		{"adapter on another distributed port group", user, "VmReconfiguredEvent"},
		{"adapter removed", user, "VmReconfiguredEvent"},
		{"VMX key changed", user, "VmReconfiguredEvent"},
		{"moved to another datastore", user, "VmMigratedEvent"},
		{"moved to another resource pool", user, "VmMigratedEvent"},
		{"moved to another folder", "", "parent"},
		{"renamed", user, "VmRenamedEvent"},
		{"destroyed", user, "VmRemovedEvent"},
	}
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	w := watchVSphere(t, e, p)
	for _, tt := range tests {
		t.Run(tt.tamper, func(t *testing.T) {
			damage := do(t, e, tt.tamper)
			if tt.tamper == "renamed" { // the simulator tells of no new names
				machine := types.VmEventArgument{Vm: vmOf(t, e, strings.TrimPrefix(damage.Findings[0].Owner, "VSphereMachine/"))}
				event := &types.VmRenamedEvent{VmEvent: types.VmEvent{Event: types.Event{Vm: &machine}}}
				if err := e.PostEvent(t.Context(), event); err != nil {
					t.Fatal(err)
				}
			}
			name := strings.TrimPrefix(damage.Findings[0].Owner, "VSphereMachine/")
			id := idOf(t, e, name)
			got := w.until(t, tt.tamper, func(e providers.Event) bool {
				return about(id)(e) && e.By == tt.by && strings.Contains(e.What, tt.what)
			})
			if got.At.IsZero() || got.Gap || got.Own {
				t.Errorf("event %+v", got)
			}
			if damage.Undo != nil {
				if err := damage.Undo(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if calls := e.Log.Mutating(); len(calls) > 0 {
		t.Errorf("watching wrote: %v", calls)
	}
	if err := w.stop(); err != nil {
		t.Errorf("the watch ended with %v", err)
	}
	calls := methods(e.Log.Calls())
	for _, method := range []string{"DestroyPropertyCollector", "DestroyCollector", "DestroyView"} {
		if !slices.Contains(calls, method) {
			t.Errorf("%s was not called at the end", method)
		}
	}
}

// The tagging service tells who attached and detached a tag, and names the
// machine by its name only.
func TestVSphereWatchTags(t *testing.T) {
	e := vsphereEnv(t, nil)
	w := watchVSphere(t, e, vsphereProvider(t, e))
	for _, kind := range []string{"com.vmware.cis.tagging.attach", "com.vmware.cis.tagging.detach"} {
		for _, name := range []string{"no-such-machine", e.Machines[2].Name} {
			event := &types.EventEx{EventTypeId: kind, Arguments: []types.KeyAnyValue{
				{Key: "Tag", Value: "prod"}, {Key: "Object", Value: name}, {Key: "User", Value: `VSPHERE.LOCAL\mallory`},
			}}
			if err := e.PostEvent(t.Context(), event); err != nil {
				t.Fatal(err)
			}
		}
		got := w.until(t, kind, func(e providers.Event) bool { return e.What == kind })
		if !about(string(e.VSphereVMs[2].UID))(got) || len(got.IDs) != 1 || got.By != `VSPHERE.LOCAL\mallory` {
			t.Errorf("event %+v", got)
		}
	}
}

// A machine that is made while others are watched is watched too.
func TestVSphereWatchNewMachine(t *testing.T) {
	e := vsphereEnv(t, nil)
	w := watchVSphere(t, e, vsphereProvider(t, e))
	const id = "0a4a5b6c-1111-2222-3333-444455557777"
	c := &providers.Change{Have: &providers.Resource{}}
	c.Have.Set("/moid", providers.Field{Value: providers.String(vmOf(t, e, e.Machines[0].Name).Value)})
	clone(t, e, c, types.VirtualMachineConfigSpec{InstanceUuid: id})
	w.until(t, "the clone", about(id))
}

// Sessions end and vCenters restart: the watch goes on, says that it may have
// missed something, and tells again.
func TestVSphereWatchSurvives(t *testing.T) {
	breaks := map[string]func(*testing.T, *vspherecluster.Environment){
		"session ended": func(t *testing.T, e *vspherecluster.Environment) {
			if err := e.EndSessions(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"vCenter restarted": func(t *testing.T, e *vspherecluster.Environment) {
			if err := e.Restart(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		},
		"one bad answer": func(_ *testing.T, e *vspherecluster.Environment) {
			bad := false
			e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
				if bad || c.Method != "ReadNextEvents" {
					return false
				}
				bad = true
				http.Error(w, "upstream is away", http.StatusBadGateway)
				return true
			})
		},
	}
	for name, break_ := range breaks {
		t.Run(name, func(t *testing.T) {
			e := vsphereEnv(t, nil)
			w := watchVSphere(t, e, vsphereProvider(t, e))
			do(t, e, "fewer CPUs")
			w.until(t, "the first change", func(e providers.Event) bool { return e.What == "VmReconfiguredEvent" })
			break_(t, e)
			do(t, e, "powered off") // wakes the wait that may hold an ended session
			w.until(t, "the gap", func(e providers.Event) bool { return e.Gap })
			damage := do(t, e, "less memory")
			id := idOf(t, e, damage.Findings[0].Name)
			w.until(t, "a change after it", func(e providers.Event) bool { return about(id)(e) && e.What == "VmReconfiguredEvent" })
			if err := w.stop(); err != nil {
				t.Errorf("the watch ended with %v", err)
			}
		})
	}
}

// What was missed between two calls of Watch is told by the second.
func TestVSphereWatchTellsOfALapse(t *testing.T) {
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	first := watchVSphere(t, e, p)
	e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
		if c.Method != "CreateFilter" {
			return false
		}
		vspherecluster.Fault(w, &types.NoPermission{})
		return true
	})
	if err := e.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, e, "powered off") // wakes the wait that may hold an ended session
	select {
	case err := <-first.ended:
		first.ended <- err
		if err == nil || !strings.Contains(err.Error(), "NoPermission") {
			t.Fatalf("the watch ended with %v", err)
		}
	case <-time.After(watchPatience):
		t.Fatal("the watch goes on without permission")
	}
	e.Log.Fail(nil)
	startWatch(t, e, p).until(t, "the gap", func(e providers.Event) bool { return e.Gap })
}

// Without the privilege to read events, changes are told all the same; with a
// wrong password or without the privilege to see, watching says so and ends.
func TestVSphereWatchNotPermitted(t *testing.T) {
	e := vsphereEnv(t, nil)
	forbid := func(method string) {
		e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
			if c.Method != method {
				return false
			}
			vspherecluster.Fault(w, &types.NoPermission{})
			return true
		})
	}
	t.Run("events", func(t *testing.T) {
		forbid("CreateCollectorForEvents")
		w := watchVSphere(t, e, vsphereProvider(t, e))
		damage := do(t, e, "fewer CPUs")
		got := w.until(t, "the change", about(idOf(t, e, damage.Findings[0].Name)))
		if got.By != "" {
			t.Errorf("event %+v", got)
		}
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
	ends := func(t *testing.T, p *vsphere.Provider, says string) {
		t.Helper()
		scope, err := p.Scope(t.Context(), e.Owners()[0])
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), watchPatience)
		defer cancel()
		if err := p.Watch(ctx, scope, func(providers.Event) {}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("watch gave %v, want %q", err, says)
		}
	}
	t.Run("machines", func(t *testing.T) {
		forbid("CreateFilter")
		ends(t, vsphereProvider(t, e), "NoPermission")
	})
	t.Run("password", func(t *testing.T) {
		e.Log.Fail(nil)
		ends(t, providerWith(t, e, func(s *corev1.Secret) { s.Data["password"] = []byte("wrong") }), "log in to vCenter")
	})
	t.Run("no scope", func(t *testing.T) {
		err := vsphereProvider(t, e).Watch(t.Context(), providers.Scope{Provider: "vsphere", Account: "nobody.example"}, func(providers.Event) {})
		if err == nil || !strings.Contains(err.Error(), "no owner has named credentials") {
			t.Errorf("watch gave %v", err)
		}
	})
}
