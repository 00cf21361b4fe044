package suites

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/providertest"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// The vSphere provider keeps the contract of all providers.
func TestVSphereContract(t *testing.T) {
	fails := map[string]func(vspherecluster.Call) bool{
		providers.KindVirtualMachine: func(c vspherecluster.Call) bool {
			return c.Method == "RetrievePropertiesEx" && strings.Contains(c.Body, "config.hardware")
		},
		providers.KindVirtualMachine + "/tags":          func(c vspherecluster.Call) bool { return strings.Contains(c.Method, "tagging") },
		providers.KindVirtualMachine + "/storagePolicy": func(c vspherecluster.Call) bool { return strings.HasPrefix(c.Method, "Pbm") },
	}
	kinds := []string{}
	for kind := range fails {
		kinds = append(kinds, kind)
	}
	providertest.Run(t, providertest.Harness{
		Registration: vsphere.Registration(),
		NotTampered: map[string]string{
			"VirtualMachine/storagePolicy": "the simulator associates no storage policy: TestVSphereApplyStoragePolicy",
		},
		New: func(t *testing.T) *providertest.Environment {
			e := vsphereEnv(t, vspherecluster.Full)
			return &providertest.Environment{
				Provider:  vsphereProvider(t, e),
				Owners:    e.Owners(),
				Mutations: func() int { return len(e.Log.Mutating()) },
				Tampers:   contractTampers(e),
				Absent: []providers.ID{
					{Kind: providers.KindVirtualMachine, Name: "00000000-1111-2222-3333-444444444444"},
					{Kind: providers.KindVirtualMachine, Name: "vm-99999"},
				},
				FailKinds: kinds,
				FailKind: func(_ *testing.T, kind string) func() {
					e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
						if !fails[kind](c) {
							return false
						}
						http.Error(w, "down", http.StatusServiceUnavailable)
						return true
					})
					return func() { e.Log.Fail(nil) }
				},
				Remove: func(t *testing.T) providers.ID {
					destroy(t, e, e.Machines[3].Name)
					bios := e.VSphereVMs[3].Spec.BiosUUID
					return providers.ID{Kind: providers.KindVirtualMachine, Name: bios}
				},
				// CAPV gives its clones the VSphereVM's UID as instance UUID.
				SeenAs: func(id providers.ID) providers.ID {
					for _, vm := range e.VSphereVMs {
						if vm.Spec.BiosUUID == id.Name {
							id.Name = string(vm.UID)
						}
					}
					return id
				},
			}
		},
	})
}
