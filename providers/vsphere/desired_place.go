package vsphere

import (
	"maps"
	"slices"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// placement wants the machine where the spec puts it. Hosts are DRS's to
// choose, and datastores within a datastore cluster storage DRS's (C32).
func (d *desired) placement() {
	if d.w.placement != "" {
		d.skip("placement", d.w.placement)
		return
	}
	spec := &d.w.spec
	if dc := spec.Datacenter; dc != "" && dc != "*" {
		// Networks and datastores are each datacenter's own: a machine cannot
		// be moved to another one as it is.
		d.place("datacenter", dc, d.places.datacenters, providers.Immutable)
	}
	if spec.Folder != "" {
		d.place("folder", spec.Folder, d.places.folder(spec.Folder), providers.InPlace)
	}
	if spec.ResourcePool != "" {
		d.place("resourcePool", spec.ResourcePool, d.places.resourcePool(spec.ResourcePool), providers.InPlace)
	}
	if spec.Datastore != "" {
		d.place("datastore", spec.Datastore, d.places.datastore(spec.Datastore), providers.InPlace)
	}
	if spec.StoragePolicyName != "" {
		d.want("/storagePolicy", providers.String(spec.StoragePolicyName), providers.InPlace, providers.Exactly)
	}
	if d.w.domain != nil && d.w.domain.Spec.Topology.Hosts.VMGroupName != "" {
		d.want("/vmGroups", providers.Set(d.w.domain.Spec.Topology.Hosts.VMGroupName), providers.InPlace, providers.Contains)
	}
	if len(d.places.template(spec.Template)) == 0 && d.inventoryKnown() {
		// The machine runs on without it (C41).
		d.warn("template %q is not in the inventory now: this machine does not need it, and further clones will fail", spec.Template)
	}
}

// inventoryKnown reports whether the snapshot holds an inventory at all:
// without one, nothing can be said to be missing from it.
func (d *desired) inventoryKnown() bool { return len(d.index.ordered[kindDatacenter]) > 0 }

func (d *desired) place(part, ref string, found []string, m providers.Mutability) {
	path := "/" + part
	switch {
	case len(found) > 0:
		d.wantOneOf(path, found, m)
	case !d.inventoryKnown() || isAbsolute(ref):
		// A whole path says what is wanted also when nothing is there, and
		// without an inventory the coverage says that it was not compared.
		d.want(path, providers.String(canonical.InventoryPath(ref)), m, providers.Exactly)
	default:
		d.unresolved(part, part, ref)
	}
}

func isAbsolute(ref string) bool {
	return strings.HasPrefix(ref, "/") && !strings.ContainsAny(ref, "*?[")
}

// tags wants each of spec.tagIDs, which CAPV documents as ids; a name as
// CATEGORY:NAME is taken too. A name alone would be ambiguous (C40).
func (d *desired) tags() {
	for _, id := range d.w.spec.TagIDs {
		name, ok := d.index.tags[id]
		if !ok {
			// Unknown to vCenter: certainly not attached.
			name = id
		}
		d.want(providers.Pointer("tags", name), providers.String(attached), providers.InPlace, providers.Exactly)
	}
}

// extraConfig wants the custom VMX keys. Values that may be secret are
// digests on both sides.
func (d *desired) extraConfig() {
	for _, key := range slices.Sorted(maps.Keys(d.w.spec.CustomVMXKeys)) {
		path := providers.Pointer("extraConfig", key)
		if d.seen != nil && d.secret.foreign(d.seen.Fields.Get(path)) {
			d.skip("extraConfig/"+key, "the snapshot was taken by another process, and its digests of secret values cannot be compared")
			continue
		}
		f := d.secret.option(key, d.w.spec.CustomVMXKeys[key])
		f.Mutability = providers.InPlace
		d.r.Set(path, f)
	}
}

// unmodelled names what the spec sets and no field compares.
func (d *desired) unmodelled() {
	spec := &d.w.spec
	if spec.CryptoKeyID != "" {
		d.skip("cryptoKeyID", "CAPV makes a new key under it for each machine")
	}
	if spec.CryptoProfile != "" {
		d.skip("cryptoProfile", "the encryption policy of a machine's home is not told apart from its storage policy")
	}
	if d.w.owner.Machine != nil && clusterModules(d.w.owner) {
		d.skip("clusterModule", "membership in a cluster module is not read")
	}
}

func clusterModules(owner *providers.Owner) bool {
	cluster, ok := owner.InfraCluster.(*infrav1.VSphereCluster)
	return ok && cluster != nil && len(cluster.Spec.ClusterModules) > 0
}
