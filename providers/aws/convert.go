package aws

import (
	"slices"
	"strings"
	"sync"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// interner keeps one copy of each string and set that many resources share:
// types, images, subnets, groups, tag keys. A region of 10,000 instances has a
// few hundred of them. It is safe for concurrent use.
type interner struct {
	mu    sync.Mutex
	texts map[string]string
	paths map[string]string
	keys  map[string]string
	sets  map[string]providers.Value
}

// internable bounds what is worth sharing; longer values are rarely equal.
const internable = 128

func newInterner() *interner {
	return &interner{texts: map[string]string{}, paths: map[string]string{}, keys: map[string]string{}, sets: map[string]providers.Value{}}
}

func (i *interner) text(s string) string {
	if s == "" || len(s) > internable {
		return s
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.texts[s]; ok {
		return known
	}
	i.texts[s] = s
	return s
}

// tagPath gives the pointer of a tag.
func (i *interner) tagPath(key string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.paths[key]; ok {
		return known
	}
	path := providers.Pointer("tags", key)
	i.paths[key] = path
	return path
}

// kmsKey gives a key's canonical name. A region has few keys and many volumes.
func (i *interner) kmsKey(arn string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.keys[arn]; ok {
		return known
	}
	key := canonical.KMSKey(arn)
	i.keys[arn] = key
	return key
}

// set gives the set of the elements. The values are immutable, so resources
// may share them.
func (i *interner) set(elements []string) providers.Value {
	if len(elements) == 0 {
		return emptySet
	}
	key := strings.Join(elements, "\x00")
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.sets[key]; ok {
		return known
	}
	v := providers.Set(elements...)
	i.sets[key] = v
	return v
}

var emptySet = providers.Set()

// closedTags is what most seen resources close: every tag was read.
var closedTags = []string{"/tags"}

// converter turns the API's words into canonical resources. It does no I/O.
type converter struct{ names *interner }

func newConverter() converter { return converter{names: newInterner()} }

// resource starts a seen resource with room for a number of fields.
func (c converter) resource(kind string, id *string, fields int) *providers.Resource {
	return &providers.Resource{
		ID:     providers.ID{Kind: kind, Name: deref(id)},
		Fields: make(providers.Fields, 0, fields),
		Closed: closedTags,
	}
}

// text sets a string unless the API left it out.
func (c converter) text(r *providers.Resource, path string, s *string) {
	if s != nil {
		word(c, r, path, *s)
	}
}

// word sets a string or one of the API's enumerations unless it is empty.
func word[T ~string](c converter, r *providers.Resource, path string, s T) {
	if s != "" {
		r.Fields.Set(path, providers.Field{Value: providers.String(c.names.text(string(s)))})
	}
}

func (c converter) number(r *providers.Resource, path string, n *int32) {
	if n != nil {
		r.Fields.Set(path, providers.Field{Value: providers.Int(*n)})
	}
}

func (c converter) truth(r *providers.Resource, path string, b *bool) {
	if b != nil {
		r.Fields.Set(path, providers.Field{Value: providers.Bool(*b)})
	}
}

func (c converter) set(r *providers.Resource, path string, elements []string) {
	slices.Sort(elements)
	r.Fields.Set(path, providers.Field{Value: c.names.set(elements)})
}

func (c converter) tags(r *providers.Resource, tags []ec2types.Tag) {
	for i := range tags {
		c.tag(r, deref(tags[i].Key), deref(tags[i].Value))
	}
	slices.Sort(r.ClusterTags)
	r.ClusterTags = slices.Compact(r.ClusterTags)
}

// tag records one tag, and what it says about the resource as a whole. Keys
// are case-sensitive (EC2, "Tag restrictions"); tags under aws: are AWS's own
// and are kept, because a spec's filters may name them.
func (c converter) tag(r *providers.Resource, key, value string) {
	r.Fields.Set(c.names.tagPath(key), providers.Field{Value: providers.String(c.names.text(value))})
	if key == "Name" {
		r.Name = value
	}
	if cluster := owningCluster(key, value); cluster != "" {
		r.ClusterTags = append(r.ClusterTags, c.names.text(cluster))
	}
	if r.ForeignTo == "" {
		r.ForeignTo = foreignByTag(key, value)
	}
}

// owningCluster gives the cluster that an ownership tag names. "shared" owns
// nothing.
func owningCluster(key, value string) string {
	if value != string(infrav1.ResourceLifecycleOwned) {
		return ""
	}
	for _, prefix := range []string{infrav1.NameAWSProviderOwned, infrav1.NameKubernetesAWSCloudProviderPrefix} {
		if cluster, ok := strings.CutPrefix(key, prefix); ok {
			return cluster
		}
	}
	return ""
}

// Names of other owners, as reports show them.
const (
	ownerEBSCSI       = "EBS CSI driver"
	ownerVPCCNI       = "Amazon VPC CNI"
	ownerCilium       = "Cilium"
	ownerLBController = "AWS Load Balancer Controller"
	ownerCloud        = "AWS cloud provider, for a Service"
	ownerKarpenter    = "Karpenter"
)

// foreignTags are the marks that controllers leave on what they make for a
// cluster, from their own documentation.
var foreignTags = map[string]string{
	"ebs.csi.aws.com/cluster":            ownerEBSCSI,
	"CSIVolumeName":                      ownerEBSCSI,
	"CSIVolumeSnapshotName":              ownerEBSCSI,
	"kubernetes.io/created-for/pvc/name": "volume provisioner",
	"node.k8s.amazonaws.com/instance_id": ownerVPCCNI,
	"node.k8s.amazonaws.com/createdAt":   ownerVPCCNI,
	"cluster.k8s.amazonaws.com/name":     ownerVPCCNI,
	"eks:eni:owner":                      ownerVPCCNI,
	"io.cilium/cilium-managed":           ownerCilium,
	"io.cilium/cluster-name":             ownerCilium,
	"elbv2.k8s.aws/cluster":              ownerLBController,
	"elbv2.k8s.aws/resource":             ownerLBController,
	"service.k8s.aws/stack":              ownerLBController,
	"service.k8s.aws/resource":           ownerLBController,
	"ingress.k8s.aws/stack":              ownerLBController,
	"ingress.k8s.aws/resource":           ownerLBController,
	"kubernetes.io/service-name":         ownerCloud,
	"karpenter.sh/nodepool":              ownerKarpenter,
	"karpenter.sh/nodeclaim":             ownerKarpenter,
	"karpenter.sh/provisioner-name":      ownerKarpenter,
	"vpcresources.k8s.aws/trunk-eni-id":  "VPC resource controller",
	"vpcresources.k8s.aws/vlan-id":       "VPC resource controller",
	"eks:nodegroup-name":                 "EKS node group",
}

func foreignByTag(key, value string) string {
	if owner, ok := foreignTags[key]; ok {
		return owner
	}
	if key == "aws:autoscaling:groupName" {
		return "Auto Scaling group " + value
	}
	return ""
}

func groupIDs(groups []ec2types.GroupIdentifier) []string {
	out := make([]string, 0, len(groups))
	for i := range groups {
		out = append(out, deref(groups[i].GroupId))
	}
	return out
}
