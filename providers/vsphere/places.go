package vsphere

import (
	"path"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// places resolves a spec's names, paths, globs and managed object ids to
// inventory paths, by the rules of govmomi's Finder, which CAPV uses:
//
//   - "TYPE:ID" is a managed object;
//   - an absolute path is matched segment by segment from the root;
//   - a relative one so from the folder of its kind in the datacenter;
//   - a bare name is looked for at any depth below that folder.
//
// Segments may hold globs. More than one match is no error here: the machine
// exists, and is right in any of them.
type places struct {
	x *snapshotIndex
	// datacenters are the paths of the wanted datacenter; all of them where
	// the spec names none.
	datacenters []string
}

func (w *wantedMachine) places(x *snapshotIndex) places {
	p := places{x: x}
	wanted := canonical.InventoryPath(w.spec.Datacenter)
	for _, dc := range x.ordered[kindDatacenter] {
		if wanted == "" || wanted == "*" || matches(dc, pathOf(dc), "", wanted) || isRef(dc, wanted) {
			p.datacenters = append(p.datacenters, pathOf(dc))
		}
	}
	return p
}

// isRef reports whether the reference is the object's "TYPE:ID".
func isRef(r *providers.Resource, ref string) bool {
	_, id, ok := strings.Cut(ref, ":")
	return ok && id == r.ID.Name && !strings.Contains(ref, "/")
}

// matches reports whether a reference means the object at the path, where
// relative references start at base.
func matches(r *providers.Resource, at, base, ref string) bool {
	switch {
	case isRef(r, ref):
		return true
	case strings.HasPrefix(ref, "/"):
		return globPath(ref, at)
	case !strings.Contains(ref, "/"):
		if base != "" && !strings.HasPrefix(at, base+"/") {
			return false
		}
		ok, err := path.Match(ref, path.Base(at))
		return err == nil && ok
	default:
		return globPath(base+"/"+ref, at)
	}
}

// globPath matches segment by segment: a glob never crosses a slash.
func globPath(pattern, at string) bool {
	ok, err := path.Match(canonical.InventoryPath(pattern), at)
	return err == nil && ok
}

// find gives the objects of a kind that a reference means, below any of the
// wanted datacenters. folder is the datacenter's folder for the kind; relative
// paths start there, except those of folders, which start at the datacenter.
// Callers must not change the answer.
func (p places) find(kind, folder, relativeTo, ref string) []*providers.Resource {
	ref = strings.TrimPrefix(canonical.InventoryPath(ref), "./")
	if ref == "" {
		return nil
	}
	if r := p.x.byPath[[2]string{kind, ref}]; r != nil {
		return []*providers.Resource{r}
	}
	key := strings.Join(append([]string{kind, relativeTo, ref}, p.datacenters...), "\x00")
	if found, ok := p.x.found.Load(key); ok {
		return found.([]*providers.Resource)
	}
	found := p.search(kind, folder, relativeTo, ref)
	p.x.found.Store(key, found)
	return found
}

func (p places) search(kind, folder, relativeTo, ref string) []*providers.Resource {
	var found []*providers.Resource
	for _, r := range p.x.ordered[kind] {
		at := pathOf(r)
		for _, dc := range p.datacenters {
			base := dc + relativeTo
			if !strings.Contains(ref, "/") {
				base = dc + folder
			}
			inside := at == dc+folder || strings.HasPrefix(at, dc+folder+"/")
			if inside && (matches(r, at, base, ref) || at == dc+folder && ref == strings.TrimPrefix(folder, "/")) {
				found = append(found, r)
				break
			}
		}
	}
	return found
}

func paths(found []*providers.Resource) []string {
	out := make([]string, len(found))
	for i, r := range found {
		out[i] = pathOf(r)
	}
	return out
}

func (p places) folder(ref string) []string { return paths(p.find(kindFolder, "/vm", "", ref)) }

func (p places) resourcePool(ref string) []string {
	return paths(p.find(kindResourcePool, "/host", "/host", ref))
}

// datastore gives the wanted datastore, or every datastore of the datastore
// cluster that it is in or that the reference names: storage DRS moves
// machines within one (C32).
func (p places) datastore(ref string) []string {
	pods := map[string]bool{}
	for _, pod := range p.find(kindStoragePod, "/datastore", "/datastore", ref) {
		pods[pathOf(pod)] = true
	}
	found := p.find(kindDatastore, "/datastore", "/datastore", ref)
	out := paths(found)
	for _, ds := range found {
		if pod := ds.Fields.Get("/storagePod").Value.Text(); pod != "" {
			pods[pod] = true
		}
	}
	for _, ds := range p.x.ordered[kindDatastore] {
		if pods[ds.Fields.Get("/storagePod").Value.Text()] {
			out = append(out, pathOf(ds))
		}
	}
	return out
}

// network gives the names under which adapters on the wanted network show. A
// reference may also be the path by way of a compute cluster, the id of an NSX
// segment or a port group's key.
func (p places) network(ref string) []string {
	if strings.HasPrefix(ref, "/") && strings.Contains(ref, "/host/") {
		ref = path.Base(ref)
	}
	var out []string
	for _, n := range p.find(kindNetwork, "/network", "/network", ref) {
		out = append(out, n.Fields.Get("/networkName").Value.Text())
	}
	if len(out) > 0 {
		return out
	}
	for _, n := range p.x.ordered[kindNetwork] {
		if n.Fields.Get("/portgroupKey").Value.Text() == ref || n.Fields.Get("/opaqueNetworkId").Value.Text() == ref {
			out = append(out, n.Fields.Get("/networkName").Value.Text())
		}
	}
	return out
}

// template reports whether the template is in the inventory, and gives it if
// it is certain which one it is. CAPV takes an instance UUID, a name or a path
// (package template).
func (p places) template(ref string) (found []*providers.Resource) {
	if uuid, err := canonical.UUID(ref); err == nil {
		for _, t := range p.x.ordered[kindTemplate] {
			if t.Fields.Get("/instanceUuid").Value.Text() == uuid {
				return []*providers.Resource{t}
			}
		}
	}
	return p.find(kindTemplate, "/vm", "/vm", ref)
}
