package vsphere

import (
	"strings"
	"testing"

	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ktypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// cloneCall gives the call that clones a machine of the template.
func (w *buildWorld) cloneCall(edit func(*infrav1.VSphereMachineSpec)) string {
	w.t.Helper()
	w.v.Log.Reset()
	if _, err := w.pass(w.p, w.machine("control-plane", "call", edit)); err != nil {
		w.t.Fatal(err)
	}
	for _, c := range w.v.Log.Calls() {
		if c.Method == "CloneVM_Task" {
			for name, vm := range w.vms() {
				if name == "call" {
					task, err := vimobject.NewVirtualMachine(w.v.Client.Client, vm.Self).Destroy(w.t.Context())
					if err == nil {
						err = task.WaitEx(w.t.Context())
					}
					if err != nil {
						w.t.Fatal(err)
					}
				}
			}
			return c.Body
		}
	}
	w.t.Fatal("nothing was cloned")
	return ""
}

// What the simulator leaves out of a clone is in the call: snapshots, move types,
// policies, flags and what else needs no second step on a real vCenter.
func TestBuildCloneCall(t *testing.T) {
	w := newBuildWorld(t)
	snapshot := func(name string) {
		vm, err := w.v.Finder.VirtualMachine(t.Context(), "/fra1/vm/templates/"+vspherecluster.Template)
		if err != nil {
			t.Fatal(err)
		}
		task, err := vm.CreateSnapshot(t.Context(), name, "", false, false)
		if err == nil {
			err = task.WaitEx(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	type spec = infrav1.VSphereMachineSpec
	check := func(name string, edit func(*spec), has, hasNot []string) {
		t.Helper()
		body := w.cloneCall(edit)
		for _, s := range has {
			if !strings.Contains(body, s) {
				t.Errorf("%s: no %s in %s", name, s, body)
			}
		}
		for _, s := range hasNot {
			if strings.Contains(body, s) {
				t.Errorf("%s: %s is in %s", name, s, body)
			}
		}
	}
	full, linked := "moveAllDiskBackingsAndDisallowSharing", "createNewChildDiskBacking"
	linkedMode := func(s *spec) { s.CloneMode = infrav1.LinkedClone }
	check("no snapshot", linkedMode, []string{full, "<diskUuidEnabled>true<", "<vAppConfigRemoved>true<", "<reservation>16384<", "<numCoresPerSocket>2<"}, []string{"<snapshot", "<host"})
	snapshot("base")
	snapshot("later")
	check("linked", linkedMode, []string{linked, "<snapshot type="}, []string{full})
	check("by default", func(s *spec) { s.CloneMode = "" }, []string{linked}, nil)
	check("full", func(s *spec) { s.CloneMode = infrav1.FullClone }, []string{full}, []string{"<snapshot"})
	check("named", func(s *spec) { s.CloneMode, s.Snapshot = infrav1.LinkedClone, "base" }, []string{linked}, nil)
	check("policy", func(s *spec) { s.StoragePolicyName, s.Datastore = "vSAN Default Storage Policy", "" }, []string{"<profileId>", "VirtualMachineDefinedProfileSpec"}, nil)
	check("hardware", func(s *spec) {
		s.NestedHV, s.FtEncryptionMode, s.MigrateEncryption = ptr.To(true), infrav1.FtEncryptionRequired, infrav1.RequiredMigrateEncryption
		s.PciDevices = []infrav1.PCIDeviceSpec{{VGPUProfile: "grid"}}
		s.NumCPUs, s.MemoryMiB = 0, 0
	}, []string{"<nestedHVEnabled>true<", "ftEncryptionRequired", "<migrateEncryption>required<", "<memoryReservationLockedToMax>true<", "<numCPUs>2<", "<memoryMB>2048<"}, nil)
	check("a template by path", func(s *spec) { s.Template = "/fra1/vm/templates/" + vspherecluster.Template }, []string{full}, nil)
	uuid := ""
	for _, vm := range w.v.Model.Map().All("VirtualMachine") {
		if m, err := vimobject.NewVirtualMachine(w.v.Client.Client, vm.Reference()).IsTemplate(t.Context()); err == nil && m {
			if uuid == "" {
				uuid = instanceOf(t, w, vm.Reference())
			}
		}
	}
	check("a template by instance UUID", func(s *spec) { s.Template = strings.ToUpper(uuid) }, []string{full}, nil)
}

func instanceOf(t *testing.T, w *buildWorld, ref types.ManagedObjectReference) string {
	t.Helper()
	objects, err := retrieveRefs(t.Context(), w.v.Client.Client, []types.ManagedObjectReference{ref}, []types.PropertySpec{{Type: ref.Type, PathSet: []string{"config.instanceUuid"}}})
	if err != nil {
		t.Fatal(err)
	}
	return objects[0].str("config.instanceUuid")
}

// The names of virtual machines are those that CAPV gives.
func TestBuildNames(t *testing.T) {
	for name, tt := range map[string]struct {
		machine, template string
		os                infrav1.OS
		want              string // "" is an error
	}{
		"plain":         {machine: "kcp-abcde", want: "kcp-abcde"},
		"template":      {machine: "kcp-abcde", template: "vm-{{ .machine.name }}", want: "vm-kcp-abcde"},
		"trunc":         {machine: "kcp-abcde", template: "{{ trunc 3 .machine.name }}{{ trunc -5 .machine.name }}", want: "kcpabcde"},
		"trimSuffix":    {machine: "kcp-abcde", template: `{{ .machine.name | trimSuffix "-abcde" }}`, want: "kcp"},
		"too long":      {machine: strings.Repeat("a", 80), template: "{{ .machine.name }}", want: strings.Repeat("a", 63)},
		"windows":       {machine: "windows-workers-x7k2p", os: infrav1.Windows, want: "windows-w-x7k2p"},
		"windows, cut":  {machine: "win-work-ers-x7k2p", os: infrav1.Windows, want: "win-work-x7k2p"},
		"short windows": {machine: "win-x7k2p", os: infrav1.Windows, want: "win-x7k2p"},
		"unknown field": {machine: "m", template: "{{ .machine.namespace }}"},
		"broken":        {machine: "m", template: "{{ .machine.name"},
		"a slash":       {machine: "m", template: "a/{{ .machine.name }}"},
		"nothing":       {machine: "m", template: "{{ trunc 0 .machine.name }}"},
		"no machine":    {},
	} {
		t.Run(name, func(t *testing.T) {
			o := &providers.Owner{Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: tt.machine}}}
			m := &infrav1.VSphereMachine{}
			m.Spec.Naming.Template, m.Spec.OS = tt.template, tt.os
			got, err := nameOf(o, m)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// Instance UUIDs are the owner's UIDs, and stay.
func TestBuildInstanceUUID(t *testing.T) {
	for uid, want := range map[string]string{
		"5033B2C1-0000-1111-2222-333344445555": "5033b2c1-0000-1111-2222-333344445555",
		"m1-uid":                               "6d881661-63fd-5561-9e83-869da3d05fc6",
	} {
		if got, err := instanceUUID(providers.OwnerRef{UID: ktypes.UID(uid)}); err != nil || got != want {
			t.Errorf("%s gives %s, %v", uid, got, err)
		}
	}
	if _, err := instanceUUID(providers.OwnerRef{}); err == nil {
		t.Error("an owner without a UID has one")
	}
}

// Static addresses, routes and the rest of a device are in the metadata.
func TestBuildEthernet(t *testing.T) {
	d := &infrav1.NetworkDeviceSpec{
		DeviceName: "ens192", IPAddrs: []string{"10.0.0.4/24", "2001:db8::4/64"}, Gateway4: "10.0.0.1", Gateway6: "2001:db8::1",
		MTU: ptr.To[int64](9000), Nameservers: []string{"10.0.0.2"}, SearchDomains: []string{"example.com"},
		Routes:         []infrav1.NetworkRouteSpec{{To: "10.9.0.0/16", Via: "10.0.0.9", Metric: ptr.To[int32](5)}},
		DHCP4Overrides: &infrav1.DHCPOverrides{UseDNS: ptr.To(false), RouteMetric: ptr.To[int32](7), UseRoutes: ptr.To("true")},
	}
	got, err := yaml.Marshal(ethernet(d, 0, "00:50:56:00:00:01"))
	if err != nil {
		t.Fatal(err)
	}
	want := `accept-ra: false
addresses:
- 10.0.0.4/24
- 2001:db8::4/64
dhcp4: false
dhcp4-overrides:
  route-metric: 7
  use-dns: false
  use-routes: "true"
dhcp6: false
gateway4: 10.0.0.1
gateway6: 2001:db8::1
match:
  macaddress: "00:50:56:00:00:01"
mtu: 9000
nameservers:
  addresses:
  - 10.0.0.2
  search:
  - example.com
routes:
- metric: 5
  to: 10.9.0.0/16
  via: 10.0.0.9
set-name: ens192
wakeonlan: true
`
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
	if four, six := families(d); !four || !six {
		t.Errorf("waits for IPv4 %v, IPv6 %v", four, six)
	}
}
