package vsphere

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	// tagBatch is how many objects one call asks about. vCenter takes up to
	// 2,000 (com.vmware.cis.tagging.tag_association,
	// list-attached-tags-on-objects).
	tagBatch = 1000
	// tagNamesLast is how long the name of a tag is believed: the API gives
	// names one by one only.
	tagNamesLast = 10 * time.Minute
)

// attached is the value of a tag that is on an object.
const attached = "attached"

// tagNames remembers the names of tags and categories, by id.
type tagNames struct {
	mu    sync.Mutex
	until time.Time
	tags  map[string]tagName
}

type tagName struct{ category, name string }

func (n tagName) String() string { return n.category + ":" + n.name }

// tags reads which tags are on which machines. It marks the machines as read
// only when everything was.
func (s *sweep) tags(ctx context.Context, live *liveSession, names *tagNames, now time.Time) error {
	if live.restErr != nil {
		return live.restErr
	}
	m := tags.NewManager(live.rest)
	known, err := names.read(ctx, m, now)
	if err != nil {
		return err
	}
	refs := make([]mo.Reference, 0, len(s.refs))
	for ref := range s.refs {
		refs = append(refs, ref)
	}
	found := make(map[types.ManagedObjectReference][]string, len(refs))
	for batch := range slices.Chunk(refs, tagBatch) {
		answer, err := m.ListAttachedTagsOnObjects(ctx, batch)
		if err != nil {
			return err
		}
		for _, a := range answer {
			found[a.ObjectID.Reference()] = a.TagIDs
		}
	}
	for id, name := range known {
		r := &providers.Resource{ID: providers.ID{Kind: kindTag, Name: id}, Name: name.String()}
		r.Set("/category", field(providers.String(name.category)))
		r.Set("/name", field(providers.String(name.name)))
		s.snap.Resources[r.ID] = r
	}
	for ref, r := range s.refs {
		for _, id := range found[ref] {
			r.Set(tagPath(known, id), field(providers.String(attached)))
		}
		closePath(r, "/tags")
	}
	return nil
}

// closePath says that a machine was read in full under the path. A sweep that
// lost its session says so twice.
func closePath(r *providers.Resource, path string) {
	if !slices.Contains(r.Closed, path) {
		r.Closed = append(r.Closed, path)
	}
}

// tagPath names a tag that was made after the names were read by its id.
func tagPath(known map[string]tagName, id string) string {
	if name, ok := known[id]; ok {
		return providers.Pointer("tags", name.String())
	}
	return providers.Pointer("tags", id)
}

// read gives the names of all tags. Only a complete answer is remembered.
func (n *tagNames) read(ctx context.Context, m *tags.Manager, now time.Time) (map[string]tagName, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tags != nil && now.Before(n.until) {
		return n.tags, nil
	}
	categories, err := m.GetCategories(ctx)
	if err != nil {
		return nil, err
	}
	category := make(map[string]string, len(categories))
	for _, c := range categories {
		category[c.ID] = c.Name
	}
	all, err := m.GetTags(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]tagName, len(all))
	for _, t := range all {
		known[t.ID] = tagName{category: category[t.CategoryID], name: t.Name}
	}
	n.tags, n.until = known, now.Add(tagNamesLast)
	return known, nil
}

// forget has the names read anew.
func (n *tagNames) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.until = time.Time{}
}
