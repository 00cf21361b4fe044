package vspherecluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// Template is the machine template of the example, and its place.
const (
	Template       = "ubuntu-2404-kube-v1.34.2"
	templateFolder = "/fra1/vm/templates"
)

// furnish gives the simulator the inventory of the example: two compute
// clusters with pools, a datastore cluster, networks, folders, a template.
func (v *VCenter) furnish(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		v.renameAll, v.datastores, v.pools, v.storageCluster, v.folders, v.template, v.vmGroup, v.ExampleTags,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renameAll gives the model's objects the names of the example, datacenter
// last since it begins all paths.
func (v *VCenter) renameAll(ctx context.Context) error {
	for _, r := range [][2]string{
		{"/DC0/host/DC0_C0", "compute-a"},
		{"/DC0/host/DC0_C1", "compute-b"},
		{"/DC0/network/DC0_DVPG0", "k8s-nodes"},
		{"/DC0/network/DC0_DVPG1", "storage"},
		{"/DC0/network/DC0_DVPG2", "k8s-batch"},
		{"/DC0/network/DC0_DVPG3", "dmz"},
		{"/DC0", "fra1"},
	} {
		found, err := v.Finder.ManagedObjectList(ctx, r[0])
		if err != nil {
			return fmt.Errorf("find %s: %w", r[0], err)
		}
		if len(found) != 1 {
			return fmt.Errorf("find %s: %d objects", r[0], len(found))
		}
		if err := v.rename(ctx, found[0].Object.Reference(), r[1]); err != nil {
			return err
		}
	}
	dc, err := v.Finder.Datacenter(ctx, "/fra1")
	if err != nil {
		return err
	}
	v.Finder.SetDatacenter(dc)
	return nil
}

func (v *VCenter) rename(ctx context.Context, ref types.ManagedObjectReference, name string) error {
	task, err := object.NewCommon(v.Client.Client, ref).Rename(ctx, name)
	return wait(ctx, task, err, "rename "+ref.Value+" to "+name)
}

// waiter is a task of any kind.
type waiter interface{ WaitEx(context.Context) error }

func wait(ctx context.Context, task waiter, err error, what string) error {
	if err == nil {
		err = task.WaitEx(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// datastores are folders on disk, on every host.
func (v *VCenter) datastores(ctx context.Context) (err error) {
	if v.dir, err = os.MkdirTemp("", "vspherecluster-"); err != nil {
		return err
	}
	hosts, err := v.Finder.HostSystemList(ctx, "/fra1/host/*/*")
	if err != nil {
		return err
	}
	for _, name := range []string{"nvme-1", "nvme-2", "sata-1"} {
		dir := filepath.Join(v.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for _, host := range hosts {
			system, err := host.ConfigManager().DatastoreSystem(ctx)
			if err != nil {
				return err
			}
			if _, err := system.CreateLocalDatastore(ctx, name, dir); err != nil {
				return fmt.Errorf("create datastore %s on %s: %w", name, host.Name(), err)
			}
		}
	}
	return nil
}

func (v *VCenter) pools(ctx context.Context) error {
	for _, p := range [][2]string{{"compute-a", "k8s-prod"}, {"compute-a", "other"}, {"compute-b", "k8s-batch"}} {
		root, err := v.Finder.ResourcePool(ctx, "/fra1/host/"+p[0]+"/Resources")
		if err != nil {
			return err
		}
		if _, err := root.Create(ctx, p[1], types.DefaultResourceConfigSpec()); err != nil {
			return fmt.Errorf("create resource pool %s: %w", p[1], err)
		}
	}
	return nil
}

func (v *VCenter) storageCluster(ctx context.Context) error {
	folder, err := v.Finder.Folder(ctx, "/fra1/datastore")
	if err != nil {
		return err
	}
	pod, err := folder.CreateStoragePod(ctx, "nvme")
	if err != nil {
		return fmt.Errorf("create datastore cluster: %w", err)
	}
	var refs []types.ManagedObjectReference
	for _, name := range []string{"nvme-1", "nvme-2"} {
		ds, err := v.Finder.Datastore(ctx, "/fra1/datastore/"+name)
		if err != nil {
			return err
		}
		refs = append(refs, ds.Reference())
	}
	task, err := pod.MoveInto(ctx, refs)
	return wait(ctx, task, err, "move datastores into their cluster")
}

func (v *VCenter) folders(ctx context.Context) error {
	for _, f := range [][2]string{
		{"/fra1/vm", "templates"}, {"/fra1/vm", "k8s"}, {"/fra1/vm", "attic"}, {"/fra1/vm/k8s", "prod-fra"},
	} {
		parent, err := v.Finder.Folder(ctx, f[0])
		if err != nil {
			return err
		}
		if _, err := parent.CreateFolder(ctx, f[1]); err != nil {
			return fmt.Errorf("create folder %s/%s: %w", f[0], f[1], err)
		}
	}
	return nil
}

// template makes the template with one disk and one adapter.
func (v *VCenter) template(ctx context.Context) error {
	folder, err := v.Finder.Folder(ctx, templateFolder)
	if err != nil {
		return err
	}
	pool, err := v.Finder.ResourcePool(ctx, "/fra1/host/compute-a/Resources")
	if err != nil {
		return err
	}
	network, err := v.Finder.Network(ctx, "dmz")
	if err != nil {
		return err
	}
	backing, err := network.EthernetCardBackingInfo(ctx)
	if err != nil {
		return err
	}
	devices := object.VirtualDeviceList{}
	scsi, err := devices.CreateSCSIController("pvscsi")
	if err != nil {
		return err
	}
	devices = append(devices, scsi)
	d := devices.CreateDisk(scsi.(types.BaseVirtualController), types.ManagedObjectReference{}, "")
	d.CapacityInKB = templateDiskGiB << 20
	devices = append(devices, d)
	nic, err := object.EthernetCardTypes().CreateEthernetCard("vmxnet3", backing)
	if err != nil {
		return err
	}
	devices = append(devices, nic)
	changes, err := devices.ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	if err != nil {
		return err
	}
	task, err := folder.CreateVM(ctx, types.VirtualMachineConfigSpec{
		Name: Template, NumCPUs: 2, MemoryMB: 2048, Version: "vmx-17", GuestId: "ubuntu64Guest",
		Files:        &types.VirtualMachineFileInfo{VmPathName: "[nvme-1]"},
		DeviceChange: changes,
	}, pool, nil)
	if err := wait(ctx, task, err, "create template"); err != nil {
		return err
	}
	vm, err := v.Finder.VirtualMachine(ctx, templateFolder+"/"+Template)
	if err != nil {
		return err
	}
	return vm.MarkAsTemplate(ctx)
}

const templateDiskGiB = 20

// vmGroup is the DRS group of the example's failure domain.
const vmGroup = "k8s-batch-vms"

func (v *VCenter) vmGroup(ctx context.Context) error {
	return v.editGroup(ctx, types.ArrayUpdateOperationAdd, nil)
}

// editGroup sets the members of the failure domain's group.
func (v *VCenter) editGroup(ctx context.Context, op types.ArrayUpdateOperation, members []types.ManagedObjectReference) error {
	cluster, err := v.Finder.ClusterComputeResource(ctx, "compute-b")
	if err != nil {
		return err
	}
	task, err := cluster.Reconfigure(ctx, &types.ClusterConfigSpecEx{
		GroupSpec: []types.ClusterGroupSpec{{
			ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: op},
			Info:            &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: vmGroup}, Vm: members},
		}},
	}, true)
	return wait(ctx, task, err, "edit group "+vmGroup)
}

// exampleTags are the tags that the example names by id. A vCenter chooses
// ids itself, so that the objects get others than the manifest.
var exampleTags = []struct{ id, category, name string }{
	{"urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c-b97e09dc9578:GLOBAL", "env", "prod"},
	{"urn:vmomi:InventoryServiceTag:e2f1a8d3-0c47-4b52-9f6e-3a1d5c8b7e60:GLOBAL", "team", "platform"},
}

// ExampleTags makes the example's tags, and one of the same name in another
// category.
func (v *VCenter) ExampleTags(ctx context.Context) error {
	if v.tagIDs == nil {
		v.tagIDs = map[string]string{}
	}
	categories := map[string]string{}
	for _, name := range []string{"env", "team", "cost"} {
		id, err := v.Tags.CreateCategory(ctx, &tags.Category{Name: name, Cardinality: "MULTIPLE", AssociableTypes: []string{"VirtualMachine"}})
		if err != nil {
			return fmt.Errorf("create category %s: %w", name, err)
		}
		categories[name] = id
	}
	for _, t := range exampleTags {
		id, err := v.Tags.CreateTag(ctx, &tags.Tag{ID: t.id, Name: t.name, CategoryID: categories[t.category]})
		if err != nil {
			return fmt.Errorf("create tag %s: %w", t.name, err)
		}
		v.tagIDs[t.id] = id
	}
	id, err := v.Tags.CreateTag(ctx, &tags.Tag{Name: "prod", CategoryID: categories["cost"]})
	if err != nil {
		return fmt.Errorf("create tag: %w", err)
	}
	v.tagIDs["cost:prod"] = id
	return nil
}

// tagID gives the simulator's id of a tag that the example names.
func (v *VCenter) tagID(id string) (string, error) {
	if own, ok := v.tagIDs[id]; ok {
		return own, nil
	}
	return "", errors.New("the manifest names tag " + id + ", which the simulator was not given")
}
