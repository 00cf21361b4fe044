package vsphere

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/vmware/govmomi/vapi/tags"

	"github.com/holdfast-io/holdfast/providers"
)

// readTags gives the machine its tags, if the change is about any.
func (w *writer) readTags(ctx context.Context, m *machine) error {
	if !slices.ContainsFunc(w.change.Fields, func(f providers.FieldChange) bool { return under(tagsPrefix)(f.Path) }) {
		return nil
	}
	if w.live.restErr != nil {
		return w.live.restErr
	}
	manager := tags.NewManager(w.live.rest)
	known, err := w.conn.names.read(ctx, manager, w.provider.now())
	if err != nil {
		return err
	}
	ids, err := manager.ListAttachedTags(ctx, m.ref)
	if err != nil {
		return err
	}
	for _, id := range ids {
		m.now.Set(tagPath(known, id), field(providers.String(attached)))
		m.now.Set(providers.Pointer("tags", id), field(providers.String(attached)))
	}
	return nil
}

// tagStep attaches one wanted tag. What else is attached stays: a tag is never
// taken off, not even one that a category of one tag only leaves no room beside.
func (w *writer) tagStep(_ context.Context, m *machine) (*step, error) {
	for _, f := range w.left(m, under(tagsPrefix)) {
		if f.Want.Text() != attached {
			return nil, refusal(providers.ReasonUnsupported, "%s can only be attached", f.Path)
		}
		name := providers.Segments(f.Path)[1]
		if w.done["attach tag "+name] {
			continue
		}
		return &step{name: "attach tag " + name, do: func(ctx context.Context) error {
			manager := tags.NewManager(w.live.rest)
			id, err := w.tagID(ctx, manager, name)
			if err != nil {
				return err
			}
			err = manager.AttachTag(ctx, id, m.ref)
			if isStatus(err, http.StatusNotFound) {
				w.conn.names.forget()
			}
			return err
		}}, nil
	}
	return nil, nil
}

// tagID gives the id of a tag that a path names as CATEGORY:NAME or by its id.
// Names are read anew before it is said that there is no such tag.
func (w *writer) tagID(ctx context.Context, m *tags.Manager, name string) (string, error) {
	for fresh := false; ; fresh = true {
		known, err := w.conn.names.read(ctx, m, w.provider.now())
		if err != nil {
			return "", fmt.Errorf("read the names of tags: %w", err)
		}
		if _, ok := known[name]; ok {
			return name, nil
		}
		for id, n := range known {
			if n.String() == name {
				return id, nil
			}
		}
		if fresh {
			return "", refusal(providers.ReasonRefused, "vCenter has no tag %s: make it, or take it out of spec.tagIDs", name)
		}
		w.conn.names.forget()
	}
}
