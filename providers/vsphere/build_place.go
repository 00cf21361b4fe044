package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/pbm"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// place is where a clone goes.
type place struct {
	dc, folder, pool, store *entity
	// host is set where vCenter chooses none itself: in a cluster without DRS.
	host *types.ManagedObjectReference
	// policy is the id of the storage policy, empty for none.
	policy string
}

// place resolves what the plan wants, and where it has no opinion what there is
// only one of. CAPV takes the same (package vcenter, Clone; Finder's defaults).
func (m *maker) place(ctx context.Context) (*place, error) {
	at := &place{}
	var err error
	if at.dc, err = m.only(m.want("/datacenter"), kindDatacenter, "datacenter", nil); err != nil {
		return nil, err
	}
	inDC := func(e *entity) bool { return e.datacenter == at.dc.path }
	if at.folder, err = m.only(m.want(folderPath), kindFolder, "folder", func(e *entity) bool {
		return inDC(e) && (!m.want(folderPath).IsAbsent() || e.path == at.dc.path+"/vm")
	}); err != nil {
		return nil, err
	}
	if at.pool, err = m.only(m.want(poolPath), kindResourcePool, "resourcePool", func(e *entity) bool {
		return inDC(e) && (!m.want(poolPath).IsAbsent() || inventoryKinds[e.parent.Type] == kindCompute)
	}); err != nil {
		return nil, err
	}
	if at.policy, err = m.policyID(ctx); err != nil {
		return nil, err
	}
	if at.store, err = m.store(ctx, at, inDC); err != nil {
		return nil, err
	}
	at.host, err = m.hostFor(ctx, at)
	return at, err
}

func (m *maker) want(path string) providers.Value { return m.creation.Want.Fields.Get(path).Value }

// all gives the objects of a kind that a wanted value names, or of the kind where
// there is none, ordered by path.
func (m *maker) all(want providers.Value, kind string, is func(*entity) bool) []*entity {
	var out []*entity
	for _, e := range m.inv.entities {
		if inventoryKinds[e.ref.Type] != kind || e.path == "" || is != nil && !is(e) {
			continue
		}
		if want.IsAbsent() || slices.Contains(want.Elements(), e.path) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entity) int { return strings.Compare(a.path, b.path) })
	return out
}

// only gives the one object that is meant. A clone cannot be in several, and a
// choice between them would be a guess.
func (m *maker) only(want providers.Value, kind, part string, is func(*entity) bool) (*entity, error) {
	found := m.all(want, kind, is)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, refusal(providers.ReasonRefused, "%d places may be meant by spec.%s: %s: name one by its path", len(found), part, list(found))
	case want.IsAbsent():
		return nil, refusal(providers.ReasonRefused, "the inventory has no %s that the account may see", part)
	default:
		return nil, refusal(providers.ReasonRefused, "the inventory has no %s %s: make it, or correct spec.%[1]s", part, want.Text())
	}
}

func list(found []*entity) string {
	const most = 5
	paths := make([]string, 0, most+1)
	for i, e := range found {
		if i == most {
			paths = append(paths, "...")
			break
		}
		paths = append(paths, e.path)
	}
	return strings.Join(paths, ", ")
}

