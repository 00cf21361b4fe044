package ec2sim

import (
	"cmp"
	"slices"
)

var tagActions = []*action{
	write("CreateTags", (*call).createTags),
	write("DeleteTags", (*call).deleteTags),
	read("DescribeTags", (*call).describeTags),
}

type createTagsIn struct {
	ResourceID []string `wire:",required"`
	Tag        []Tag    `wire:",required"`
}

// createTags changes all the resources or, on an error, none.
func (c *call) createTags(in *createTagsIn) (done, *apiError) {
	if err := checkTags(in.Tag); err != nil {
		return done{}, err
	}
	return c.retag(in.ResourceID, func(tags []Tag) []Tag {
		for _, tag := range in.Tag {
			tags = append(slices.DeleteFunc(tags, func(old Tag) bool { return old.Key == tag.Key }), tag)
		}
		return tags
	})
}

type deleteTagsIn struct {
	ResourceID []string `wire:",required"`
	Tag        []struct {
		Key   string
		Value *string
	}
}

// deleteTags removes the named keys, those with a value only where it is
// equal, and all but aws: ones where no tags are named (DeleteTags reference).
func (c *call) deleteTags(in *deleteTagsIn) (done, *apiError) {
	for _, tag := range in.Tag {
		if err := checkTags([]Tag{{Key: tag.Key}}); err != nil {
			return done{}, err
		}
	}
	return c.retag(in.ResourceID, func(tags []Tag) []Tag {
		return slices.DeleteFunc(tags, func(old Tag) bool {
			if len(in.Tag) == 0 {
				return checkTags([]Tag{{Key: old.Key}}) == nil
			}
			for _, tag := range in.Tag {
				if tag.Key == old.Key && (tag.Value == nil || *tag.Value == old.Value) {
					return true
				}
			}
			return false
		})
	})
}

func (c *call) retag(ids []string, change func([]Tag) []Tag) (done, *apiError) {
	if len(ids) > 1000 {
		return done{}, failf("InvalidParameterValue", "At most 1000 resources can be tagged in one request")
	}
	var found []*meta
	for _, id := range ids {
		m, _ := c.taggable(id)
		if m == nil {
			return done{}, c.notFound(id)
		}
		found = append(found, m)
	}
	changed := make([][]Tag, len(found))
	for i, m := range found {
		changed[i] = change(slices.Clone(m.TagSet.now))
		if len(changed[i]) > 50 {
			return done{}, failf("TagLimitExceeded", "The maximum number of tags for '%s' is 50", m.id)
		}
	}
	for i, m := range found {
		m.TagSet.set(changed[i], c.now, c.srv.options.Consistency.TagsFor)
	}
	return ok()
}

type describeTagsIn struct {
	filterIns
	pageIn
}

type describeTagsOut struct {
	TagSet    []*tagItem
	NextToken string
}

type tagItem struct {
	meta         `wire:"-"`
	ResourceID   string
	ResourceType string
	Key          string
	Value        string `wire:",keep"`
}

var tagFilters = filters[*tagItem]{
	"key":           func(t *tagItem) []string { return []string{t.Key} },
	"value":         func(t *tagItem) []string { return []string{t.Value} },
	"resource-id":   func(t *tagItem) []string { return []string{t.ResourceID} },
	"resource-type": func(t *tagItem) []string { return []string{t.ResourceType} },
}

func (c *call) describeTags(in *describeTagsIn) (describeTagsOut, *apiError) {
	var out describeTagsOut
	for i, f := range in.Filter {
		if key, isTag := cutTagFilter(f.Name); isTag {
			in.Filter = append(in.Filter, filterIn{Name: "key", Value: []string{key}})
			in.Filter[i].Name = "value"
		}
	}
	keep, err := condition(c, in.filterIns, tagFilters)
	if err != nil {
		return out, err
	}
	all := table[*tagItem]{}
	for _, m := range c.everything() {
		_, resourceType := c.taggable(m.id)
		for i, tag := range m.TagSet.visible(c.now) {
			item := &tagItem{ResourceID: m.id, ResourceType: resourceType, Key: tag.Key, Value: tag.Value}
			item.meta = meta{id: m.id + tag.Key, seq: m.seq*64 + uint64(i)}
			all.order = append(all.order, item)
		}
	}
	out.TagSet, out.NextToken, err = list(c, &all, nil, keep, in.pageIn, usualLimits)
	return out, err
}

func cutTagFilter(name string) (string, bool) {
	if len(name) > 4 && name[:4] == "tag:" {
		return name[4:], true
	}
	return "", false
}

// everything is all taggable EC2 resources in the order of their creation.
func (c *call) everything() []*meta {
	var all []*meta
	all = metas(all, &c.vpcs)
	all = metas(all, &c.subnets)
	all = metas(all, &c.gateways)
	all = metas(all, &c.egressGateways)
	all = metas(all, &c.nats)
	all = metas(all, &c.addresses)
	all = metas(all, &c.routeTables)
	all = metas(all, &c.acls)
	all = metas(all, &c.groups)
	all = metas(all, &c.interfaces)
	all = metas(all, &c.instances)
	all = metas(all, &c.volumes)
	all = metas(all, &c.images)
	slices.SortFunc(all, func(a, b *meta) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

func metas[T resource](all []*meta, t *table[T]) []*meta {
	for _, v := range t.order {
		all = append(all, v.base())
	}
	return all
}
