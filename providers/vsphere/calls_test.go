package vsphere

import (
	"errors"
	"testing"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// TestCallStats: reading a vCenter counts calls of both APIs, and every
// operation is a method's name, whatever was asked for.
func TestCallStats(t *testing.T) {
	s := startSim(t, nil)
	p := newTestProvider(t)
	observe(t, p, s.owner())
	seen := map[string]int64{}
	for _, c := range p.CallStats() {
		seen[c.Operation] += c.Count
	}
	for _, want := range []string{"vim:Login", "vim:RetrievePropertiesEx", "rest:GET", "rest:POST"} {
		if seen[want] == 0 {
			t.Errorf("no call of %s among %v", want, seen)
		}
	}
}

func TestFaultNames(t *testing.T) {
	fault := &soap.Fault{}
	fault.Detail.Fault = types.NotAuthenticated{}
	for name, c := range map[string]struct {
		err  error
		res  soap.HasFault
		want string
	}{
		"success":   {nil, &methods.LoginBody{}, ""},
		"fault":     {soap.WrapSoapFault(fault), &methods.LoginBody{Fault_: fault}, "NotAuthenticated"},
		"no answer": {errors.New("connection refused"), &methods.LoginBody{}, noAnswer},
		"no detail": {soap.WrapSoapFault(&soap.Fault{}), &methods.LoginBody{Fault_: &soap.Fault{}}, "Fault"},
	} {
		if got := faultOf(c.err, c.res); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
