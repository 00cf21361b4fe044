package vsphere

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// machineProps are what is read of each virtual machine, and nothing more:
// config alone would bring the whole VMX file. config.hardware is the dearest,
// and the only place of disks, adapters and cores per socket.
var machineProps = []string{
	"name", "parent", "resourcePool", "datastore",
	"config.instanceUuid", "config.uuid", "config.template", "config.version",
	"config.hardware", "config.extraConfig", "config.files.vmPathName",
	"config.cpuAllocation", "config.memoryAllocation",
	"config.cpuHotAddEnabled", "config.memoryHotAddEnabled",
	"config.nestedHVEnabled", "config.ftEncryptionMode", "config.migrateEncryption",
	"runtime.powerState", "runtime.connectionState", "runtime.host",
	"guest.net", "guest.toolsRunningStatus", "snapshot",
}

// closedParts are path prefixes that are complete once their property was
// read.
var closedParts = map[string][]string{
	"config.hardware":    {"/disks", "/networks", "/pciDevices"},
	"config.extraConfig": {"/extraConfig"},
}

// machineReader turns a virtual machine as read into a resource.
type machineReader struct {
	inv    *inventory
	secret secret
	// paths are the pointers of VMX keys by key: thousands of machines have
	// the same dozens of keys.
	paths map[string]string
}

func (mr *machineReader) optionPath(key string) string {
	path, ok := mr.paths[key]
	if !ok {
		if mr.paths == nil {
			mr.paths = map[string]string{}
		}
		path = providers.Pointer("extraConfig", key)
		mr.paths[key] = path
	}
	return path
}

// resource gives the machine with its canonical fields. Its id is the instance
// UUID; a machine that reports none is named by its managed object and can
// never be matched by a UUID.
func (mr *machineReader) resource(o *object) *providers.Resource {
	r := &providers.Resource{ID: providers.ID{Kind: providers.KindVirtualMachine, Name: o.ref.Value}, Name: o.str("name")}
	r.Set("/moid", field(providers.String(o.ref.Value)))
	if r.Name != "" {
		r.Set("/name", field(providers.String(r.Name)))
	}
	instance, err := canonical.UUID(o.str("config.instanceUuid"))
	if err == nil {
		r.ID.Name = instance
	}
	bios, biosErr := canonical.UUID(o.str("config.uuid"))
	if biosErr == nil {
		r.Set("/biosUuid", field(providers.String(bios)))
	}
	r.Unknown = unknownState(o, err, biosErr)
	mr.place(o, r)
	mr.scalars(o, r)
	mr.hardware(o, r)
	mr.extraConfig(o, r)
	mr.guest(o, r)
	snapshots(o, r)
	for property, prefixes := range closedParts {
		if o.props[property] != nil {
			r.Closed = append(r.Closed, prefixes...)
		}
	}
	slices.Sort(r.Closed)
	for _, property := range slices.Sorted(maps.Keys(o.missing)) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s could not be read: %s", property, o.missing[property]))
	}
	return r
}

func field(v providers.Value) providers.Field { return providers.Field{Value: v} }

// unknownState says why nothing can be told about a machine although it is in
// the inventory. Only a connected machine's configuration is current
// (VirtualMachineConnectionState).
func unknownState(o *object, instanceErr, biosErr error) string {
	state := o.str("runtime.connectionState")
	if state != "" && state != string(types.VirtualMachineConnectionStateConnected) {
		return "vCenter shows the virtual machine as " + state
	}
	if fault := o.missing["runtime.connectionState"]; fault != "" {
		return "its connection state could not be read: " + fault
	}
	if instanceErr == nil && biosErr == nil {
		return ""
	}
	for _, property := range []string{"config.uuid", "config.instanceUuid"} {
		if fault := o.missing[property]; fault != "" {
			return property + " could not be read: " + fault
		}
	}
	return "incomplete observation: vCenter reports no UUID for it"
}

func (mr *machineReader) place(o *object, r *providers.Resource) {
	if folder := mr.inv.entities[o.refTo("parent")]; folder != nil && folder.path != "" {
		r.Set("/folder", field(providers.String(folder.path)))
		r.Set("/datacenter", field(providers.String(folder.datacenter)))
	}
	if pool := mr.inv.entities[o.refTo("resourcePool")]; pool != nil && pool.path != "" {
		r.Set("/resourcePool", field(providers.String(pool.path)))
		if _, ok := r.Fields.Lookup("/datacenter"); !ok {
			// A machine in a vApp has no folder.
			r.Set("/datacenter", field(providers.String(pool.datacenter)))
		}
	}
	if ds := mr.homeDatastore(o, r); ds != nil && ds.path != "" {
		r.Set("/datastore", field(providers.String(ds.path)))
	}
	if host := mr.inv.entities[o.refTo("runtime.host")]; host != nil {
		r.Set("/host", field(providers.String(host.name)))
	}
	groups := slices.Clone(mr.inv.vmGroups[o.ref])
	r.Set("/vmGroups", field(providers.Set(groups...)))
}

