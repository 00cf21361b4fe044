package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Coverage keys of the parts of load balancers.
const (
	partTags         = providers.KindLoadBalancer + "/tags"
	partAttributes   = providers.KindLoadBalancer + "/attributes"
	partListeners    = providers.KindLoadBalancer + "/listeners"
	partTargetGroups = providers.KindLoadBalancer + "/targetGroups"
	partTargets      = providers.KindLoadBalancer + "/targets"
)

// mostBalancers bounds the load balancers that are read in detail, at three
// calls and one for each target group.
const mostBalancers = 500

// balancers are both versions' load balancers and the target groups.
type balancers struct {
	classic []*providers.Resource
	modern  []*providers.Resource
	groups  []elbv2types.TargetGroup
	// joined has what instances are registered in, by VPC.
	joined map[string]*registrations
}

// registrations are the classic load balancers and target groups of one VPC
// whose targets were read.
type registrations struct {
	// names are all of them, also those without targets.
	names []string
	// of has what each instance is registered in.
	of map[string][]registration
}

// registration is one instance in one classic load balancer or target group.
type registration struct {
	name, id string
	// value says how: "registered", or on which other port than the group's.
	value providers.Value
}

func (b *balancers) resources() []*providers.Resource {
	return append(b.classic[:len(b.classic):len(b.classic)], b.modern...)
}

// keep takes those away that are not to be read further.
func (b *balancers) keep(wanted func(*providers.Resource) bool) {
	unwanted := func(r *providers.Resource) bool { return !wanted(r) }
	b.classic, b.modern = slices.DeleteFunc(b.classic, unwanted), slices.DeleteFunc(b.modern, unwanted)
}

// listBalancers lists both versions. Either one alone would be a partial
// answer to "which load balancers are there".
func (r reader) listBalancers(ctx context.Context) (out balancers, err error) {
	if out.classic, err = r.classicBalancers(ctx, nil); err != nil {
		return balancers{}, fmt.Errorf("classic: %w", err)
	}
	if out.modern, err = r.modernBalancers(ctx, nil); err != nil {
		return balancers{}, err
	}
	if out.groups, err = r.targetGroups(ctx); err != nil {
		return balancers{}, fmt.Errorf("target groups: %w", err)
	}
	return out, nil
}

func (r reader) classicBalancers(ctx context.Context, names []string) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{LoadBalancerNames: names, PageSize: sizeUnless(names), Marker: token})
		if err != nil {
			return nil, err
		}
		for i := range page.LoadBalancerDescriptions {
			out = append(out, r.classicBalancer(&page.LoadBalancerDescriptions[i]))
		}
		return page.NextMarker, nil
	})
	return out, err
}

func (r reader) modernBalancers(ctx context.Context, arns []string) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.elbv2.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{LoadBalancerArns: arns, PageSize: sizeUnless(arns), Marker: token})
		if err != nil {
			return nil, err
		}
		for i := range page.LoadBalancers {
			out = append(out, r.balancer(&page.LoadBalancers[i]))
		}
		return page.NextMarker, nil
	})
	return out, err
}

func sizeUnless(named []string) *int32 {
	if len(named) > 0 {
		return nil
	}
	return ptr(loadBalancerPage)
}

func (r reader) targetGroups(ctx context.Context) (out []elbv2types.TargetGroup, err error) {
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := r.elbv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{PageSize: ptr(loadBalancerPage), Marker: token})
		if err != nil {
			return nil, err
		}
		out = append(out, page.TargetGroups...)
		return page.NextMarker, nil
	})
	return out, err
}

// readBalancers reads the clusters' load balancers further: the tags of those
// in their VPCs, and of those that CAPA tagged or an AWSCluster names, all.
func (o *observation) readBalancers(ctx context.Context) {
	parts := []string{partTags, partAttributes, partListeners, partTargetGroups, partTargets}
	if o.failed(providers.KindLoadBalancer) {
		o.cover("load balancers", providers.ErrNotRead, parts...)
		return
	}
	o.cover("", nil, parts...)
	elsewhere := func(r *providers.Resource) bool {
		return !o.interest.vpcs[r.Fields.Get("/vpcId").Value.Text()] && !o.interest.balancers[r.Name]
	}
	classic := slices.DeleteFunc(slices.Clone(o.balancers.classic), elsewhere)
	modern := slices.DeleteFunc(slices.Clone(o.balancers.modern), elsewhere)
	o.cover("tags of load balancers", o.classicTags(ctx, classic), partTags)
	o.cover("tags of load balancers", o.modernTags(ctx, modern), partTags)

	stranger := func(r *providers.Resource) bool { return !capaTagged(r) && !o.interest.balancers[r.Name] }
	classic, modern = slices.DeleteFunc(classic, stranger), slices.DeleteFunc(modern, stranger)
	if n := len(classic) + len(modern); n > mostBalancers {
		err := fmt.Errorf("%d load balancers belong to clusters, and %d at most are read in detail", n, mostBalancers)
		o.cover("load balancers", err, partAttributes, partListeners, partTargetGroups, partTargets, partRegistrations)
		return
	}
	o.readParts(ctx, classic, modern)
}

// capaTagged reports a load balancer of CAPA's, whether owned or shared.
func capaTagged(r *providers.Resource) bool {
	prefix := providers.Pointer("tags", infrav1.NameAWSProviderOwned)
	for path := range r.Fields.All() {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

func (o *observation) classicTags(ctx context.Context, list []*providers.Resource) error {
	byName := map[string]*providers.Resource{}
	for _, r := range list {
		byName[r.Name] = r
	}
	for _, batch := range batches(sorted(byName), tagBatch) {
		out, err := o.elb.DescribeTags(ctx, &elb.DescribeTagsInput{LoadBalancerNames: batch})
		if err != nil {
			return err
		}
		for i := range out.TagDescriptions {
			d := &out.TagDescriptions[i]
			r := byName[deref(d.LoadBalancerName)]
			if r == nil {
				continue
			}
			for j := range d.Tags {
				o.tag(r, deref(d.Tags[j].Key), deref(d.Tags[j].Value))
			}
			closeTags(r)
		}
	}
	return nil
}

func (o *observation) modernTags(ctx context.Context, list []*providers.Resource) error {
	byARN := map[string]*providers.Resource{}
	for _, r := range list {
		byARN[r.ID.Name] = r
	}
	for _, batch := range batches(sorted(byARN), tagBatch) {
		out, err := o.elbv2.DescribeTags(ctx, &elbv2.DescribeTagsInput{ResourceArns: batch})
		if err != nil {
			return err
		}
		for i := range out.TagDescriptions {
			d := &out.TagDescriptions[i]
			r := byARN[deref(d.ResourceArn)]
			if r == nil {
				continue
			}
			for j := range d.Tags {
				o.tag(r, deref(d.Tags[j].Key), deref(d.Tags[j].Value))
			}
			closeTags(r)
		}
	}
	return nil
}

func closeTags(r *providers.Resource) {
	slices.Sort(r.ClusterTags)
	r.ClusterTags = slices.Compact(r.ClusterTags)
	r.Closed = append(r.Closed, "/tags")
}
