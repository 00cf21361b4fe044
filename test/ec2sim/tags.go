package ec2sim

import (
	"slices"
	"strings"
	"time"
)

// Tag is a key and its value.
type Tag struct {
	Key   string
	Value string `wire:"Value,keep"`
}

// tagSet holds a resource's tags by key, and what they were before, for reads
// that come too early to see a change.
type tagSet struct {
	now    []Tag
	before []Tag
	shown  time.Time
}

func (t *tagSet) set(tags []Tag, now time.Time, lag time.Duration) {
	if lag > 0 {
		t.before, t.shown = t.visible(now), now.Add(lag)
	}
	t.now = slices.Clone(tags)
	slices.SortFunc(t.now, func(a, b Tag) int { return strings.Compare(a.Key, b.Key) })
}

func (t *tagSet) visible(now time.Time) []Tag {
	if now.Before(t.shown) {
		return t.before
	}
	return t.now
}

func (t *tagSet) appendWire(b []byte, e *encoder) []byte {
	for _, tag := range t.visible(e.now) {
		b = appendText(append(b, "<item>"...), "key", tag.Key)
		b = append(appendText(b, "value", tag.Value), "</item>"...)
	}
	return b
}

func (t *tagSet) filterValues(filter string, now time.Time) []string {
	var values []string
	for _, tag := range t.visible(now) {
		switch filter {
		case "tag-key":
			values = append(values, tag.Key)
		case "tag:" + tag.Key:
			return []string{tag.Value}
		}
	}
	return values
}

// tagSpec is TagSpecification.N of the create actions.
type tagSpec struct {
	ResourceType string
	Tag          []Tag
}

type tagSpecs struct{ TagSpecification []tagSpec }

// tagsFor gives the tags for one type of resource that a create makes; made
// lists all types that it makes.
func (in tagSpecs) tagsFor(wanted string, made ...string) ([]Tag, *apiError) {
	var tags []Tag
	for _, spec := range in.TagSpecification {
		if spec.ResourceType != wanted && !slices.Contains(made, spec.ResourceType) {
			return nil, failf("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
		}
		if spec.ResourceType == wanted {
			tags = append(tags, spec.Tag...)
		}
	}
	return tags, checkTags(tags)
}

// checkTags applies "Tag restrictions" of the EC2 user guide.
func checkTags(tags []Tag) *apiError {
	seen := map[string]bool{}
	for _, tag := range tags {
		switch {
		case strings.HasPrefix(strings.ToLower(tag.Key), "aws:"):
			return failf("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		case tag.Key == "":
			return failf("InvalidParameterValue", "Tag key cannot be empty")
		case len([]rune(tag.Key)) > 128:
			return failf("InvalidParameterValue", "Tag key exceeds the maximum length of 128 characters")
		case len([]rune(tag.Value)) > 256:
			return failf("InvalidParameterValue", "Tag value exceeds the maximum length of 256 characters")
		case seen[tag.Key]:
			return failf("InvalidParameterValue", "Duplicate tag key '%s' specified.", tag.Key)
		}
		seen[tag.Key] = true
	}
	if len(tags) > 50 {
		return failf("TagLimitExceeded", "The maximum number of tags per resource is 50")
	}
	return nil
}

// taggable finds any EC2 resource by id, with the resource type's name.
func (r *region) taggable(id string) (*meta, string) {
	switch prefix, _, _ := strings.Cut(id, "-"); prefix {
	case "vpc":
		return metaOf(&r.vpcs, id), "vpc"
	case "subnet":
		return metaOf(&r.subnets, id), "subnet"
	case "igw":
		return metaOf(&r.gateways, id), "internet-gateway"
	case "eigw":
		return metaOf(&r.egressGateways, id), "egress-only-internet-gateway"
	case "nat":
		return metaOf(&r.nats, id), "natgateway"
	case "eipalloc":
		return metaOf(&r.addresses, id), "elastic-ip"
	case "rtb":
		return metaOf(&r.routeTables, id), "route-table"
	case "acl":
		return metaOf(&r.acls, id), "network-acl"
	case "sg":
		return metaOf(&r.groups, id), "security-group"
	case "eni":
		return metaOf(&r.interfaces, id), "network-interface"
	case "i":
		return metaOf(&r.instances, id), "instance"
	case "vol":
		return metaOf(&r.volumes, id), "volume"
	case "ami":
		return metaOf(&r.images, id), "image"
	}
	return nil, ""
}

func metaOf[T resource](t *table[T], id string) *meta {
	if v, ok := t.byID[id]; ok {
		return v.base()
	}
	return nil
}

// notFound is the error of an id of any kind.
func (r *region) notFound(id string) *apiError {
	prefix, _, _ := strings.Cut(id, "-")
	for _, k := range []kind{
		kindVPC, kindSubnet, kindGateway, kindEgressGateway, kindNAT, kindAddress, kindRouteTable, kindACL, kindGroup,
		kindInterface, kindInstance, kindVolume, kindImage,
	} {
		if k.prefix == prefix {
			if !k.wellFormed(id) {
				return k.malformedError(id)
			}
			return k.missingError(id)
		}
	}
	return failf("InvalidID", "The ID '%s' is not valid", id)
}
