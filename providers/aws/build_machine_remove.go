package aws

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// removeInstance takes an instance out of its load balancers, so that nobody is
// sent to an API server that is about to go, then terminates it. Termination
// protection is reported and left as it is.
func (b *building) removeInstance(ctx context.Context, d *providers.Deletion) error {
	id := d.Have.ID.Name
	m, _ := d.Owner.Infra.(*infrav1.AWSMachine)
	if m != nil {
		least, _ := strconv.Atoi(tagOf(d.Have, secretsTag))
		if err := b.forgetSecrets(ctx, m, min(least, mostPieces)); err != nil {
			return err
		}
	}
	for path := range d.Have.Fields.All() {
		if s := providers.Segments(path); len(s) == 2 && s[0] == "loadBalancers" {
			if err := b.deregister(ctx, d.Have, s[1]); err != nil && !notTheirs(err) {
				return err
			}
		}
	}
	_, err := b.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	switch {
	case err != nil && isNotFound(err):
		return nil
	case err != nil && applyReasons[apiCode(err)] == providers.ReasonProtected:
		return &providers.ApplyError{Reason: providers.ReasonProtected, Err: withHint(&answer{"terminate " + id, apiCode(err), err},
			"the instance is protected from termination, and Holdfast takes no protection off: switch it off if the machine is to go")}
	case err != nil:
		return launchError(err, "terminate "+id)
	}
	if m != nil {
		return b.freeInterfaces(ctx, d.Owner, m, d.Have)
	}
	return nil
}

// notTheirs are failures to deregister that do not keep an instance: what it was
// registered with is gone, or is not to be written, and EC2 takes terminated
// targets out by itself (as CAPA bears it).
func notTheirs(err error) bool {
	var refusal *providers.ApplyError
	return errors.As(err, &refusal) && (refusal.Reason == providers.ReasonNotPermitted || refusal.Reason == providers.ReasonMoved)
}

// deregister takes an instance out of the target group or classic load balancer
// of that name.
func (b *building) deregister(ctx context.Context, have *providers.Resource, name string) error {
	id := have.ID.Name
	w := &writing{observation: &observation{reader: b.reader}, Change: &providers.Change{Resource: have.ID}, live: have}
	group, err := w.groupNamed(ctx, name)
	switch {
	case err != nil:
		return err
	case group == nil:
		_, err := b.elb.DeregisterInstancesFromLoadBalancer(ctx, &elb.DeregisterInstancesFromLoadBalancerInput{
			LoadBalancerName: &name, Instances: []elbtypes.Instance{{InstanceId: &id}},
		})
		if apiCode(err) == "InvalidInstance" { // it is not in it
			return nil
		}
		return calledTo(err, "take "+id+" out of load balancer "+name)
	}
	health, err := b.elbv2.DescribeTargetHealth(ctx, &elbv2.DescribeTargetHealthInput{TargetGroupArn: group.TargetGroupArn})
	if err != nil {
		return applyError(err, "read the targets of "+name)
	}
	var targets []elbv2types.TargetDescription
	for i := range health.TargetHealthDescriptions {
		t := &health.TargetHealthDescriptions[i]
		draining := t.TargetHealth != nil && t.TargetHealth.State == elbv2types.TargetHealthStateEnumDraining
		if t.Target != nil && deref(t.Target.Id) == id && !draining {
			targets = append(targets, elbv2types.TargetDescription{Id: &id, Port: t.Target.Port})
		}
	}
	if len(targets) == 0 {
		return nil
	}
	_, err = b.elbv2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{TargetGroupArn: group.TargetGroupArn, Targets: targets})
	return calledTo(err, "take "+id+" out of target group "+name)
}

func calledTo(err error, what string) error {
	if err == nil {
		return nil
	}
	return applyError(err, what)
}

// freeInterfaces takes the cluster's groups off the interfaces that the user
// brought, as far as others are left on them, since a group cannot be deleted
// while an interface has it.
func (b *building) freeInterfaces(ctx context.Context, owner *providers.Owner, m *infrav1.AWSMachine, have *providers.Resource) error {
	cluster, _ := owner.InfraCluster.(*infrav1.AWSCluster)
	if len(m.Spec.NetworkInterfaces) == 0 || cluster == nil {
		return nil
	}
	var ours []string
	for _, g := range cluster.Status.Network.SecurityGroups {
		ours = append(ours, g.ID)
	}
	list, err := b.interfaces(ctx, &choice{ids: m.Spec.NetworkInterfaces})
	if err != nil {
		if isNotFound(err) {
			return nil
		}
		return applyError(err, "read the interfaces of "+have.ID.Name)
	}
	for _, eni := range list {
		groups := eni.Fields.Get(pathSecurityGroups).Value.Elements()
		rest := slices.DeleteFunc(slices.Clone(groups), func(id string) bool { return slices.Contains(ours, id) })
		if len(rest) == 0 || len(rest) == len(groups) {
			continue
		}
		id := eni.ID.Name
		if _, err := b.ec2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &id, Groups: rest}); err != nil {
			return applyError(err, "take the cluster's security groups off "+id)
		}
	}
	return nil
}
