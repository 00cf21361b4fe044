package suites

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// Whatever keeps vCenter from being read, nothing is Missing: a machine's
// absence from what was not read is no absence.
func TestVSphereFaults(t *testing.T) {
	e := vsphereEnv(t, nil)
	// A machine that is gone makes a false Missing likely.
	lost := e.Machines[4].Name
	tests := map[string]struct {
		break_ func(*testing.T, *vspherecluster.Environment) *vsphere.Provider
		// says is what every NotChecked finding's reason must hold.
		says string
		// whole says that nothing at all could be compared.
		whole bool
		// missing says that the one lost machine is still found lost.
		missing bool
	}{
		"dead vCenter": {
			break_: func(t *testing.T, e *vspherecluster.Environment) *vsphere.Provider {
				old := e.VSphereCluster.Spec.Server
				server(e, "127.0.0.1:1")
				t.Cleanup(func() { server(e, old) })
				return vsphereProvider(t, e)
			},
			says: "reach vCenter 127.0.0.1:1", whole: true,
		},
		"wrong password": {
			break_: func(t *testing.T, e *vspherecluster.Environment) *vsphere.Provider {
				return providerWith(t, e, func(s *corev1.Secret) { s.Data["password"] = []byte("wrong") })
			},
			says: `log in to vCenter`, whole: true,
		},
		"Secret without a password": {
			break_: func(t *testing.T, e *vspherecluster.Environment) *vsphere.Provider {
				return providerWith(t, e, func(s *corev1.Secret) { delete(s.Data, "password") })
			},
			says: "has no username and password", whole: true,
		},
		"another certificate than pinned": {
			break_: func(t *testing.T, e *vspherecluster.Environment) *vsphere.Provider {
				thumbprint(t, e, strings.Repeat("AB:", 19)+"AB")
				return vsphereProvider(t, e)
			},
			says: "thumbprint", whole: true,
		},
		"a certificate of an unknown authority": {
			break_: func(t *testing.T, e *vspherecluster.Environment) *vsphere.Provider {
				thumbprint(t, e, "")
				return vsphereProvider(t, e)
			},
			says: "certificate", whole: true,
		},
		"inventory fails": {
			break_: failing("ManagedEntity", func(c vspherecluster.Call) bool {
				return c.Method == "RetrievePropertiesEx" && strings.Contains(c.Body, "DistributedVirtualPortgroup")
			}),
			says: "inventory", missing: true,
		},
		"machines fail": {
			break_: failing("VirtualMachine", func(c vspherecluster.Call) bool {
				return c.Method == "RetrievePropertiesEx" && strings.Contains(c.Body, "config.hardware")
			}),
			says: "virtual machines",
		},
		"no REST login": {
			break_: failing("session", func(c vspherecluster.Call) bool { return c.Method == "POST /rest/com/vmware/cis/session" }),
			says:   "/tags", missing: true,
		},
		"tag service fails": {
			break_: failing("tags", func(c vspherecluster.Call) bool { return strings.Contains(c.Method, "tagging") }),
			says:   "/tags", missing: true,
		},
		"live reads fail": {
			break_: failing("search index", func(c vspherecluster.Call) bool { return c.Method == "FindAllByUuid" }),
		},
	}
	destroy(t, e, lost)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := tt.break_(t, e)
			findings := vsphereSweep(t, p, e.Owners())
			e.Log.Fail(nil)
			missing, notChecked := 0, 0
			for _, f := range findings {
				switch f.Status {
				case detector.Missing:
					missing++
				case detector.Drifted:
					t.Errorf("drifted: %s %v", f.Resource.Name, f.Diffs)
				case detector.NotChecked:
					notChecked++
					if !strings.Contains(f.Reason, tt.says) {
						t.Errorf("%s: reason %q, want one with %q", f.Resource.Name, f.Reason, tt.says)
					}
				}
			}
			if want := map[bool]int{true: 1}[tt.missing]; missing != want {
				t.Errorf("%d machines missing, want %d", missing, want)
			}
			if owners := len(e.Owners()); tt.whole && notChecked != owners {
				t.Errorf("%d of %d owners not checked", notChecked, owners)
			}
			if tt.says != "" && notChecked == 0 {
				t.Error("nothing is NotChecked")
			}
		})
	}
}

