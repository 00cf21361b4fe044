package aws

import (
	"maps"
	"slices"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// machineNameTag names the Machine as namespace/name. CAPA writes it at
// creation only, and older releases did not, so its absence means nothing.
const machineNameTag = infrav1.MachineNameTagKey

// ownerTag has the UID of the object that a resource was made for. Holdfast
// gives it to what it makes, and CAPA's own names and tags beside it: they tell
// a cluster's resources from another's of the same name.
const ownerTag = "drift.holdfast.io/owner-uid"

// wantTags wants each tag that this cluster may speak for. Other tags of the
// resource are no matter of the spec.
func wantTags(r *providers.Resource, cluster string, tags infrav1.Tags) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if !foreignTag(cluster, key) {
			want(r, providers.Pointer("tags", key), providers.String(tags[key]), providers.InPlace)
		}
	}
}

// foreignTag reports keys that a spec cannot speak for, even when it lists
// them: EC2 reserves aws: in any case (CreateTags), and the ownership tags of
// another cluster are that cluster's, also where CAPA has copied them from a
// shared subnet into this spec.
func foreignTag(cluster, key string) bool {
	const reserved = "aws:"
	if len(key) >= len(reserved) && strings.EqualFold(key[:len(reserved)], reserved) {
		return true
	}
	for _, prefix := range []string{infrav1.NameAWSProviderOwned, infrav1.NameKubernetesAWSCloudProviderPrefix} {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			return name != cluster
		}
	}
	return false
}

// clusterTags are the tags of a resource that belongs to the cluster as a
// whole. The user's tags may rename it, and may not disown it.
func (c *clusterView) clusterTags(name, role string, more infrav1.Tags) infrav1.Tags {
	additional := infrav1.Tags{}
	if c.spec != nil {
		additional.Merge(c.spec.Spec.AdditionalTags)
	}
	additional.Merge(more)
	return infrav1.Build(infrav1.BuildParams{
		Lifecycle:   infrav1.ResourceLifecycleOwned,
		ClusterName: c.name,
		Name:        &name,
		Role:        &role,
		Additional:  additional,
	})
}

// cloudProviderTag marks a resource for the cloud controller manager.
func (c *clusterView) cloudProviderTag() infrav1.Tags {
	return infrav1.Tags{infrav1.ClusterAWSCloudProviderTagKey(c.name): string(infrav1.ResourceLifecycleOwned)}
}

// machineTags are an instance's tags: the cluster's additional ones under the
// machine's, and CAPA's own. CAPA writes its own over the user's when it
// creates the instance, and the user's over its own in the next reconcile;
// where the two disagree neither is held against the cloud.
func (c *clusterView) machineTags(m *infrav1.AWSMachine, role string) infrav1.Tags {
	additional := infrav1.Tags{}
	if c.spec != nil {
		additional.Merge(c.spec.Spec.AdditionalTags)
	}
	additional.Merge(m.Spec.AdditionalTags)

	own := infrav1.Build(infrav1.BuildParams{
		Lifecycle:   infrav1.ResourceLifecycleOwned,
		ClusterName: c.name,
		Role:        &role,
		Additional:  c.cloudProviderTag(),
	})
	tags := infrav1.Tags{"Name": m.Name}
	tags.Merge(own)
	for key, value := range additional {
		if ours, ok := own[key]; ok && ours != value {
			delete(tags, key)
			continue
		}
		tags[key] = value
	}
	return tags
}

// ownedBy reports whether a seen resource carries the cluster's ownership tag.
func ownedBy(r *providers.Resource, cluster string) bool {
	return tagOf(r, infrav1.ClusterTagKey(cluster)) == string(infrav1.ResourceLifecycleOwned)
}

func tagOf(r *providers.Resource, key string) string {
	return textOf(r, providers.Pointer("tags", key))
}

// textOf gives a seen value as text; empty if the resource or the value is
// absent.
func textOf(r *providers.Resource, path string) string {
	if r == nil {
		return ""
	}
	return r.Fields.Get(path).Value.Text()
}
