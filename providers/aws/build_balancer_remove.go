package aws

import (
	"context"
	"slices"
	"strings"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func (b *building) removeBalancer(ctx context.Context, d *providers.Deletion) error {
	if strings.HasPrefix(d.Have.ID.Name, classicPrefix) {
		return b.removeClassic(ctx, d)
	}
	return b.removeModern(ctx, d)
}

// removeClassic makes sure that the name still stands for the same load
// balancer: a name may be given again.
func (b *building) removeClassic(ctx context.Context, d *providers.Deletion) error {
	name := d.Have.Name
	tags, err := b.classicTagsOf(ctx, name)
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return err
	case tags[ownerTag] != tagOf(d.Have, ownerTag) || tags[infrav1.ClusterTagKey(b.owner.Cluster.Name)] != tagOf(d.Have, infrav1.ClusterTagKey(b.owner.Cluster.Name)):
		return foreign("load balancer %s is another one by now, and belongs to %s", name, whose(tags))
	}
	_, err = b.elb.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerName: &name})
	return b.removed(ctx, "load balancer "+name, err, nil)
}

// removeModern has the listeners and target groups go before the load balancer,
// by which they are found.
func (b *building) removeModern(ctx context.Context, d *providers.Deletion) error {
	arn, name := d.Have.ID.Name, d.Have.Name
	if d.Have.Fields.Get(pathProtection).Value.Equal(providers.Bool(true)) {
		return &providers.ApplyError{Reason: providers.ReasonProtected, Err: &answer{what: "delete load balancer " + name, code: "its deletion protection is on: switch it off if it may go"}}
	}
	var listeners []string
	err := pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := b.elbv2.DescribeListeners(ctx, &elbv2.DescribeListenersInput{LoadBalancerArn: &arn, PageSize: ptr(loadBalancerPage), Marker: token})
		if err != nil {
			return nil, err
		}
		for i := range page.Listeners {
			listeners = append(listeners, deref(page.Listeners[i].ListenerArn))
		}
		return page.NextMarker, nil
	})
	if err != nil && !isNotFound(err) {
		return buildError(err, "list the listeners of load balancer "+name)
	}
	attached, err := b.targetGroupsOf(ctx, arn)
	if err != nil {
		return err
	}
	for _, listener := range listeners {
		_, err := b.elbv2.DeleteListener(ctx, &elbv2.DeleteListenerInput{ListenerArn: &listener})
		if err != nil && apiCode(err) != "ListenerNotFound" {
			return buildError(err, "delete a listener of load balancer "+name)
		}
	}
	if err := b.removeTargetGroups(ctx, textOf(d.Have, pathVPCID), arn, attached...); err != nil {
		return err
	}
	_, err = b.elbv2.DeleteLoadBalancer(ctx, &elbv2.DeleteLoadBalancerInput{LoadBalancerArn: &arn})
	return b.removed(ctx, "load balancer "+name, err, nil)
}

// targetGroupsOf gives the target groups behind a load balancer.
func (b *building) targetGroupsOf(ctx context.Context, arn string) (out []string, err error) {
	groups, err := b.targetGroups(ctx)
	if err != nil {
		return nil, buildError(err, "list target groups")
	}
	for i := range groups {
		if slices.Contains(groups[i].LoadBalancerArns, arn) {
			out = append(out, deref(groups[i].TargetGroupArn))
		}
	}
	return out, nil
}

// removeTargetGroups deletes the target groups of a VPC that were made for the
// owner, or for its cluster in a VPC of its own, and stand behind no other load
// balancer than the named one.
func (b *building) removeTargetGroups(ctx context.Context, vpc, arn string, attached ...string) error {
	groups, err := b.targetGroups(ctx)
	if err != nil {
		return buildError(err, "list target groups")
	}
	for i := range groups {
		g := &groups[i]
		id := deref(g.TargetGroupArn)
		if deref(g.VpcId) != vpc || slices.ContainsFunc(g.LoadBalancerArns, func(other string) bool { return other != arn }) {
			continue
		}
		tags, err := b.modernTagsOf(ctx, id)
		if err != nil {
			return err
		}
		mine, err := b.mineInVPC(ctx, tags, vpc)
		if err != nil {
			return err
		}
		v := b.view()
		ownVPC := v.managed && v.vpc().ID == vpc
		if !mine && (!b.owned(tags) || tags[ownerTag] != "" || !ownVPC && !slices.Contains(attached, id)) {
			continue
		}
		_, err = b.elbv2.DeleteTargetGroup(ctx, &elbv2.DeleteTargetGroupInput{TargetGroupArn: &id})
		if err != nil && !isNotFound(err) {
			return buildError(err, "delete the target group "+deref(g.TargetGroupName))
		}
	}
	return nil
}
