package vsphere

import (
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// snapshotIndex finds things in a snapshot without walking it. It only holds
// pointers into the snapshot, so a cached one gives what a new one would.
type snapshotIndex struct {
	size int
	// bios, name and moid find machines.
	bios, name, moid map[string][]*providers.Resource
	// byPath finds inventory objects by kind and path, ordered those of a
	// kind.
	byPath  map[[2]string]*providers.Resource
	ordered map[string][]*providers.Resource
	// tags finds tags by id and by "CATEGORY:NAME".
	tags map[string]string
	// found remembers what references meant: all machines of a pool have the
	// same.
	found sync.Map
}

// indexCache keeps the index of the snapshot in use: Desired is asked once for
// each owner, with the same snapshot.
type indexCache struct {
	mu   sync.Mutex
	of   *providers.Snapshot
	last *snapshotIndex
}

func (c *indexCache) get(snap *providers.Snapshot) *snapshotIndex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != snap || c.last.size != len(snap.Resources) {
		c.of, c.last = snap, newIndex(snap)
	}
	return c.last
}

func newIndex(snap *providers.Snapshot) *snapshotIndex {
	x := &snapshotIndex{
		size:    len(snap.Resources),
		bios:    map[string][]*providers.Resource{},
		name:    map[string][]*providers.Resource{},
		moid:    map[string][]*providers.Resource{},
		byPath:  map[[2]string]*providers.Resource{},
		ordered: map[string][]*providers.Resource{},
		tags:    map[string]string{},
	}
	for id, r := range snap.Resources {
		switch id.Kind {
		case providers.KindVirtualMachine:
			x.addMachine(r)
		case kindTag:
			x.tags[id.Name] = r.Name
			x.tags[r.Name] = r.Name
		default:
			x.byPath[[2]string{id.Kind, pathOf(r)}] = r
			x.ordered[id.Kind] = append(x.ordered[id.Kind], r)
		}
	}
	for _, lists := range []map[string][]*providers.Resource{x.bios, x.name, x.moid} {
		for _, list := range lists {
			slices.SortFunc(list, byID)
		}
	}
	for _, list := range x.ordered {
		slices.SortFunc(list, func(a, b *providers.Resource) int { return strings.Compare(pathOf(a), pathOf(b)) })
	}
	return x
}

func byID(a, b *providers.Resource) int { return strings.Compare(a.ID.Name, b.ID.Name) }

func (x *snapshotIndex) addMachine(r *providers.Resource) {
	if bios := r.Fields.Get("/biosUuid").Value.Text(); bios != "" {
		x.bios[bios] = append(x.bios[bios], r)
	}
	if r.Name != "" {
		x.name[r.Name] = append(x.name[r.Name], r)
	}
	if id := moid(r); id != "" {
		x.moid[id] = append(x.moid[id], r)
	}
}

func pathOf(r *providers.Resource) string { return r.Fields.Get("/path").Value.Text() }

// byUUID gives the machines that a provider id may mean: those whose BIOS UUID
// it is, else those whose BIOS UUID it is in the other byte order, else the
// one whose instance UUID it is. An empty UUID never gets here.
func (x *snapshotIndex) byUUID(snap *providers.Snapshot, uuid string) []*providers.Resource {
	if found := x.bios[uuid]; len(found) > 0 {
		return found
	}
	if found := x.bios[canonical.SwapUUID(uuid)]; len(found) > 0 {
		return found
	}
	if r := snap.Resources[providers.ID{Kind: providers.KindVirtualMachine, Name: uuid}]; r != nil {
		return []*providers.Resource{r}
	}
	return nil
}
