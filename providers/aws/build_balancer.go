package aws

import (
	"context"
	"fmt"
	"slices"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// createBalancer makes a load balancer of the control plane with its listeners.
// Names are unique in a region, so that one is found by its name; another
// cluster's is refused.
func (b *building) createBalancer(ctx context.Context, c *providers.Creation) (string, error) {
	lbs := b.view().loadBalancers()
	at := slices.IndexFunc(lbs, func(lb lbView) bool { return lb.id == c.Want.ID.Name })
	if at < 0 {
		return "", unsupported("%s is not one of the load balancers of %s", c.Want.ID, b.owner.Ref)
	}
	lb := &lbs[at]
	if len(c.Want.Fields.Get(pathSubnets).Value.Elements()) == 0 {
		return "", refused("load balancer %s: the cluster has no subnets for the scheme %s: declare some in spec.network.subnets, or in %s.subnets", lb.name, lb.scheme, lb.field)
	}
	switch lb.kind {
	case lbClassic:
		return b.createClassic(ctx, c, lb)
	case lbGateway:
		return "", unsupported("%s.loadBalancerType: a gateway load balancer cannot serve a control plane: want classic, nlb or alb", lb.field)
	default:
		return b.createModern(ctx, c, lb)
	}
}

func (b *building) createClassic(ctx context.Context, c *providers.Creation, lb *lbView) (string, error) {
	id, err := b.classicNamed(ctx, lb)
	if err != nil || id != "" {
		return id, err
	}
	in := &elb.CreateLoadBalancerInput{
		LoadBalancerName: &lb.name, Scheme: ptr(string(lb.scheme)),
		Subnets:        c.Want.Fields.Get(pathSubnets).Value.Elements(),
		SecurityGroups: c.Want.Fields.Get(pathSecurityGroups).Value.Elements(),
	}
	tags := b.tagsOfWant(c.Want)
	for _, key := range sorted(tags) {
		in.Tags = append(in.Tags, elbtypes.Tag{Key: ptr(key), Value: ptr(tags[key])})
	}
	for _, words := range c.Want.Fields.Get(pathListeners).Value.Elements() {
		l, err := parseListener(words)
		if err != nil {
			return "", refused("%s: %w", c.Want.ID, err)
		}
		in.Listeners = append(in.Listeners, elbtypes.Listener{Protocol: &l.protocol, LoadBalancerPort: l.port, InstanceProtocol: &l.toProtocol, InstancePort: &l.toPort})
	}
	_, err = b.elb.CreateLoadBalancer(ctx, in)
	if apiCode(err) == "DuplicateLoadBalancerName" {
		if id, again := b.classicNamed(ctx, lb); again != nil || id != "" {
			return id, again
		}
	}
	if err != nil {
		return "", buildError(err, "make the load balancer "+lb.name)
	}
	return classicPrefix + lb.name, nil
}

// classicNamed gives the id of the classic load balancer with the name; empty if
// there is none.
func (b *building) classicNamed(ctx context.Context, lb *lbView) (string, error) {
	found, err := b.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{lb.name}})
	switch {
	case isNotFound(err):
		return "", nil
	case err != nil:
		return "", buildError(err, "look for the load balancer "+lb.name)
	case len(found.LoadBalancerDescriptions) == 0:
		return "", nil
	}
	d := &found.LoadBalancerDescriptions[0]
	tags, err := b.classicTagsOf(ctx, lb.name)
	if err != nil {
		return "", err
	}
	return b.ownBalancer(ctx, lb, classicPrefix+lb.name, deref(d.VPCId), deref(d.DNSName), tags)
}

// balancerNamed gives the address and the tags of the load balancer with the
// name; both are empty if there is none.
func (b *building) balancerNamed(ctx context.Context, lb *lbView) (dns string, tags map[string]string, err error) {
	if lb.kind == lbClassic {
		found, err := b.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{lb.name}})
		if err != nil || len(found.LoadBalancerDescriptions) == 0 {
			return "", nil, ignoreNotFound(err, "look for the load balancer "+lb.name)
		}
		tags, err = b.classicTagsOf(ctx, lb.name)
		return deref(found.LoadBalancerDescriptions[0].DNSName), tags, err
	}
	found, err := b.elbv2.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{Names: []string{lb.name}})
	if err != nil || len(found.LoadBalancers) == 0 {
		return "", nil, ignoreNotFound(err, "look for the load balancer "+lb.name)
	}
	tags, err = b.modernTagsOf(ctx, deref(found.LoadBalancers[0].LoadBalancerArn))
	return deref(found.LoadBalancers[0].DNSName), tags, err
}

