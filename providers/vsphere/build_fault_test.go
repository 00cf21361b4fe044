package vsphere

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// What is wrong with a spec is said before anything is cloned, with what to do.
func TestBuildWrongSpec(t *testing.T) {
	w := newBuildWorld(t)
	type spec = infrav1.VSphereMachineSpec
	for name, tt := range map[string]struct {
		edit func(*spec)
		says string
	}{
		"no template":       {func(s *spec) { s.Template = "" }, "set spec.template"},
		"missing template":  {func(s *spec) { s.Template = "ubuntu-9999" }, `no template "ubuntu-9999"`},
		"missing network":   {func(s *spec) { s.Network.Devices[0].NetworkName = "vlan-9" }, `no network "vlan-9"`},
		"no network":        {func(s *spec) { s.Network.Devices = nil }, "names none"},
		"missing folder":    {func(s *spec) { s.Folder = "nowhere" }, `no folder "nowhere"`},
		"missing path":      {func(s *spec) { s.Folder = "/fra1/vm/nowhere" }, "no folder /fra1/vm/nowhere"},
		"missing pool":      {func(s *spec) { s.ResourcePool = "none" }, `no resourcePool "none"`},
		"ambiguous pool":    {func(s *spec) { s.ResourcePool = "*" }, "name one by its path"},
		"missing datastore": {func(s *spec) { s.Datastore = "nvme-9" }, `no datastore "nvme-9"`},
		"which datastore":   {func(s *spec) { s.Datastore = "" }, "name one by its path"},
		"missing policy":    {func(s *spec) { s.StoragePolicyName = "gold" }, `no storage policy "gold"`},
		"missing snapshot":  {func(s *spec) { s.CloneMode, s.Snapshot = infrav1.LinkedClone, "base" }, `0 snapshots "base"`},
		"pools of addresses": {func(s *spec) {
			s.Network.Devices[0].AddressesFromPools = []infrav1.IPPoolReference{{Name: "p", Kind: "InClusterIPPool"}}
		}, "IPAddressClaims"},
		"no address":          {func(s *spec) { s.Network.Devices[0].DHCP4 = nil }, "neither dhcp4"},
		"encryption":          {func(s *spec) { s.CryptoKeyID = "kms" }, "no encrypted machines"},
		"naming":              {func(s *spec) { s.Naming.Template = "{{ .machine.nam }}" }, "spec.naming.template"},
		"wrong MAC":           {func(s *spec) { s.Network.Devices[0].MACAddr = "zz" }, "macAddr"},
		"another's name":      {nil, "which is not this machine's"},
		"a name in the plan?": {func(s *spec) { s.HardwareVersion = "nine" }, "hardwareVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			o := w.machine("control-plane", "wrong")
			if tt.edit == nil {
				first := w.machine("control-plane", "wrong")
				w.build(w.p, first)
				defer func() { _ = w.unmake(w.p, first) }()
			} else {
				tt.edit(&infraOf(o).Spec)
			}
			w.v.Log.Reset()
			waiting, err := w.pass(w.p, o)
			if err == nil || !strings.Contains(waiting, tt.says) {
				t.Errorf("waits for %q, %v", waiting, err)
			}
			c := meta.FindStatusCondition(infraOf(o).Status.Conditions, infrav1.VSphereMachineVirtualMachineProvisionedCondition)
			if c == nil || c.Status != "False" || !strings.Contains(c.Message, tt.says) {
				t.Errorf("condition %+v", c)
			}
			if writes := w.v.Log.Mutating(); len(writes) != 0 {
				t.Errorf("it wrote %q", writes)
			}
		})
	}
}

// failing is a template whose clones end with a fault.
type failing struct {
	simulator.VirtualMachine
	fault types.BaseMethodFault
}

func (f *failing) CloneVMTask(ctx *simulator.Context, _ *types.CloneVM_Task) soap.HasFault {
	task := simulator.CreateTask(f, "cloneVm", func(*simulator.Task) (types.AnyType, types.BaseMethodFault) { return nil, f.fault })
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: task.Run(ctx)}}
}

