package vsphere

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/simulator"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// writesOf gives the writes that making one machine takes.
func writesOf(w *buildWorld) []string {
	w.t.Helper()
	w.v.Log.Reset()
	w.build(w.p, w.machine("control-plane", "clean"))
	return w.v.Log.Mutating()
}

// Whatever write is interrupted, and however: tried again, by the same process or
// by the next one, there is one machine, and it is complete.
func TestBuildInterrupted(t *testing.T) {
	w := newBuildWorld(t)
	writes := writesOf(w)
	if len(writes) < 6 || writes[0] != "CloneVM_Task" {
		t.Fatalf("making a machine takes the writes %q", writes)
	}
	cut := func() bool { panic(http.ErrAbortHandler) }
	for how, interrupt := range map[string]func(n int, cancel func()){
		"the answer is lost": func(n int, _ func()) {
			w.v.Log.Lose(nth(n, nil))
		},
		"the call never arrives": func(n int, _ func()) {
			is := nth(n, nil)
			w.v.Log.Fail(func(c vspherecluster.Call, _ http.ResponseWriter) bool { return is(c) && cut() })
		},
		"the process ends in the call": func(n int, cancel func()) {
			w.v.Log.Lose(nth(n, cancel))
		},
	} {
		for n, method := range writes {
			t.Run(fmt.Sprintf("%s/%d %s", how, n, strings.ReplaceAll(method, "/", "_")), func(t *testing.T) {
				w.t = t
				name := fmt.Sprintf("%s-%d", strings.ReplaceAll(how, " ", "-"), n)
				o := w.machine("control-plane", name)
				before := len(w.vms())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				interrupt(n, cancel)
				broken := w.untilBroken(ctx, o)
				w.v.Log.Lose(nil)
				w.v.Log.Fail(nil)
				if !broken {
					t.Fatal("nothing was interrupted")
				}
				w.build(w.provider(), o)
				inSync(t, w, o)
				guestData(t, w, o)
				if after := len(w.vms()); after != before+1 {
					t.Errorf("%d machines, were %d", after, before)
				}
			})
		}
	}
}

// nth is true for the write of a number, once. Then, if given, is done first.
func nth(n int, then func()) func(vspherecluster.Call) bool {
	seen := 0
	return func(c vspherecluster.Call) bool {
		if !c.Mutating() {
			return false
		}
		seen++
		if seen != n+1 {
			return false
		}
		if then != nil {
			then()
		}
		return true
	}
}

// untilBroken runs passes until one fails.
func (w *buildWorld) untilBroken(ctx context.Context, o *providers.Owner) bool {
	p := w.provider()
	for range mostPasses {
		waiting, err := w.passIn(ctx, p, o)
		if err != nil {
			return true
		}
		if waiting == "" {
			return false
		}
		w.boot()
	}
	return false
}

// A clone that takes longer than one call is found again, by the same process and
// by the next one, and never begun twice.
func TestBuildFindsItsClone(t *testing.T) {
	for name, tt := range map[string]struct {
		crash bool
		takes int // milliseconds
	}{
		"the same process": {false, 5500}, "the next process": {true, 3500},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBuildWorld(t)
			simulator.TaskDelay.MethodDelay = map[string]int{"CloneVm": tt.takes, "LockHandoff": 0}
			t.Cleanup(func() { simulator.TaskDelay.MethodDelay = nil })
			o, p := w.machine("control-plane", "slow"), w.p
			if tt.crash {
				ctx, cancel := context.WithCancel(t.Context())
				w.v.Log.Lose(nth(0, cancel))
				if _, err := w.passIn(ctx, p, o); err == nil {
					t.Fatal("nothing was interrupted")
				}
				w.v.Log.Lose(nil)
				p = w.provider()
			}
			if waiting, err := w.pass(p, o); err != nil || waiting == "" {
				t.Fatalf("waits for %q, %v", waiting, err)
			}
			w.t = t
			w.build(p, o)
			clones := 0
			for _, m := range w.v.Log.Mutating() {
				if m == "CloneVM_Task" {
					clones++
				}
			}
			if clones != 1 || len(w.vms()) != 1 {
				t.Errorf("%d clones were begun, %d machines are there", clones, len(w.vms()))
			}
		})
	}
}

// A machine that is deleted while it is being cloned waits for the clone, and goes
// with it.
func TestBuildDeletedWhileItIsCloned(t *testing.T) {
	w := newBuildWorld(t)
	simulator.TaskDelay.MethodDelay = map[string]int{"CloneVm": 2500, "LockHandoff": 0}
	t.Cleanup(func() { simulator.TaskDelay.MethodDelay = nil })
	o := w.machine("control-plane", "regretted")
	ctx, cancel := context.WithCancel(t.Context())
	w.v.Log.Lose(nth(0, cancel))
	if _, err := w.passIn(ctx, w.p, o); err == nil {
		t.Fatal("nothing was interrupted")
	}
	w.v.Log.Lose(nil)
	p := w.provider()
	err := w.unmake(p, o)
	if err == nil || !strings.Contains(err.Error(), "being cloned") {
		t.Errorf("deleted while it is being cloned: %v", err)
	}
	for begun := time.Now(); err != nil && time.Since(begun) < time.Minute; {
		err = w.unmake(p, o)
	}
	if err != nil || len(w.vms()) != 0 {
		t.Errorf("%d machines are left, %v", len(w.vms()), err)
	}
}

// Two processes that make one machine at once make one.
func TestBuildTwiceAtOnce(t *testing.T) {
	w := newBuildWorld(t)
	o := w.machine("control-plane", "twice")
	errs := make(chan error)
	for range 2 {
		p, own := w.provider(), *o
		own.Infra = infraOf(o).DeepCopy()
		go func() {
			scope, err := p.Scope(t.Context(), &own)
			var snap *providers.Snapshot
			var plan []providers.Resource
			if err == nil {
				snap, err = p.Observe(t.Context(), scope)
			}
			if err == nil {
				plan, err = p.Plan(&own, snap)
			}
			for range 10 {
				if err == nil || errors.Is(err, providers.ErrPending) {
					_, err = p.Create(t.Context(), scope, providers.Creation{Owner: &own, Want: &plan[0], Token: "t", Bootstrap: &testBoot})
				}
			}
			errs <- err
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Logf("one of two: %v", err)
		}
	}
	w.build(w.p, o)
	if n := len(w.vms()); n != 1 {
		t.Errorf("%d machines", n)
	}
}
