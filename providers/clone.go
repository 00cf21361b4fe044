package providers

import (
	"maps"
	"slices"
)

// Clone gives a copy that shares nothing with the resource. Values are
// immutable and stay as they are.
func (r *Resource) Clone() *Resource {
	if r == nil {
		return nil
	}
	c := *r
	c.Needs = slices.Clone(r.Needs)
	c.Closed = slices.Clone(r.Closed)
	c.Warnings = slices.Clone(r.Warnings)
	c.ClusterTags = slices.Clone(r.ClusterTags)
	c.Fields = r.Fields.Clone()
	for path, f := range c.Fields.All() {
		if f.Foreign != nil || f.Claimed != nil {
			f.Foreign, f.Claimed = maps.Clone(f.Foreign), maps.Clone(f.Claimed)
			c.Fields.Set(path, f)
		}
	}
	return &c
}

// Clone gives a copy that shares nothing with the snapshot but its errors.
func (s *Snapshot) Clone() *Snapshot {
	if s == nil {
		return nil
	}
	c := *s
	c.Serves = slices.Clone(s.Serves)
	c.Coverage = maps.Clone(s.Coverage)
	if s.Resources != nil {
		c.Resources = make(map[ID]*Resource, len(s.Resources))
	}
	for id, r := range s.Resources {
		c.Resources[id] = r.Clone()
	}
	return &c
}
