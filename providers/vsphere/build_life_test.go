package vsphere

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// A machine is cloned as its spec says, set up, powered on, told to be ready with
// its addresses, found in sync, and destroyed.
func TestBuildMachineLife(t *testing.T) {
	w := newBuildWorld(t)
	vspherecluster.Full(w.m)
	onNVMe := func(s *infrav1.VSphereMachineSpec) { s.Datastore = "nvme-1" }
	for name, tt := range map[string]struct {
		template, zone, pool, host string
		edit                       []func(*infrav1.VSphereMachineSpec)
	}{
		"control plane": {template: "control-plane", pool: "k8s-prod"},
		"newer hardware": {template: "control-plane", pool: "k8s-prod", edit: []func(*infrav1.VSphereMachineSpec){func(s *infrav1.VSphereMachineSpec) {
			s.HardwareVersion = "vmx-19"
		}}},
		"two networks":   {template: "general", pool: "k8s-prod"},
		"failure domain": {template: "batch", zone: "fra1-b-prod", pool: "k8s-batch"},
		"static address": {template: "ingress", pool: "k8s-prod", edit: []func(*infrav1.VSphereMachineSpec){onNVMe}},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.machine(tt.template, "life-"+strings.ReplaceAll(name, " ", "-")+"-"+tt.template, tt.edit...)
			if tt.zone != "" {
				o.Machine.Spec.FailureDomain, o.Zone = tt.zone, tt.zone
			}
			w.t = t
			w.build(w.p, o)
			inSync(t, w, o)
			machine, vm := infraOf(o), w.vm(o.Machine.Name)
			if want := "vsphere://" + vm.Config.Uuid; machine.Spec.ProviderID != want {
				t.Errorf("provider id %q, want %q", machine.Spec.ProviderID, want)
			}
			if vm.Config.InstanceUuid != string(machine.UID) {
				t.Errorf("instance UUID %s, want the owner's UID %s", vm.Config.InstanceUuid, machine.UID)
			}
			if !ptr.Deref(machine.Status.Initialization.Provisioned, false) || len(machine.Status.Addresses) != 2 ||
				!meta.IsStatusConditionTrue(machine.Status.Conditions, "Ready") {
				t.Errorf("status %+v", machine.Status)
			}
			if pool, _ := w.v.Finder.ResourcePool(t.Context(), tt.pool); pool.Reference() != *vm.ResourcePool {
				t.Errorf("it is in another pool than %s", tt.pool)
			}
			guestData(t, w, o)
			if err := w.unmake(w.p, o); err != nil {
				t.Errorf("delete: %v", err)
			}
			if _, there := w.vms()[o.Machine.Name]; there {
				t.Error("it is still there")
			}
		})
	}
}

// inSync makes sure that drift detection finds nothing at what was built, but what
// the simulator does not know.
func inSync(t *testing.T, w *buildWorld, o *providers.Owner) {
	t.Helper()
	scope, err := w.p.Scope(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := w.p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	want, err := w.p.Desired(o, snap)
	if err != nil {
		t.Fatal(err)
	}
	found := detector.Compare(o, want, snap, detector.Options{Building: true})
	if len(found.InSync) == 0 {
		t.Errorf("nothing is in sync: %+v", found.Findings)
	}
	for _, f := range found.Findings {
		if f.Status != detector.NotChecked {
			t.Errorf("%s: %s %+v", f.Status, f.Reason, f.Diffs)
		}
	}
	// Nothing changes in the status where nothing has changed.
	before := infraOf(o).DeepCopy()
	if waiting := w.p.Note(o, snap, providers.Progress{Plan: want[:1]}); waiting != "" {
		t.Errorf("it waits for %s", waiting)
	}
	if !jsonEqual(t, before, infraOf(o)) {
		t.Errorf("Note changed %+v into %+v", before.Status, infraOf(o).Status)
	}
}

func jsonEqual(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := yaml.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

// guestData checks what the guest boots with.
func guestData(t *testing.T, w *buildWorld, o *providers.Owner) {
	t.Helper()
	vm := w.vm(o.Machine.Name)
	user, _ := base64.StdEncoding.DecodeString(option(vm, "guestinfo.userdata"))
	if string(user) != string(testBoot.Value) || option(vm, "guestinfo.userdata.encoding") != "base64" {
		t.Errorf("user data %q", user)
	}
	raw, _ := base64.StdEncoding.DecodeString(option(vm, "guestinfo.metadata"))
	var meta struct {
		Hostname string `json:"local-hostname"`
		Network  struct {
			Ethernets map[string]struct {
				Match     struct{ MacAddress string }
				DHCP4     bool
				Addresses []string
				Gateway4  string
			}
		}
	}
	if err := yaml.Unmarshal(raw, &meta); err != nil {
		t.Fatal(err)
	}
	cards := cardsOf(&machine{hw: vm.Config.Hardware})
	if meta.Hostname != o.Machine.Name || len(meta.Network.Ethernets) != len(cards) {
		t.Errorf("metadata %s", raw)
	}
	for i, card := range cards {
		e := meta.Network.Ethernets["id"+string(rune('0'+i))]
		want := infraOf(o).Spec.Network.Devices[i]
		if e.Match.MacAddress != card.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress ||
			e.DHCP4 != ptr.Deref(want.DHCP4, false) || !slices.Equal(e.Addresses, want.IPAddrs) || e.Gateway4 != want.Gateway4 {
			t.Errorf("adapter %d of metadata %s", i, raw)
		}
	}
}
