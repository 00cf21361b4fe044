package vsphere

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

func furnished(t *testing.T) (*vspherecluster.VCenter, *snapshotIndex) {
	t.Helper()
	v, err := vspherecluster.StartVCenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	inv, err := readInventory(t.Context(), v.Client.Client)
	if err != nil {
		t.Fatal(err)
	}
	snap := &providers.Snapshot{Resources: map[providers.ID]*providers.Resource{}}
	inv.resources(snap)
	return v, newIndex(snap)
}

// A reference means here what it means to govmomi's Finder, with which CAPV
// resolves it: the same objects, and none where the Finder finds none.
func TestPlacesAgreeWithFinder(t *testing.T) {
	v, x := furnished(t)
	p := places{x: x, datacenters: []string{"/fra1"}}
	tests := map[string]struct {
		find   func(string) []string
		finder func(string) ([]string, error)
		refs   []string
	}{
		"folder": {
			find: p.folder,
			finder: func(ref string) (out []string, err error) {
				found, err := v.Finder.FolderList(t.Context(), ref)
				for _, f := range found {
					out = append(out, f.InventoryPath)
				}
				return out, err
			},
			refs: []string{
				"/fra1/vm/k8s/prod-fra", "vm/k8s/prod-fra", "prod-fra", "k8s", "/fra1/vm", "vm", "/fra1/vm/k8s/*", "prod-*",
				"k8s/prod-fra", "/fra1/vm/nothing", "nothing", "/fra1/vm/k8s/",
			},
		},
		"resource pool": {
			find: p.resourcePool,
			finder: func(ref string) (out []string, err error) {
				found, err := v.Finder.ResourcePoolList(t.Context(), ref)
				for _, f := range found {
					out = append(out, f.InventoryPath)
				}
				return out, err
			},
			refs: []string{
				"*/Resources/k8s-prod", "*/Resources", "/fra1/host/compute-a/Resources/k8s-prod", "k8s-prod", "compute-b/Resources",
				"compute-b/Resources/k8s-prod", "Resources", "k8s-*", "/fra1/host/*/Resources/other", "nothing",
			},
		},
		"network": {
			find: func(ref string) (out []string) { return paths(p.find(kindNetwork, "/network", "/network", ref)) },
			finder: func(ref string) (out []string, err error) {
				found, err := v.Finder.NetworkList(t.Context(), ref)
				for _, f := range found {
					if path := f.GetInventoryPath(); !strings.HasSuffix(path, "/DVS0") {
						out = append(out, path)
					}
				}
				return out, err
			},
			refs: []string{"k8s-nodes", "/fra1/network/k8s-nodes", "VM Network", "k8s-*", "/fra1/network/*", "nothing"},
		},
		"datastore": {
			find: func(ref string) (out []string) { return paths(p.find(kindDatastore, "/datastore", "/datastore", ref)) },
			finder: func(ref string) (out []string, err error) {
				found, err := v.Finder.DatastoreList(t.Context(), ref)
				for _, f := range found {
					out = append(out, f.InventoryPath)
				}
				return out, err
			},
			refs: []string{"nvme-1", "sata-1", "/fra1/datastore/nvme/nvme-1", "/fra1/datastore/sata-1", "nvme/nvme-2", "nvme-*", "*", "nothing"},
		},
	}
	for kind, tt := range tests {
		for _, ref := range tt.refs {
			t.Run(kind+" "+ref, func(t *testing.T) {
				want, err := tt.finder(ref)
				if err != nil && !strings.Contains(err.Error(), "not found") {
					t.Fatal(err)
				}
				got := tt.find(ref)
				slices.Sort(want)
				slices.Sort(got)
				if len(want)+len(got) == 0 {
					return
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-Finder +here):\n%s", diff)
				}
			})
		}
	}
}

// Managed object references, and ids of networks, mean their object.
func TestPlacesByID(t *testing.T) {
	v, x := furnished(t)
	p := places{x: x, datacenters: []string{"/fra1"}}
	folder, err := v.Finder.Folder(t.Context(), "prod-fra")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.folder(folder.Reference().String()); !slices.Equal(got, []string{"/fra1/vm/k8s/prod-fra"}) {
		t.Errorf("folder by reference: %v", got)
	}
	network, err := v.Finder.Network(t.Context(), "dmz")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.network(network.Reference().String()); !slices.Equal(got, []string{"dmz"}) {
		t.Errorf("network by reference: %v", got)
	}
	if got := p.network("/fra1/host/compute-a/dmz"); !slices.Equal(got, []string{"dmz"}) {
		t.Errorf("network by the path of a cluster: %v", got)
	}
}

// A datastore of a datastore cluster stands for all of the cluster, by
// whichever name it was given; one outside stands for itself (C32).
func TestC32DatastoreCluster(t *testing.T) {
	_, x := furnished(t)
	p := places{x: x, datacenters: []string{"/fra1"}}
	pod := []string{"/fra1/datastore/nvme/nvme-1", "/fra1/datastore/nvme/nvme-2"}
	for ref, want := range map[string][]string{
		"nvme-1": pod, "/fra1/datastore/nvme/nvme-2": pod, "nvme": pod, "/fra1/datastore/nvme": pod,
		"sata-1": {"/fra1/datastore/sata-1"}, "nothing": {},
	} {
		got := slices.Compact(slices.Sorted(slices.Values(p.datastore(ref))))
		if !slices.Equal(got, want) {
			t.Errorf("datastore %q: %v, want %v", ref, got, want)
		}
	}
}

// Without a datacenter in the spec, any will do; with one, only that.
func TestPlacesDatacenter(t *testing.T) {
	_, x := furnished(t)
	for dc, want := range map[string]int{"": 1, "*": 1, "fra1": 1, "/fra1": 1, "ams1": 0} {
		w := &wantedMachine{spec: infrav1.VirtualMachineCloneSpec{Datacenter: dc}}
		if got := w.places(x).datacenters; len(got) != want {
			t.Errorf("datacenter %q: %v", dc, got)
		}
	}
}