// What vCenter says to a clone is told in its words, with what to do about it. Once
// it is out of the way, the machine is made.
func TestBuildFaults(t *testing.T) {
	w := newBuildWorld(t)
	found, err := w.v.Finder.VirtualMachine(t.Context(), "/fra1/vm/templates/"+vspherecluster.Template)
	if err != nil {
		t.Fatal(err)
	}
	registry := w.v.Model.Map()
	real := registry.Get(found.Reference()).(*simulator.VirtualMachine)
	for name, tt := range map[string]struct {
		fault  types.BaseMethodFault
		says   []string
		refuse bool
	}{
		"full datastore":  {&types.NoDiskSpace{Datastore: "nvme-1"}, []string{"NoDiskSpace", "free space on it"}, true},
		"full vSAN":       {&types.InsufficientStorageSpace{}, []string{"InsufficientStorageSpace", "free space on it"}, true},
		"no permission":   {&types.NoPermission{PrivilegeId: "VirtualMachine.Provisioning.DeployTemplate"}, []string{"NoPermission", "VirtualMachine.Provisioning.DeployTemplate"}, true},
		"no memory":       {&types.InsufficientMemoryResourcesFault{}, []string{"InsufficientMemory", "have room"}, true},
		"no licence":      {&types.NotEnoughLicenses{}, []string{"NotEnoughLicenses", "licence"}, true},
		"lost host":       {&types.HostCommunication{}, []string{"HostCommunication"}, false},
		"a broken device": {&types.InvalidDeviceSpec{}, []string{"InvalidDeviceSpec", "spec.network.devices"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			o := w.machine("control-plane", "fault-"+strings.ReplaceAll(name, " ", "-"))
			broken := &failing{fault: tt.fault}
			broken.VirtualMachine = *real
			registry.Put(broken)
			waiting, err := w.pass(w.p, o)
			registry.Put(real)
			for _, s := range tt.says {
				if !strings.Contains(waiting, s) {
					t.Errorf("waits for %q, which does not say %q", waiting, s)
				}
			}
			var refused *providers.ApplyError
			if is := errors.As(err, &refused); is != tt.refuse {
				t.Errorf("%v is an ApplyError: %v", err, is)
			}
			w.build(w.p, o)
		})
	}
}

// A call that vCenter refuses outright is told as well.
func TestBuildNotPermitted(t *testing.T) {
	w := newBuildWorld(t)
	for _, method := range []string{"CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task"} {
		o := w.machine("control-plane", strings.ToLower(strings.TrimSuffix(method, "_Task")))
		w.v.Log.Fail(func(c vspherecluster.Call, rw http.ResponseWriter) bool {
			if c.Method == method {
				vspherecluster.Fault(rw, &types.NoPermission{})
			}
			return c.Method == method
		})
		var waiting string
		var err error
		for range mostPasses {
			if waiting, err = w.pass(w.p, o); err != nil {
				break
			}
		}
		w.v.Log.Fail(nil)
		if err == nil || !strings.Contains(waiting, "privilege") {
			t.Errorf("%s: waits for %q, %v", method, waiting, err)
		}
		w.build(w.p, o)
	}
}

// Without its cluster's infrastructure or bootstrap data, a machine says that it
// waits for them; without data that can be given, Create refuses.
func TestBuildWaits(t *testing.T) {
	w := newBuildWorld(t)
	o := w.machine("control-plane", "waits")
	o.Machine.Spec.Bootstrap.DataSecretName = nil
	if waiting := w.p.Note(o, nil, providers.Progress{}); !strings.Contains(waiting, "control plane") {
		t.Errorf("waits for %q", waiting)
	}
	o.ControlPlane = true
	if waiting := w.p.Note(o, nil, providers.Progress{}); !strings.Contains(waiting, "bootstrap data") {
		t.Errorf("waits for %q", waiting)
	}
	w.m.Cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(false)
	if waiting := w.p.Note(o, nil, providers.Progress{}); !strings.Contains(waiting, "infrastructure") {
		t.Errorf("waits for %q", waiting)
	}
	for name, data := range map[string]*providers.BootstrapData{
		"none": nil, "empty": {}, "unknown": {Value: []byte(bootSecret), Format: "powershell"},
	} {
		if _, err := bootOptions(data); err == nil || strings.Contains(err.Error(), bootSecret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	options, err := bootOptions(&providers.BootstrapData{Value: []byte("{}"), Format: "ignition"})
	if err != nil || options[0].GetOptionValue().Key != "guestinfo.ignition.config.data" || options[0].GetOptionValue().Value != "e30=" {
		t.Errorf("ignition: %v, %v", options, err)
	}
}