func ignoreNotFound(err error, what string) error {
	if isNotFound(err) {
		return nil
	}
	return buildError(err, what)
}

func (b *building) classicTagsOf(ctx context.Context, name string) (map[string]string, error) {
	out, err := b.elb.DescribeTags(ctx, &elb.DescribeTagsInput{LoadBalancerNames: []string{name}})
	if err != nil {
		return nil, buildError(err, "read the tags of load balancer "+name)
	}
	tags := map[string]string{}
	for i := range out.TagDescriptions {
		for _, t := range out.TagDescriptions[i].Tags {
			tags[deref(t.Key)] = deref(t.Value)
		}
	}
	return tags, nil
}

// ownBalancer gives the id of a load balancer that has the wanted name and is
// the cluster's. In a VPC that was brought that is told by the endpoint too,
// which the cluster keeps wherever its objects are moved to.
func (b *building) ownBalancer(ctx context.Context, lb *lbView, id, vpc, dns string, tags map[string]string) (string, error) {
	mine, err := b.mineInVPC(ctx, tags, vpc)
	if err != nil {
		return "", err
	}
	v := b.view()
	owned := tags[infrav1.ClusterTagKey(v.name)] == string(infrav1.ResourceLifecycleOwned)
	if !mine && owned && dns != "" && v.spec.Spec.ControlPlaneEndpoint.Host == dns {
		mine = true
	}
	if !mine {
		return "", foreign("a load balancer %s exists in %s, and it belongs to %s: set %s.name to a name of its own", lb.name, vpc, whose(tags), lb.field)
	}
	return id, nil
}

// groupless are the regions where network load balancers have no security
// groups.
var groupless = []string{"us-iso-east-1", "us-iso-west-1", "us-isob-east-1"}

// createModern is done when the load balancer has all its listeners, each with
// a target group, so that one of which a part is missing is finished by the
// next call.
func (b *building) createModern(ctx context.Context, c *providers.Creation, lb *lbView) (string, error) {
	arn, err := b.modernNamed(ctx, lb)
	if err != nil {
		return "", err
	}
	if arn == "" {
		in := &elbv2.CreateLoadBalancerInput{
			Name: &lb.name, Type: elbv2types.LoadBalancerTypeEnum(lb.kind), Scheme: elbv2types.LoadBalancerSchemeEnum(lb.scheme),
			Subnets:        c.Want.Fields.Get(pathSubnets).Value.Elements(),
			SecurityGroups: c.Want.Fields.Get(pathSecurityGroups).Value.Elements(), Tags: elbv2Tags(b.tagsOfWant(c.Want)),
		}
		if lb.kind == lbNetwork && slices.Contains(groupless, b.region) {
			in.SecurityGroups = nil
		}
		out, err := b.elbv2.CreateLoadBalancer(ctx, in)
		if err != nil {
			return "", buildError(err, "make the load balancer "+lb.name)
		}
		if len(out.LoadBalancers) == 0 {
			return "", fmt.Errorf("make the load balancer %s: Elastic Load Balancing gave none", lb.name)
		}
		arn = deref(out.LoadBalancers[0].LoadBalancerArn)
	}
	return arn, b.makeListeners(ctx, c, lb, arn)
}

func (b *building) modernNamed(ctx context.Context, lb *lbView) (arn string, err error) {
	found, err := b.elbv2.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{Names: []string{lb.name}})
	switch {
	case isNotFound(err):
		return "", nil
	case err != nil:
		return "", buildError(err, "look for the load balancer "+lb.name)
	case len(found.LoadBalancers) == 0:
		return "", nil
	}
	d := &found.LoadBalancers[0]
	tags, err := b.modernTagsOf(ctx, deref(d.LoadBalancerArn))
	if err != nil {
		return "", err
	}
	return b.ownBalancer(ctx, lb, deref(d.LoadBalancerArn), deref(d.VpcId), deref(d.DNSName), tags)
}

func (b *building) modernTagsOf(ctx context.Context, arn string) (map[string]string, error) {
	out, err := b.elbv2.DescribeTags(ctx, &elbv2.DescribeTagsInput{ResourceArns: []string{arn}})
	if err != nil {
		return nil, buildError(err, "read the tags of "+arn)
	}
	tags := map[string]string{}
	for i := range out.TagDescriptions {
		for _, t := range out.TagDescriptions[i].Tags {
			tags[deref(t.Key)] = deref(t.Value)
		}
	}
	return tags, nil
}

func elbv2Tags(tags map[string]string) (out []elbv2types.Tag) {
	for _, key := range sorted(tags) {
		out = append(out, elbv2types.Tag{Key: ptr(key), Value: ptr(tags[key])})
	}
	return out
}
