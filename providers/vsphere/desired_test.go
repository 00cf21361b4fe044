package vsphere

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	testBIOS     = "4213cc4f-88f3-67bc-88fd-f5a04ad10a56"
	testInstance = "5033b2c1-0000-1111-2222-333344445555"
)

func machineOwner(mods ...func(*infrav1.VSphereMachine)) *providers.Owner {
	m := &infrav1.VSphereMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m1", UID: "m1-uid"}}
	m.Spec.ProviderID = "vsphere://" + testBIOS
	m.Spec.Template = "tpl"
	for _, mod := range mods {
		mod(m)
	}
	return &providers.Owner{
		Ref:     providers.OwnerRef{Kind: "VSphereMachine", Namespace: "prod", Name: "m1", UID: "m1-uid"},
		Cluster: &clusterv1.Cluster{}, Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m1"}}, Infra: m,
	}
}

func snapshotOf(resources ...*providers.Resource) *providers.Snapshot {
	snap := &providers.Snapshot{
		Coverage:  map[string]error{providers.KindVirtualMachine: nil},
		Resources: map[providers.ID]*providers.Resource{},
	}
	for _, r := range resources {
		snap.Resources[r.ID] = r
	}
	return snap
}

func seen(id providers.ID, name string, fields map[string]providers.Value) *providers.Resource {
	r := &providers.Resource{ID: id, Name: name, Closed: []string{"/disks"}}
	for p, v := range fields {
		r.Set(p, field(v))
	}
	return r
}

func seenVM(fields map[string]providers.Value) *providers.Resource {
	all := map[string]providers.Value{"/biosUuid": providers.String(testBIOS), "/moid": providers.String("vm-1")}
	maps.Copy(all, fields)
	return seen(virtualMachine(testInstance), "m1", all)
}