// homeDatastore is the one datastore that a machine uses, and where there are
// several, because of ISO images and CSI volumes, the one that holds its VMX
// file: "[datastore] folder/name.vmx".
func (mr *machineReader) homeDatastore(o *object, r *providers.Resource) *entity {
	if all, ok := o.props["datastore"].(types.ArrayOfManagedObjectReference); ok && len(all.ManagedObjectReference) == 1 {
		return mr.inv.entities[all.ManagedObjectReference[0]]
	}
	return mr.inv.datastoreNamed(r.Fields.Get("/datacenter").Value.Text(), o.str("config.files.vmPathName"))
}

func (mr *machineReader) scalars(o *object, r *providers.Resource) {
	if s := o.str("runtime.powerState"); s != "" {
		r.Set("/powerState", field(providers.String(s)))
	}
	if n, err := canonical.HardwareVersion(o.str("config.version")); err == nil {
		r.Set("/hardwareVersion", field(providers.Int(n)))
	}
	for path, property := range map[string]string{
		"/nestedHV": "config.nestedHVEnabled", "/cpuHotAdd": "config.cpuHotAddEnabled", "/memoryHotAdd": "config.memoryHotAddEnabled",
	} {
		if on, ok := boolean(o.props[property]); ok {
			r.Set(path, field(providers.Bool(on)))
		}
	}
	for path, property := range map[string]string{
		"/ftEncryptionMode": "config.ftEncryptionMode", "/migrateEncryption": "config.migrateEncryption",
	} {
		if s := o.str(property); s != "" {
			r.Set(path, field(providers.String(s)))
		}
	}
	allocation(r, "cpu", o.props["config.cpuAllocation"])
	allocation(r, "memory", o.props["config.memoryAllocation"])
}

func boolean(v any) (on, ok bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case *bool:
		return v != nil && *v, v != nil
	default:
		return false, false
	}
}

// allocation gives reservation, limit and shares in MHz or MiB, as vSphere
// counts them (ResourceAllocationInfo). An unlimited limit is -1.
func allocation(r *providers.Resource, what string, v any) {
	info, ok := v.(types.ResourceAllocationInfo)
	if !ok {
		return
	}
	if info.Reservation != nil {
		r.Set("/resources/requests/"+what, field(providers.Int(*info.Reservation)))
	}
	if info.Limit != nil {
		r.Set("/resources/limits/"+what, field(providers.Int(*info.Limit)))
	}
	if info.Shares != nil {
		r.Set("/resources/shares/"+what, field(providers.Int(info.Shares.Shares)))
	}
}

func (mr *machineReader) extraConfig(o *object, r *providers.Resource) {
	options, ok := o.props["config.extraConfig"].(types.ArrayOfOptionValue)
	if !ok {
		return
	}
	for _, option := range options.OptionValue {
		if option == nil {
			continue
		}
		v := option.GetOptionValue()
		r.Set(mr.optionPath(v.Key), mr.secret.option(v.Key, optionText(v.Value)))
	}
}

func optionText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

// snapshots gives the names of all snapshots, also of nested ones.
func snapshots(o *object, r *providers.Resource) {
	if o.missing["snapshot"] != "" {
		return
	}
	names := []string{}
	if info, ok := o.props["snapshot"].(types.VirtualMachineSnapshotInfo); ok {
		pending := slices.Clone(info.RootSnapshotList)
		for len(pending) > 0 {
			tree := pending[len(pending)-1]
			pending = append(pending[:len(pending)-1], tree.ChildSnapshotList...)
			names = append(names, tree.Name)
		}
	}
	r.Set("/snapshots", field(providers.Set(names...)))
}

// sortByKey orders devices by key, in which vSphere numbers them.
func sortByKey[D types.BaseVirtualDevice](devices []D) {
	slices.SortStableFunc(devices, func(a, b D) int {
		return cmp.Compare(a.GetVirtualDevice().Key, b.GetVirtualDevice().Key)
	})
}

// MachineProperties gives the properties that one bulk read asks of each
// virtual machine, in the words of the vSphere API. What a read-only role must
// be able to see, and what a plain reader must ask for to see as much.
func MachineProperties() []string { return slices.Clone(machineProps) }
