package awscluster

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// Tag keys by which the cloud controller manager finds subnets.
const (
	tagExternalELB = "kubernetes.io/role/elb"
	tagInternalELB = "kubernetes.io/role/internal-elb"
)

// clusterTags are the tags of a resource that belongs to the cluster: the
// user's, the extra ones, and CAPA's ownership, role and name.
func (b *builder) clusterTags(name, role string, extra map[string]string) infrav1.Tags {
	additional := infrav1.Tags{}
	additional.Merge(b.env.AWSCluster.Spec.AdditionalTags)
	additional.Merge(extra)
	return infrav1.Build(infrav1.BuildParams{
		ClusterName: b.Name,
		Lifecycle:   infrav1.ResourceLifecycleOwned,
		Name:        aws.String(name),
		Role:        aws.String(role),
		Additional:  additional,
	})
}

// cloudProviderOwned is the tag that makes a resource the cloud controller
// manager's.
func (b *builder) cloudProviderOwned() map[string]string {
	return map[string]string{infrav1.ClusterAWSCloudProviderTagKey(b.Name): string(infrav1.ResourceLifecycleOwned)}
}

func ec2Tags(tags map[string]string) []types.Tag {
	out := make([]types.Tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	return out
}

func tagSpec(kind types.ResourceType, tags map[string]string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: ec2Tags(tags)}}
}

func elbTags(tags map[string]string) []elbtypes.Tag {
	out := make([]elbtypes.Tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, elbtypes.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	return out
}

func elbv2Tags(tags map[string]string) []elbv2types.Tag {
	out := make([]elbv2types.Tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, elbv2types.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	return out
}

// ec2Tag names a tag by its key alone, as DeleteTags takes it.
func ec2Tag(key string) types.Tag { return types.Tag{Key: aws.String(key)} }