func wanted(t *testing.T, owner *providers.Owner, snap *providers.Snapshot) []providers.Resource {
	t.Helper()
	want, err := New(nil, noEnv).Desired(owner, snap)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func texts(r *providers.Resource) map[string]string {
	out := map[string]string{}
	for p, f := range r.Fields.All() {
		out[p] = f.Value.Text()
		if f.Match != providers.Exactly {
			out[p] += " " + f.Match.String()
		}
	}
	return out
}

// An unset field is no opinion: what is always wanted is all that is left.
func TestUnsetIsNoOpinion(t *testing.T) {
	owner := machineOwner(func(m *infrav1.VSphereMachine) { m.Spec.NumCoresPerSocket = ptr.To[int32](0) })
	want := wanted(t, owner, snapshotOf(seenVM(nil)))
	if len(want) != 1 || want[0].ID != virtualMachine(testInstance) {
		t.Fatalf("wanted %+v", want)
	}
	if diff := cmp.Diff(map[string]string{"/powerState": "poweredOn", "/snapshots": ""}, texts(&want[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWantedHardware(t *testing.T) {
	owner := machineOwner(func(m *infrav1.VSphereMachine) {
		m.Spec.NumCPUs, m.Spec.MemoryMiB, m.Spec.HardwareVersion = 4, 4096, "vmx-19"
		m.Spec.NumCoresPerSocket, m.Spec.NestedHV = ptr.To[int32](2), ptr.To(false)
		m.Spec.Resources.Requests.CPU = resource.MustParse("2500500000") // hertz
		m.Spec.Resources.Limits.Memory = resource.MustParse("4Gi")
		m.Spec.Resources.Shares.CPU = 1000
		m.Spec.PciDevices = []infrav1.PCIDeviceSpec{{VendorID: ptr.To[int32](0x10de), DeviceID: ptr.To[int32](0x1eb8)}, {VGPUProfile: "grid"}}
		m.Spec.CryptoKeyID = "key"
	})
	want := wanted(t, owner, snapshotOf(seenVM(nil)))
	got := texts(&want[0])
	for path, text := range map[string]string{
		"/numCPUs": "4", "/coresPerSocket": "2", "/memoryMiB": "4096", "/hardwareVersion": "19 AtLeast", "/nestedHV": "false",
		"/resources/requests/cpu": "2501", "/resources/limits/memory": "4096", "/resources/shares/cpu": "1000",
		"/pciDevices": "10de:1eb8, vgpu grid Contains",
	} {
		if got[path] != text {
			t.Errorf("%s: %q, want %q", path, got[path], text)
		}
	}
	if len(want) != 2 || !strings.Contains(want[1].Unchecked, "cryptoKeyID") {
		t.Errorf("what is not modelled is not named: %+v", want[1:])
	}
}

func TestBadSpecIsAnError(t *testing.T) {
	for name, mod := range map[string]func(*infrav1.VSphereMachine){
		"hardwareVersion": func(m *infrav1.VSphereMachine) { m.Spec.HardwareVersion = "nineteen" },
		"macAddr":         func(m *infrav1.VSphereMachine) { m.Spec.Network.Devices = []infrav1.NetworkDeviceSpec{{MACAddr: "zz"}} },
		"ipAddrs": func(m *infrav1.VSphereMachine) {
			m.Spec.Network.Devices = []infrav1.NetworkDeviceSpec{{IPAddrs: []string{"10.0.0.300/24"}}}
		},
	} {
		_, err := New(nil, noEnv).Desired(machineOwner(mod), snapshotOf(seenVM(nil)))
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "prod/m1") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The provider id means the BIOS UUID in either byte order, or the instance
// UUID.
func TestIdentifyByteOrders(t *testing.T) {
	for _, id := range []string{testBIOS, strings.ToUpper(testBIOS), "4fcc1342-f388-bc67-88fd-f5a04ad10a56", testInstance} {
		want := wanted(t, machineOwner(func(m *infrav1.VSphereMachine) { m.Spec.ProviderID = "vsphere://" + id }), snapshotOf(seenVM(nil)))
		if want[0].ID != virtualMachine(testInstance) {
			t.Errorf("provider id %s gave %s", id, want[0].ID)
		}
	}
}

func vsphereVM(mods ...func(*infrav1.VSphereVM)) *infrav1.VSphereVM {
	vm := &infrav1.VSphereVM{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m1", OwnerReferences: []metav1.OwnerReference{
		{Kind: "VSphereMachine", Name: "m1", UID: "m1-uid"},
	}}}
	for _, m := range mods {
		m(vm)
	}
	return vm
}

// A failure domain overrides placement and networks as in CAPV; without its
// objects CAPV's own copy counts, and without that nothing is claimed.
func TestFailureDomain(t *testing.T) {
	inventory := []*providers.Resource{seenVM(nil)}
	for kind, at := range map[string][]string{
		kindDatacenter: {"/dc1", "/dc2"}, kindFolder: {"/dc1/vm/a", "/dc2/vm/b"}, kindResourcePool: {"/dc1/host/c/Resources/p", "/dc2/host/c/Resources/q"},
		kindDatastore: {"/dc1/datastore/d", "/dc2/datastore/e"}, kindNetwork: {"/dc1/network/n", "/dc2/network/o"},
	} {
		for _, path := range at {
			fields := map[string]providers.Value{"/path": providers.String(path)}
			if kind == kindNetwork {
				fields["/networkName"] = providers.String(path[len(path)-1:])
			}
			inventory = append(inventory, seen(providers.ID{Kind: kind, Name: path}, path, fields))
		}
	}
	owner := func() *providers.Owner {
		o := machineOwner(func(m *infrav1.VSphereMachine) {
			m.Spec.Datacenter, m.Spec.Folder, m.Spec.ResourcePool, m.Spec.Datastore = "dc1", "a", "p", "d"
			m.Spec.Network.Devices = []infrav1.NetworkDeviceSpec{{NetworkName: "n"}}
		})
		o.Machine.Spec.FailureDomain = "z"
		return o
	}
	zone := &infrav1.VSphereDeploymentZone{ObjectMeta: metav1.ObjectMeta{Name: "z"}, Spec: infrav1.VSphereDeploymentZoneSpec{
		FailureDomain: "fd", PlacementConstraint: infrav1.PlacementConstraint{Folder: "/dc2/vm/b", ResourcePool: "q"},
	}}
	domain := &infrav1.VSphereFailureDomain{ObjectMeta: metav1.ObjectMeta{Name: "fd"}, Spec: infrav1.VSphereFailureDomainSpec{Topology: infrav1.Topology{
		Datacenter: "dc2", Datastore: "e", Networks: []string{"o", "o"}, Hosts: infrav1.FailureDomainHosts{VMGroupName: "vms"},
	}}}
	copied := vsphereVM(func(vm *infrav1.VSphereVM) {
		vm.Spec.Datacenter, vm.Spec.Folder, vm.Spec.Template = "dc2", "b", "tpl"
	})
	tests := map[string]struct {
		related []client.Object
		want    map[string]string
		says    string
	}{
		"domain": {
			related: []client.Object{zone, domain},
			want: map[string]string{
				"/datacenter": "/dc2", "/folder": "/dc2/vm/b", "/resourcePool": "/dc2/host/c/Resources/q", "/datastore": "/dc2/datastore/e",
				"/networks/0/networkName": "o", "/networks/1/networkName": "o", "/networkCount": "2", "/vmGroups": "vms Contains",
			},
		},
		"CAPV's copy": {related: []client.Object{copied}, want: map[string]string{"/datacenter": "/dc2", "/folder": "/dc2/vm/b"}},
		"neither":     {want: map[string]string{"/networkCount": "1"}, says: `failure domain "z"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := owner()
			o.Related = tt.related
			want := wanted(t, o, snapshotOf(inventory...))
			got := texts(&want[0])
			maps.DeleteFunc(got, func(p, _ string) bool {
				return slices.Contains([]string{"/powerState", "/snapshots", "/name"}, p) || strings.HasSuffix(p, "adapterType")
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.says != "" && (len(want) < 2 || !strings.Contains(want[1].Unchecked, tt.says)) {
				t.Errorf("unchecked %+v, want one with %q", want[1:], tt.says)
			}
		})
	}
}

// A name that means nothing now is no drift: what is wanted is unknown.
func TestUnresolvedIsUnchecked(t *testing.T) {
	dc := seen(providers.ID{Kind: kindDatacenter, Name: "dc-1"}, "dc", map[string]providers.Value{"/path": providers.String("/dc")})
	owner := machineOwner(func(m *infrav1.VSphereMachine) {
		m.Spec.Folder, m.Spec.ResourcePool, m.Spec.Datastore = "gone", "/dc/host/c/Resources/gone", "*/gone"
		m.Spec.Network.Devices = []infrav1.NetworkDeviceSpec{{NetworkName: "gone"}}
	})
	want := wanted(t, owner, snapshotOf(seenVM(nil), dc))
	if _, ok := want[0].Fields.Lookup("/folder"); ok {
		t.Error("a folder that is not there is wanted")
	}
	if got := want[0].Fields.Get("/resourcePool").Value.Text(); got != "/dc/host/c/Resources/gone" {
		t.Errorf("resource pool %q: a whole path says what is wanted also when nothing is there", got)
	}
	var parts []string
	for _, w := range want[1:] {
		parts = append(parts, strings.TrimPrefix(w.ID.Name, testInstance+"/"))
	}
	if diff := cmp.Diff([]string{"network/devices/0/networkName", "folder", "datastore"}, parts); diff != "" {
		t.Errorf("unchecked (-want +got):\n%s", diff)
	}
}

func TestDesiredCluster(t *testing.T) {
	o := ownerOf(func(c *infrav1.VSphereCluster) {
		c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
		c.Spec.ClusterModules = []infrav1.ClusterModule{{ModuleUUID: "mod-1", TargetObjectName: "md"}}
	})
	want := wanted(t, o, snapshotOf())
	if len(want) != 1 || want[0].ID.Kind != kindClusterModule || want[0].Unchecked == "" {
		t.Errorf("wanted %+v, want the cluster module alone, unchecked", want)
	}
}

// C30: quantities are what they come to, however they are written, and MiB are
// binary.
func TestC30Quantities(t *testing.T) {
	for memory, want := range map[string]string{
		"3072Mi": "3072", "3Gi": "3072", "3221225472": "3072", "4Gi": "4096", "4G": "3815", "1": "1",
	} {
		all := wanted(t, machineOwner(func(m *infrav1.VSphereMachine) { m.Spec.Resources.Limits.Memory = resource.MustParse(memory) }), snapshotOf(seenVM(nil)))
		if got := all[0].Fields.Get("/resources/limits/memory").Value.Text(); got != want {
			t.Errorf("%s is %s MiB, want %s", memory, got, want)
		}
	}
	for cpu, want := range map[string]string{"1G": "1000", "1000M": "1000", "1000000000": "1000", "1000000000000m": "1000", "1000000001": "1001"} {
		all := wanted(t, machineOwner(func(m *infrav1.VSphereMachine) { m.Spec.Resources.Requests.CPU = resource.MustParse(cpu) }), snapshotOf(seenVM(nil)))
		if got := all[0].Fields.Get("/resources/requests/cpu").Value.Text(); got != want {
			t.Errorf("%s is %s MHz, want %s", cpu, got, want)
		}
	}
	for _, absurd := range []string{"9e99", "-1Gi"} {
		owner := machineOwner(func(m *infrav1.VSphereMachine) { m.Spec.Resources.Limits.Memory = resource.MustParse(absurd) })
		if _, err := New(nil, noEnv).Desired(owner, snapshotOf(seenVM(nil))); err == nil || !strings.Contains(err.Error(), "spec.resources.limits.memory") {
			t.Errorf("%s: %v, want an error that names the field", absurd, err)
		}
	}
}
