package aws

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// checkTags refuses keys that are nobody's to write but AWS's, and ownership
// tags of any cluster that is not taken away from or given to this resource by
// its own owner (C15, C16).
func checkTags(c *providers.Change, fields []providers.FieldChange) error {
	for _, f := range fields {
		key := lastSegment(f.Path)
		foreign := foreignTag("", key)
		for _, prefix := range []string{infrav1.NameAWSProviderOwned, infrav1.NameKubernetesAWSCloudProviderPrefix} {
			if strings.HasPrefix(key, prefix) {
				// The wanted state holds no tag of another cluster; see wantTags.
				foreign = f.Want.IsAbsent()
			}
		}
		if foreign {
			return &providers.ApplyError{Reason: providers.ReasonForeign, Err: &answer{what: "tag " + key + " of " + c.Resource.String(), code: "not the owner's to write"}}
		}
	}
	return nil
}

// tagEdits gives the tags to set and the keys to remove.
func (w *writing) tagEdits(fields []providers.FieldChange) (set map[string]string, remove []string) {
	set = map[string]string{}
	for _, f := range w.due(fields) {
		if key := lastSegment(f.Path); f.Want.IsAbsent() {
			remove = append(remove, key)
		} else {
			set[key] = f.Want.Text()
		}
	}
	return set, remove
}

// ec2Tags writes the changed keys only (C19).
func (w *writing) ec2Tags(ctx context.Context, fields []providers.FieldChange) error {
	set, remove := w.tagEdits(fields)
	return w.tagEC2(ctx, w.Resource.Name, set, remove)
}

func (w *writing) tagEC2(ctx context.Context, id string, set map[string]string, remove []string) error {
	if len(set) > 0 {
		var tags []ec2types.Tag
		for _, key := range sorted(set) {
			tags = append(tags, ec2types.Tag{Key: ptr(key), Value: ptr(set[key])})
		}
		_, err := w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags})
		if err := w.called(err, "tag %s", id); err != nil {
			return err
		}
	}
	if len(remove) == 0 {
		return nil
	}
	var tags []ec2types.Tag
	for _, key := range remove {
		tags = append(tags, ec2types.Tag{Key: ptr(key)})
	}
	_, err := w.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{id}, Tags: tags})
	return w.called(err, "remove tags of %s", id)
}

func (w *writing) balancerTags(ctx context.Context, fields []providers.FieldChange) error {
	if w.isClassic() {
		if err := w.classicTags(ctx, []*providers.Resource{w.live}); err != nil {
			return applyError(err, "read the tags of "+w.live.Name)
		}
		set, remove := w.tagEdits(fields)
		return w.tagClassic(ctx, set, remove)
	}
	if err := w.modernTags(ctx, []*providers.Resource{w.live}); err != nil {
		return applyError(err, "read the tags of "+w.live.Name)
	}
	set, remove := w.tagEdits(fields)
	return w.tagModern(ctx, set, remove)
}

func (w *writing) tagClassic(ctx context.Context, set map[string]string, remove []string) error {
	names := []string{w.live.Name}
	if len(set) > 0 {
		var tags []elbtypes.Tag
		for _, key := range sorted(set) {
			tags = append(tags, elbtypes.Tag{Key: ptr(key), Value: ptr(set[key])})
		}
		_, err := w.elb.AddTags(ctx, &elb.AddTagsInput{LoadBalancerNames: names, Tags: tags})
		if err := w.called(err, "tag load balancer %s", w.live.Name); err != nil {
			return err
		}
	}
	if len(remove) == 0 {
		return nil
	}
	var keys []elbtypes.TagKeyOnly
	for _, key := range remove {
		keys = append(keys, elbtypes.TagKeyOnly{Key: ptr(key)})
	}
	_, err := w.elb.RemoveTags(ctx, &elb.RemoveTagsInput{LoadBalancerNames: names, Tags: keys})
	return w.called(err, "remove tags of load balancer %s", w.live.Name)
}

func (w *writing) tagModern(ctx context.Context, set map[string]string, remove []string) error {
	arns := []string{w.Resource.Name}
	if len(set) > 0 {
		var tags []elbv2types.Tag
		for _, key := range sorted(set) {
			tags = append(tags, elbv2types.Tag{Key: ptr(key), Value: ptr(set[key])})
		}
		_, err := w.elbv2.AddTags(ctx, &elbv2.AddTagsInput{ResourceArns: arns, Tags: tags})
		if err := w.called(err, "tag load balancer %s", w.live.Name); err != nil {
			return err
		}
	}
	if len(remove) == 0 {
		return nil
	}
	_, err := w.elbv2.RemoveTags(ctx, &elbv2.RemoveTagsInput{ResourceArns: arns, TagKeys: remove})
	return w.called(err, "remove tags of load balancer %s", w.live.Name)
}
