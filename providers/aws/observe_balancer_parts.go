package aws

import (
	"context"
	"slices"
	"sync"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/providers"
)

// readParts reads one load balancer's parts after another's, several at once.
func (o *observation) readParts(ctx context.Context, classic, modern []*providers.Resource) {
	var mu sync.Mutex
	o.balancers.joined = map[string]*registrations{}
	note := func(vpc, name string, instances []registration) {
		mu.Lock()
		defer mu.Unlock()
		in := o.balancers.joined[vpc]
		if in == nil {
			in = &registrations{of: map[string][]registration{}}
			o.balancers.joined[vpc] = in
		}
		in.names = append(in.names, name)
		for _, i := range instances {
			i.name = name
			in.of[i.id] = append(in.of[i.id], i)
		}
	}
	names := map[string]string{}
	for i := range o.balancers.groups {
		names[deref(o.balancers.groups[i].TargetGroupArn)] = deref(o.balancers.groups[i].TargetGroupName)
	}
	var g errgroup.Group
	g.SetLimit(detailsAtOnce)
	for _, r := range classic {
		var instances []registration
		for _, id := range r.Fields.Get("/targets").Value.Elements() {
			instances = append(instances, registration{id: id, value: valueRegistered})
		}
		note(r.Fields.Get("/vpcId").Value.Text(), r.Name, instances)
		g.Go(func() error { o.readClassic(ctx, r); return nil })
	}
	for _, r := range modern {
		g.Go(func() error { o.readModern(ctx, r, names, note); return nil })
	}
	_ = g.Wait() // failures are in coverage
	o.balancers.groups = nil
}

// gone reports a load balancer that was deleted since it was listed. A later
// read will miss it; this one only knows that it changed.
func gone(r *providers.Resource, err error) bool {
	if !isNotFound(err) {
		return false
	}
	r.Unknown = "deleted while it was being read"
	return true
}

func (o *observation) readClassic(ctx context.Context, r *providers.Resource) {
	out, err := o.elb.DescribeLoadBalancerAttributes(ctx, &elb.DescribeLoadBalancerAttributesInput{LoadBalancerName: &r.Name})
	switch {
	case gone(r, err):
	case err != nil:
		o.cover("attributes of load balancer "+r.Name, err, partAttributes)
	default:
		o.classicAttributes(r, out)
	}
}

func (o *observation) readModern(ctx context.Context, r *providers.Resource, names map[string]string, note func(vpc, name string, instances []registration)) {
	attributes, err := o.elbv2.DescribeLoadBalancerAttributes(ctx, &elbv2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &r.ID.Name})
	switch {
	case gone(r, err):
		return
	case err != nil:
		o.cover("attributes of load balancer "+r.Name, err, partAttributes)
	default:
		o.balancerAttributes(r, attributes.Attributes)
	}
	forwarded, err := o.readListeners(ctx, r, names)
	if gone(r, err) {
		return
	}
	if err != nil {
		o.cover("listeners of load balancer "+r.Name, err, partListeners)
	}
	var targets []string
	for i := range o.balancers.groups {
		group := &o.balancers.groups[i]
		if !slices.Contains(group.LoadBalancerArns, r.ID.Name) && !slices.Contains(forwarded, deref(group.TargetGroupArn)) {
			continue
		}
		o.targetGroup(r, group)
		health, err := o.elbv2.DescribeTargetHealth(ctx, &elbv2.DescribeTargetHealthInput{TargetGroupArn: group.TargetGroupArn})
		if gone(r, err) {
			return
		}
		if err != nil {
			o.cover("targets of target group "+deref(group.TargetGroupName), err, partTargets, partRegistrations)
			continue
		}
		port := group.Port
		if len(r.ClusterTags) == 0 {
			port = nil // whoever brought it may use any
		}
		registered := registeredTargets(health.TargetHealthDescriptions, port)
		for _, i := range registered {
			targets = append(targets, i.id)
		}
		note(r.Fields.Get("/vpcId").Value.Text(), deref(group.TargetGroupName), registered)
	}
	o.set(r, "/targets", targets)
	r.Closed = append(r.Closed, "/targetGroups")
}

func (o *observation) readListeners(ctx context.Context, r *providers.Resource, names map[string]string) (groups []string, err error) {
	var all []elbv2types.Listener
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := o.elbv2.DescribeListeners(ctx, &elbv2.DescribeListenersInput{LoadBalancerArn: &r.ID.Name, PageSize: ptr(loadBalancerPage), Marker: token})
		if err != nil {
			return nil, err
		}
		all = append(all, page.Listeners...)
		return page.NextMarker, nil
	})
	if err != nil {
		return nil, err
	}
	return o.listeners(r, all, names), nil
}

// joinRegistrations gives instances the load balancers and target groups that
// they are registered in, and closes those of their VPC that were read, so
// that an instance which is in none of them is known to be.
func (o *observation) joinRegistrations() {
	if o.failed(partRegistrations) || len(o.balancers.joined) == 0 {
		return
	}
	type closing struct {
		vpc   string
		disks seenDisks
	}
	closed := map[closing][]string{}
	for i := range o.seenInstances {
		s := &o.seenInstances[i]
		vpc := s.Fields.Get("/vpcId").Value.Text()
		in := o.balancers.joined[vpc]
		if in == nil || s.Gone != "" || s.Unknown != "" {
			continue
		}
		for _, i := range in.of[s.ID.Name] {
			s.Fields.Set(o.names.text(providers.Pointer("loadBalancers", i.name)), providers.Field{Value: i.value})
		}
		key := closing{vpc, s.disks}
		if closed[key] == nil {
			list := slices.Clone(s.Closed)
			for _, name := range in.names {
				list = append(list, providers.Pointer("loadBalancers", name))
			}
			closed[key] = list
		}
		s.Closed = closed[key]
	}
}

var valueRegistered = providers.String("registered")