// A session that ends in the middle of a sweep is renewed, once, and the sweep
// is whole.
func TestVSphereSessionLoss(t *testing.T) {
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	for _, method := range []string{"CreateContainerView", "RetrievePropertiesEx", "PbmQueryAssociatedProfiles"} {
		t.Run(method, func(t *testing.T) {
			lost := false
			e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
				if c.Method != method || lost {
					return false
				}
				lost = true
				vspherecluster.NotAuthenticated(w)
				return true
			})
			defer e.Log.Fail(nil)
			e.Log.Reset()
			vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
			if !lost {
				t.Fatalf("%s was not called", method)
			}
			if n := logins(e); n < 1 {
				t.Errorf("%d logins after the loss", n)
			}
		})
	}
}

// One session serves all owners and all sweeps, and Close ends it.
func TestVSphereOneSession(t *testing.T) {
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	for range 3 {
		vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
	}
	if n := logins(e); n != 1 {
		t.Errorf("%d logins for three sweeps, want 1", n)
	}
	e.Log.Reset()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	ended := map[string]bool{}
	for _, c := range e.Log.Calls() {
		ended[c.Method] = true
	}
	if !ended["Logout"] || !ended["DELETE /rest/com/vmware/cis/session"] {
		t.Errorf("Close called %v", ended)
	}
}

// The number of calls does not grow with the number of machines, but for pages.
func TestVSphereCalls(t *testing.T) {
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	vsphereSweep(t, p, e.Owners())
	e.Log.Reset()
	vsphereSweep(t, p, e.Owners())
	if calls := e.Log.Calls(); len(calls) > 12 {
		t.Errorf("%d calls for one sweep of %d machines: %v", len(calls), len(e.Machines), methods(calls))
	}
}

func methods(calls []vspherecluster.Call) []string {
	var out []string
	for _, c := range calls {
		out = append(out, c.Method)
	}
	return out
}

func logins(e *vspherecluster.Environment) int {
	n := 0
	for _, c := range e.Log.Calls() {
		if c.Method == "Login" {
			n++
		}
	}
	return n
}

// failing has the simulator answer some calls with an error.
func failing(what string, match func(vspherecluster.Call) bool) func(*testing.T, *vspherecluster.Environment) *vsphere.Provider {
	return func(t *testing.T, e *vspherecluster.Environment) *vsphere.Provider {
		e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
			if !match(c) {
				return false
			}
			http.Error(w, what+" is down for maintenance", http.StatusServiceUnavailable)
			return true
		})
		t.Cleanup(func() { e.Log.Fail(nil) })
		return vsphereProvider(t, e)
	}
}

func server(e *vspherecluster.Environment, address string) {
	e.VSphereCluster.Spec.Server = address
	for _, z := range e.Zones {
		z.Spec.Server = address
	}
}

func thumbprint(t *testing.T, e *vspherecluster.Environment, pin string) {
	old := e.VSphereCluster.Spec.Thumbprint
	e.VSphereCluster.Spec.Thumbprint = pin
	t.Cleanup(func() { e.VSphereCluster.Spec.Thumbprint = old })
}

func providerWith(t *testing.T, e *vspherecluster.Environment, edit func(*corev1.Secret)) *vsphere.Provider {
	old := e.Secrets
	changed := old[0].DeepCopy()
	edit(changed)
	e.Secrets = []*corev1.Secret{changed}
	defer func() { e.Secrets = old }()
	return vsphereProvider(t, e)
}

func destroy(t *testing.T, e *vspherecluster.Environment, name string) {
	t.Helper()
	vm, err := e.Finder.VirtualMachine(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	off, err := vm.PowerOff(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := off.WaitEx(t.Context()); err != nil {
		t.Fatal(err)
	}
	task, err := vm.Destroy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := task.WaitEx(t.Context()); err != nil {
		t.Fatal(err)
	}
}
