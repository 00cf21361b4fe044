package vsphere

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// A vCenter with more machines than fit a page is read whole, and a page that
// fails leaves all machines unknown rather than the rest absent.
func TestObservePages(t *testing.T) {
	const machines = pageSize + 10
	sim := startSim(t, func(m *simulator.Model) {
		m.Host, m.Cluster, m.ClusterHost, m.Machine = 0, 1, 2, machines
	})
	p := newTestProvider(t)
	scope, snap := observe(t, p, sim.owner())
	if got := len(snap.OfKind(providers.KindVirtualMachine)); got != machines {
		t.Errorf("%d machines, want %d", got, machines)
	}
	sim.model.Service.AddFaultRule(&simulator.FaultInjectionRule{
		MethodName: "ContinueRetrievePropertiesEx", ObjectType: "*", ObjectName: "*", Probability: 1, Enabled: true,
		FaultType: simulator.FaultTypeGeneric, Message: "too busy", MaxCount: 1,
	})
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	if err := snap.Coverage[providers.KindVirtualMachine]; err == nil || !strings.Contains(err.Error(), "page after 250 objects") {
		t.Errorf("coverage %v, want the failed page", err)
	}
	if snap.Coverage[kindFolder] != nil || len(snap.OfKind(kindFolder)) == 0 {
		t.Errorf("folders: %v, %d", snap.Coverage[kindFolder], len(snap.OfKind(kindFolder)))
	}
}

// hung answers everything but the end of a view, which it never does; the reader's
// context ends while it reads.
type hung struct {
	soap.RoundTripper
	stop func()
}

func (h hung) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	switch req.(type) {
	case *methods.RetrievePropertiesExBody:
		h.stop()
	case *methods.DestroyViewBody:
		<-ctx.Done()
		return ctx.Err()
	}
	return h.RoundTripper.RoundTrip(ctx, req, res)
}

// Who stops does not wait for a vCenter that has ceased to answer.
func TestStopsAtHungVCenter(t *testing.T) {
	simulator.Test(func(ctx context.Context, c *vim25.Client) {
		ctx, stop := context.WithCancel(ctx)
		c.RoundTripper = hung{c.RoundTripper, stop}
		ended := make(chan error, 1)
		go func() {
			_, err := retrieve(ctx, c, []string{"VirtualMachine"}, []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"name"}}})
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(30 * goodbye):
			t.Error("it still waits")
		}
	})
}

// An id that nothing has is absent; one that is asked for in the other byte
// order is found.
func TestConfirm(t *testing.T) {
	sim := startSim(t, nil)
	p := newTestProvider(t)
	scope, snap := observe(t, p, sim.owner())
	vm := snap.OfKind(providers.KindVirtualMachine)[0]
	bios := vm.Fields.Get("/biosUuid").Value.Text()
	swapped := bios[6:8] + bios[4:6] + bios[2:4] + bios[0:2] + "-" + bios[11:13] + bios[9:11] + "-" + bios[16:18] + bios[14:16] + bios[18:]
	there := []providers.ID{vm.ID, virtualMachine(bios), virtualMachine(strings.ToUpper(bios)), virtualMachine(swapped), virtualMachine(moid(vm))}
	absent := []providers.ID{virtualMachine("4c4c4544-0051-3610-8054-b4c04f4d5131"), virtualMachine("vm-4711")}
	other := providers.ID{Kind: "Instance", Name: "i-1"}
	c, err := p.Confirm(t.Context(), scope, append(append(there, absent...), other))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range there {
		if r := c.Resources[id]; r == nil || r.Name != vm.Name || r.ID != id {
			t.Errorf("%s: %+v, %v", id, r, c.Unconfirmed[id])
		}
	}
	for _, id := range absent {
		if c.Resources[id] != nil || c.Unconfirmed[id] != nil {
			t.Errorf("%s: %v %v, want absence", id, c.Resources[id], c.Unconfirmed[id])
		}
	}
	if c.Unconfirmed[other] == nil {
		t.Error("an instance of another cloud is called absent")
	}
}

// Where the index and the objects contradict each other, or vCenter shows nothing
// at all, nothing is called absent.
func TestConfirmProvesNoAbsence(t *testing.T) {
	const head = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>`
	const tail = `</soapenv:Body></soapenv:Envelope>`
	empty := func(method string) (int, string) {
		return http.StatusOK, "<" + method + `Response xmlns="urn:vim25"></` + method + `Response>`
	}
	for name, answer := range map[string]func(method string) (int, string){
		"the object is not known": func(method string) (int, string) {
			if method != "RetrievePropertiesEx" {
				return 0, ""
			}
			return http.StatusInternalServerError, `<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>gone</faultstring><detail>
<ManagedObjectNotFoundFault xmlns="urn:vim25" xsi:type="ManagedObjectNotFound"><obj type="VirtualMachine">vm-42</obj></ManagedObjectNotFoundFault></detail></soapenv:Fault>`
		},
		"the object gives nothing": func(method string) (int, string) {
			if method != "RetrievePropertiesEx" {
				return 0, ""
			}
			return empty(method)
		},
		"everything gives nothing": empty,
	} {
		t.Run(name, func(t *testing.T) {
			sim := startSim(t, nil)
			p := newTestProvider(t)
			scope, snap := observe(t, p, sim.owner())
			vm := snap.OfKind(providers.KindVirtualMachine)[0]
			next := sim.server.Config.Handler
			sim.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				for _, method := range []string{"RetrievePropertiesEx", "FindAllByUuid"} {
					if bytes.Contains(body, []byte("<"+method)) {
						if code, text := answer(method); code != 0 {
							w.WriteHeader(code)
							_, _ = io.WriteString(w, head+text+tail)
							return
						}
					}
				}
				next.ServeHTTP(w, r)
			})
			c, err := p.Confirm(t.Context(), scope, []providers.ID{vm.ID})
			if err != nil {
				t.Fatal(err)
			}
			if c.Resources[vm.ID] != nil || c.Unconfirmed[vm.ID] == nil {
				t.Errorf("%+v, %v: want it unconfirmed", c.Resources[vm.ID], c.Unconfirmed[vm.ID])
			}
		})
	}
}

// Two machines with one UUID found live are as Unknown as in bulk.
func TestC34ConfirmDuplicate(t *testing.T) {
	sim := startSim(t, nil)
	p := newTestProvider(t)
	scope, snap := observe(t, p, sim.owner())
	vms := snap.OfKind(providers.KindVirtualMachine)
	bios := vms[0].Fields.Get("/biosUuid").Value.Text()
	ctx := sim.model.Service.Context
	other := ctx.Map.Get(types.ManagedObjectReference{Type: "VirtualMachine", Value: moid(vms[1])}).(*simulator.VirtualMachine)
	ctx.WithLock(other.Self, func() { other.Config.Uuid = bios })
	c, err := p.Confirm(t.Context(), scope, []providers.ID{virtualMachine(bios)})
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Resources[virtualMachine(bios)]; r == nil || !strings.Contains(r.Unknown, "2 virtual machines have UUID") {
		t.Errorf("confirmed %+v", r)
	}
}

func TestObserveUnknownScope(t *testing.T) {
	if _, err := newTestProvider(t).Observe(t.Context(), providers.Scope{Provider: Name, Account: "vc"}); err == nil {
		t.Error("a scope that no owner has named was observed")
	}
}
