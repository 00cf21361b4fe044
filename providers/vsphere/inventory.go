package vsphere

import (
	"context"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// Kinds of the inventory around the machines. They are read so that a spec's
// names and paths resolve against the snapshot; none of them is wanted itself.
const (
	kindDatacenter   = "Datacenter"
	kindFolder       = "Folder"
	kindResourcePool = "ResourcePool"
	kindCompute      = "ComputeResource"
	kindDatastore    = "Datastore"
	kindStoragePod   = "StoragePod"
	kindNetwork      = "Network"
	kindTemplate     = "Template"
	kindTag          = "Tag"
)

// inventoryKinds are vCenter's types and what each becomes.
var inventoryKinds = map[string]string{
	"Datacenter":                  kindDatacenter,
	"Folder":                      kindFolder,
	"StoragePod":                  kindStoragePod,
	"ComputeResource":             kindCompute,
	"ClusterComputeResource":      kindCompute,
	"ResourcePool":                kindResourcePool,
	"VirtualApp":                  kindResourcePool,
	"Datastore":                   kindDatastore,
	"Network":                     kindNetwork,
	"DistributedVirtualPortgroup": kindNetwork,
	"OpaqueNetwork":               kindNetwork,
	"HostSystem":                  "",
}

// inventoryTypes is the order in which they are asked for.
var inventoryTypes = []string{
	"Datacenter", "Folder", "StoragePod", "ComputeResource", "ClusterComputeResource", "ResourcePool", "VirtualApp",
	"Datastore", "Network", "DistributedVirtualPortgroup", "OpaqueNetwork", "HostSystem",
}

// extraProps are read besides name and parent.
var extraProps = map[string][]string{
	"DistributedVirtualPortgroup": {"key"},
	"OpaqueNetwork":               {"summary"},
	"ClusterComputeResource":      {"configurationEx"},
}

// entity is one inventory object with its place.
type entity struct {
	ref    types.ManagedObjectReference
	name   string
	parent types.ManagedObjectReference
	path   string
	// datacenter is the path of the datacenter above it, empty for what lies
	// above all datacenters.
	datacenter string
}

// inventory is everything around the machines.
type inventory struct {
	root     types.ManagedObjectReference
	entities map[types.ManagedObjectReference]*entity
	// portgroups by key, opaque networks by id.
	portgroups map[string]*entity
	opaque     map[string]*entity
	// datastores by datacenter path and name, which is unique in it.
	datastores map[[2]string]*entity
	// networkNames counts the networks of a name in a datacenter.
	networkNames map[[2]string]int
	// vmGroups are names of the DRS groups that a machine is in.
	vmGroups map[types.ManagedObjectReference][]string
}

func readInventory(ctx context.Context, c *vim25.Client) (*inventory, error) {
	propSet := make([]types.PropertySpec, 0, len(inventoryTypes))
	for _, t := range inventoryTypes {
		propSet = append(propSet, types.PropertySpec{Type: t, PathSet: append([]string{"name", "parent"}, extraProps[t]...)})
	}
	objects, err := retrieve(ctx, c, inventoryTypes, propSet)
	if err != nil {
		return nil, err
	}
	inv := newInventory(c.ServiceContent.RootFolder)
	for i := range objects {
		o := &objects[i]
		inv.entities[o.ref] = &entity{ref: o.ref, name: o.str("name"), parent: o.refTo("parent")}
	}
	for _, e := range inv.entities {
		inv.place(e)
	}
	for i := range objects {
		inv.index(&objects[i])
	}
	return inv, nil
}

func newInventory(root types.ManagedObjectReference) *inventory {
	return &inventory{
		root:         root,
		entities:     map[types.ManagedObjectReference]*entity{},
		portgroups:   map[string]*entity{},
		opaque:       map[string]*entity{},
		datastores:   map[[2]string]*entity{},
		networkNames: map[[2]string]int{},
		vmGroups:     map[types.ManagedObjectReference][]string{},
	}
}

// maxDepth bounds the walk to the root: parents that form a ring would be a
// broken answer, and must not hang a sweep.
const maxDepth = 64

// place gives an entity its path, and the paths of all above it.
func (inv *inventory) place(e *entity) {
	var chain []*entity
	for at := e; at != nil && at.path == "" && len(chain) < maxDepth; at = inv.entities[at.parent] {
		chain = append(chain, at)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		at := chain[i]
		above := inv.entities[at.parent]
		switch {
		case above != nil && above.path != "":
			at.path, at.datacenter = above.path+"/"+at.name, above.datacenter
		case at.parent == inv.root:
			at.path = "/" + at.name
		default:
			// Its parents are hidden from this account.
			continue
		}
		if at.ref.Type == "Datacenter" {
			at.datacenter = at.path
		}
	}
}

func (inv *inventory) index(o *object) {
	e := inv.entities[o.ref]
	switch o.ref.Type {
	case "Datastore":
		inv.datastores[[2]string{e.datacenter, e.name}] = e
	case "Network":
		inv.networkNames[[2]string{e.datacenter, e.name}]++
	case "DistributedVirtualPortgroup":
		inv.networkNames[[2]string{e.datacenter, e.name}]++
		inv.portgroups[o.str("key")] = e
	case "OpaqueNetwork":
		inv.networkNames[[2]string{e.datacenter, e.name}]++
		if s, ok := o.props["summary"].(types.OpaqueNetworkSummary); ok {
			inv.opaque[s.OpaqueNetworkId] = e
		}
	case "ClusterComputeResource":
		inv.indexGroups(o)
	}
}

func (inv *inventory) indexGroups(o *object) {
	config, ok := o.props["configurationEx"].(types.ClusterConfigInfoEx)
	if !ok {
		return
	}
	for _, g := range config.Group {
		group, ok := g.(*types.ClusterVmGroup)
		if !ok {
			continue
		}
		for _, vm := range group.Vm {
			inv.vmGroups[vm] = append(inv.vmGroups[vm], group.Name)
		}
	}
}

// networkName is how a network is called in findings: by its name where that
// is unique in its datacenter, as it is for standard networks, and by its path
// where NSX or several switches give one name to more than one.
func (inv *inventory) networkName(e *entity) string {
	if inv.networkNames[[2]string{e.datacenter, e.name}] > 1 && e.path != "" {
		return e.path
	}
	return e.name
}

// resources gives the inventory for the snapshot.
func (inv *inventory) resources(snap *providers.Snapshot) {
	for ref, e := range inv.entities {
		kind := inventoryKinds[ref.Type]
		if kind == "" || e.path == "" {
			continue
		}
		r := &providers.Resource{ID: providers.ID{Kind: kind, Name: ref.Value}, Name: e.name}
		r.Set("/path", providers.Field{Value: providers.String(e.path)})
		if e.datacenter != "" {
			r.Set("/datacenter", providers.Field{Value: providers.String(e.datacenter)})
		}
		if kind == kindNetwork {
			r.Set("/networkName", providers.Field{Value: providers.String(inv.networkName(e))})
		}
		if kind == kindDatastore {
			if pod := inv.entities[e.parent]; pod != nil && pod.ref.Type == "StoragePod" {
				r.Set("/storagePod", providers.Field{Value: providers.String(pod.path)})
			}
		}
		snap.Resources[r.ID] = r
	}
	for _, key := range []struct {
		ids  map[string]*entity
		path string
	}{{inv.portgroups, "/portgroupKey"}, {inv.opaque, "/opaqueNetworkId"}} {
		for id, e := range key.ids {
			if r := snap.Resources[providers.ID{Kind: kindNetwork, Name: e.ref.Value}]; r != nil {
				r.Set(key.path, providers.Field{Value: providers.String(id)})
			}
		}
	}
}

// inventoryCoverage are the coverage entries that one read of the inventory
// decides. A machine's place cannot be told without it.
func inventoryCoverage(snap *providers.Snapshot, err error) {
	for _, kind := range []string{
		kindDatacenter, kindFolder, kindResourcePool, kindCompute, kindDatastore, kindStoragePod, kindNetwork,
	} {
		snap.Coverage[kind] = err
	}
	if err == nil {
		return
	}
	err = fmt.Errorf("the inventory around the machines is not known: %w", err)
	for _, path := range []string{"/folder", "/resourcePool", "/datastore", "/datacenter", "/networks", "/vmGroups"} {
		snap.Coverage[providers.KindVirtualMachine+path] = err
	}
}

// datastoreNamed gives the datastore of a datacenter that a datastore path
// names: "[datastore] folder/file".
func (inv *inventory) datastoreNamed(datacenter, path string) *entity {
	name, _, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
	if !ok {
		return nil
	}
	return inv.datastores[[2]string{datacenter, name}]
}
