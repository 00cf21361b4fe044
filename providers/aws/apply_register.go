package aws

import (
	"context"
	"slices"
	"strconv"
	"strings"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// register registers the instance in each target group or classic load
// balancer that a field names. Both calls are idempotent.
func (w *writing) register(ctx context.Context, fields []providers.FieldChange) error {
	for _, f := range fields {
		name := lastSegment(f.Path)
		if f.Want.Text() != registered {
			return unsupported("%s of %s: instances are only ever registered", f.Path, w.Resource)
		}
		group, err := w.groupNamed(ctx, name)
		switch {
		case err != nil:
			return err
		case group != nil:
			err = w.registerTarget(ctx, group, f.Have.Text())
		default:
			err = w.registerClassic(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// groupNamed finds a target group of the instance's VPC; nil if there is none.
// Names are unique in a region (CreateTargetGroup, Name).
func (w *writing) groupNamed(ctx context.Context, name string) (*elbv2types.TargetGroup, error) {
	out, err := w.elbv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{Names: []string{name}})
	if err != nil {
		// A name that no target group can have is refused instead (32
		// characters); it is a classic load balancer's.
		if isNotFound(err) || isMalformed(err) {
			return nil, nil
		}
		return nil, applyError(err, "find target group "+name)
	}
	for i := range out.TargetGroups {
		if g := &out.TargetGroups[i]; deref(g.TargetGroupName) == name && deref(g.VpcId) == w.live.Fields.Get(pathVPCID).Value.Text() {
			return g, nil
		}
	}
	return nil, nil
}

// otherPort precedes the port in what is seen of an instance that is registered
// elsewhere than its group's port.
const otherPort = "registered on port "

// registerTarget registers on the group's own port, then takes away the other
// port that was seen in its stead.
func (w *writing) registerTarget(ctx context.Context, group *elbv2types.TargetGroup, seen string) error {
	name, id := deref(group.TargetGroupName), w.Resource.Name
	if group.TargetType != elbv2types.TargetTypeEnumInstance {
		return unsupported("target group %s takes targets of type %s, and %s is an instance", name, group.TargetType, id)
	}
	health, err := w.elbv2.DescribeTargetHealth(ctx, &elbv2.DescribeTargetHealthInput{TargetGroupArn: group.TargetGroupArn})
	if err != nil {
		return applyError(err, "read the targets of "+name)
	}
	port := group.Port
	if !strings.HasPrefix(seen, otherPort) {
		port = nil // any port of a group that the user brought
	}
	there := registeredTargets(health.TargetHealthDescriptions, port)
	if !slices.ContainsFunc(there, func(r registration) bool { return r.id == id && r.value == valueRegistered }) {
		_, err := w.elbv2.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{
			TargetGroupArn: group.TargetGroupArn, Targets: []elbv2types.TargetDescription{{Id: &id, Port: group.Port}},
		})
		if err := w.called(err, "register %s in target group %s", id, name); err != nil {
			return err
		}
	}
	return w.deregisterPort(ctx, group, health.TargetHealthDescriptions, strings.TrimPrefix(seen, otherPort))
}

func (w *writing) deregisterPort(ctx context.Context, group *elbv2types.TargetGroup, health []elbv2types.TargetHealthDescription, seen string) error {
	n, err := strconv.ParseInt(seen, 10, 32)
	if err != nil || int32(n) == deref(group.Port) {
		return nil
	}
	id, port := w.Resource.Name, int32(n)
	there := slices.ContainsFunc(health, func(d elbv2types.TargetHealthDescription) bool {
		return d.Target != nil && deref(d.Target.Id) == id && deref(d.Target.Port) == port &&
			(d.TargetHealth == nil || d.TargetHealth.State != elbv2types.TargetHealthStateEnumDraining)
	})
	if !there {
		return nil
	}
	_, err = w.elbv2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{
		TargetGroupArn: group.TargetGroupArn, Targets: []elbv2types.TargetDescription{{Id: &id, Port: &port}},
	})
	return w.called(err, "deregister %s from port %d of target group %s", id, port, deref(group.TargetGroupName))
}

func (w *writing) registerClassic(ctx context.Context, name string) error {
	list, err := w.classicBalancers(ctx, []string{name})
	if err != nil {
		return applyError(err, "find load balancer "+name)
	}
	id := w.Resource.Name
	for _, r := range list {
		if r.Fields.Get(pathVPCID).Value.Text() != w.live.Fields.Get(pathVPCID).Value.Text() {
			return refused("load balancer %s is not in the VPC of %s", name, id)
		}
		if r.Fields.Get("/targets").Value.Has(id) {
			return nil
		}
	}
	_, err = w.elb.RegisterInstancesWithLoadBalancer(ctx, &elb.RegisterInstancesWithLoadBalancerInput{
		LoadBalancerName: &name, Instances: []elbtypes.Instance{{InstanceId: &id}},
	})
	return w.called(err, "register %s with load balancer %s", id, name)
}