// store gives the datastore: of several in a datastore cluster, or that fit a
// storage policy, the accessible one with the most free space.
func (m *maker) store(ctx context.Context, at *place, inDC func(*entity) bool) (*entity, error) {
	want := m.want(datastorePath)
	if want.IsAbsent() && at.policy == "" {
		return m.only(want, kindDatastore, "datastore", inDC)
	}
	found := m.all(want, kindDatastore, inDC)
	if at.policy != "" {
		var err error
		if found, err = m.compatible(ctx, at.policy, found); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 && want.IsAbsent() {
		return nil, refusal(providers.ReasonRefused, "no datastore fits the storage policy %q: name another in spec.storagePolicyName", m.want(policyPath).Text())
	}
	if len(found) == 0 {
		return nil, refusal(providers.ReasonRefused, "the inventory has no datastore %s that spec.datastore and spec.storagePolicyName both allow", want.Text())
	}
	best, err := m.roomiest(ctx, found, at.pool)
	if err == nil && best == nil {
		err = refusal(providers.ReasonRefused, "none of the datastores is accessible from the resource pool %s: %s", at.pool.path, list(found))
	}
	return best, err
}

func (m *maker) policyID(ctx context.Context) (string, error) {
	want := m.want(policyPath).Text()
	if want == "" {
		return "", nil
	}
	c, err := pbm.NewClient(ctx, m.live.vim)
	if err != nil {
		return "", fmt.Errorf("reach the storage policy API: %w", err)
	}
	known, err := policyIDs(ctx, c)
	if err != nil {
		return "", fmt.Errorf("read storage policies: %w", err)
	}
	if known[want] == "" {
		return "", refusal(providers.ReasonRefused, "vCenter has no storage policy %q: make it, or correct spec.storagePolicyName", want)
	}
	return known[want], nil
}

// compatible keeps the datastores that can hold what a storage policy asks for
// (PbmPlacementSolver.PbmCheckRequirements).
func (m *maker) compatible(ctx context.Context, policy string, stores []*entity) ([]*entity, error) {
	c, err := pbm.NewClient(ctx, m.live.vim)
	if err != nil {
		return nil, fmt.Errorf("reach the storage policy API: %w", err)
	}
	hubs := make([]pbmtypes.PbmPlacementHub, 0, len(stores))
	for _, e := range stores {
		hubs = append(hubs, pbmtypes.PbmPlacementHub{HubType: e.ref.Type, HubId: e.ref.Value})
	}
	answer, err := c.CheckRequirements(ctx, hubs, nil, []pbmtypes.BasePbmPlacementRequirement{
		&pbmtypes.PbmPlacementCapabilityProfileRequirement{ProfileId: pbmtypes.PbmProfileId{UniqueId: policy}},
	})
	if err != nil {
		return nil, fmt.Errorf("ask which datastores fit the storage policy: %w", err)
	}
	fit := map[string]bool{}
	for _, hub := range answer.CompatibleDatastores() {
		fit[hub.HubId] = true
	}
	return slices.DeleteFunc(stores, func(e *entity) bool { return !fit[e.ref.Value] }), nil
}

// computeOf gives the compute resource that a pool is in.
func (m *maker) computeOf(pool *entity) *entity {
	at := pool
	for range maxDepth {
		if at == nil || inventoryKinds[at.ref.Type] == kindCompute {
			return at
		}
		at = m.inv.entities[at.parent]
	}
	return nil
}

// roomiest gives the accessible datastore with the most free space of those that
// the pool's hosts have; nil if there is none.
func (m *maker) roomiest(ctx context.Context, found []*entity, pool *entity) (*entity, error) {
	reach := map[types.ManagedObjectReference]bool{}
	if compute := m.computeOf(pool); compute != nil {
		objects, err := retrieveRefs(ctx, m.live.vim, []types.ManagedObjectReference{compute.ref},
			[]types.PropertySpec{{Type: compute.ref.Type, PathSet: []string{"datastore"}}})
		if err != nil {
			return nil, fmt.Errorf("read the datastores of %s: %w", compute.path, err)
		}
		for i := range objects {
			all, _ := objects[i].props["datastore"].(types.ArrayOfManagedObjectReference)
			for _, ref := range all.ManagedObjectReference {
				reach[ref] = true
			}
		}
	}
	found = slices.DeleteFunc(slices.Clone(found), func(e *entity) bool { return !reach[e.ref] })
	if len(found) == 0 {
		return nil, nil
	}
	return m.mostFree(ctx, found)
}

// hostFor chooses a host in a cluster without DRS, where vCenter clones to none
// that it is not told (VirtualMachineRelocateSpec.host): the one with the fewest
// machines of those that can run it.
func (m *maker) hostFor(ctx context.Context, at *place) (*types.ManagedObjectReference, error) {
	compute := m.computeOf(at.pool)
	if compute == nil || compute.ref.Type != "ClusterComputeResource" {
		return nil, nil
	}
	objects, err := retrieveRefs(ctx, m.live.vim, []types.ManagedObjectReference{compute.ref},
		[]types.PropertySpec{{Type: compute.ref.Type, PathSet: []string{"configurationEx", "host"}}})
	if err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", compute.path, err)
	}
	var hosts []types.ManagedObjectReference
	for i := range objects {
		config, ok := objects[i].props["configurationEx"].(types.ClusterConfigInfoEx)
		if !ok || config.DrsConfig.Enabled == nil || *config.DrsConfig.Enabled {
			return nil, nil
		}
		all, _ := objects[i].props["host"].(types.ArrayOfManagedObjectReference)
		hosts = append(hosts, all.ManagedObjectReference...)
	}
	if len(hosts) == 0 {
		return nil, refusal(providers.ReasonRefused, "cluster %s has no host", compute.path)
	}
	objects, err = retrieveRefs(ctx, m.live.vim, hosts, []types.PropertySpec{{Type: "HostSystem", PathSet: []string{"runtime", "vm", "datastore"}}})
	if err != nil {
		return nil, fmt.Errorf("read the hosts of %s: %w", compute.path, err)
	}
	if best := fewest(objects, at.store.ref); best != nil {
		return best, nil
	}
	return nil, refusal(providers.ReasonRefused, "cluster %s has DRS off, and none of its %d hosts is connected, out of maintenance and has datastore %s",
		compute.path, len(hosts), at.store.name)
}

func fewest(hosts []object, store types.ManagedObjectReference) *types.ManagedObjectReference {
	var best *types.ManagedObjectReference
	least := 0
	for i := range hosts {
		runtime, _ := hosts[i].props["runtime"].(types.HostRuntimeInfo)
		vms, _ := hosts[i].props["vm"].(types.ArrayOfManagedObjectReference)
		stores, _ := hosts[i].props["datastore"].(types.ArrayOfManagedObjectReference)
		usable := runtime.ConnectionState == types.HostSystemConnectionStateConnected && !runtime.InMaintenanceMode
		if !usable || !slices.Contains(stores.ManagedObjectReference, store) {
			continue
		}
		if n := len(vms.ManagedObjectReference); best == nil || n < least {
			best, least = &hosts[i].ref, n
		}
	}
	return best
}
