package aws

import (
	"context"
	"slices"
	"strings"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/holdfast-io/holdfast/providers"
)

func (w *writing) isClassic() bool { return strings.HasPrefix(w.Resource.Name, classicPrefix) }

// balancerSubnets sets all subnets at once where it can, so that the load
// balancer is never in fewer zones than before or after.
func (w *writing) balancerSubnets(ctx context.Context, fields []providers.FieldChange) error {
	due := w.due(fields)
	if len(due) == 0 {
		return nil
	}
	name := w.live.Name
	if !w.isClassic() {
		_, err := w.elbv2.SetSubnets(ctx, &elbv2.SetSubnetsInput{
			LoadBalancerArn: &w.Resource.Name, Subnets: edited(w.live.Fields.Get(pathSubnets).Value.Elements(), due),
		})
		return w.called(err, "set the subnets of load balancer %s", name)
	}
	add, remove := split(due)
	if len(add) > 0 {
		_, err := w.elb.AttachLoadBalancerToSubnets(ctx, &elb.AttachLoadBalancerToSubnetsInput{LoadBalancerName: &name, Subnets: edited(nil, add)})
		if err := w.called(err, "attach load balancer %s to subnets", name); err != nil {
			return err
		}
	}
	if len(remove) == 0 {
		return nil
	}
	var subnets []string
	for _, f := range remove {
		subnets = append(subnets, f.Have.Text())
	}
	_, err := w.elb.DetachLoadBalancerFromSubnets(ctx, &elb.DetachLoadBalancerFromSubnetsInput{LoadBalancerName: &name, Subnets: subnets})
	return w.called(err, "detach load balancer %s from subnets", name)
}

func (w *writing) balancerGroups(ctx context.Context, fields []providers.FieldChange) error {
	due := w.due(fields)
	if len(due) == 0 {
		return nil
	}
	groups := edited(w.live.Fields.Get(pathSecurityGroups).Value.Elements(), due)
	var err error
	if w.isClassic() {
		_, err = w.elb.ApplySecurityGroupsToLoadBalancer(ctx, &elb.ApplySecurityGroupsToLoadBalancerInput{LoadBalancerName: &w.live.Name, SecurityGroups: groups})
	} else {
		_, err = w.elbv2.SetSecurityGroups(ctx, &elbv2.SetSecurityGroupsInput{LoadBalancerArn: &w.Resource.Name, SecurityGroups: groups})
	}
	return w.called(err, "set the security groups of load balancer %s", w.live.Name)
}

func (w *writing) modifyAttributes(ctx context.Context, fields []providers.FieldChange) error {
	if w.isClassic() {
		return w.modifyClassicAttributes(ctx, fields)
	}
	now, err := w.elbv2.DescribeLoadBalancerAttributes(ctx, &elbv2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &w.Resource.Name})
	if err != nil {
		return applyError(err, "read the attributes of load balancer "+w.live.Name)
	}
	w.balancerAttributes(w.live, now.Attributes)
	var list []elbv2types.LoadBalancerAttribute
	for _, f := range w.due(fields) {
		for _, key := range sorted(attributePaths) {
			if attributePaths[key].path == f.Path {
				list = append(list, elbv2types.LoadBalancerAttribute{Key: ptr(key), Value: ptr(f.Want.Text())})
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	_, err = w.elbv2.ModifyLoadBalancerAttributes(ctx, &elbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: &w.Resource.Name, Attributes: list})
	return w.called(err, "set attributes of load balancer %s", w.live.Name)
}

// modifyClassicAttributes leaves out what is not to change, which then stays
// (ModifyLoadBalancerAttributes of 2012-06-01).
func (w *writing) modifyClassicAttributes(ctx context.Context, fields []providers.FieldChange) error {
	name := w.live.Name
	now, err := w.elb.DescribeLoadBalancerAttributes(ctx, &elb.DescribeLoadBalancerAttributesInput{LoadBalancerName: &name})
	if err != nil {
		return applyError(err, "read the attributes of load balancer "+name)
	}
	w.classicAttributes(w.live, now)
	set := &elbtypes.LoadBalancerAttributes{}
	due := w.due(fields)
	for _, f := range due {
		switch f.Path {
		case pathCrossZone:
			set.CrossZoneLoadBalancing = &elbtypes.CrossZoneLoadBalancing{Enabled: f.Want.Equal(providers.Bool(true))}
		case pathIdleTimeout:
			n, _ := f.Want.Number()
			set.ConnectionSettings = &elbtypes.ConnectionSettings{IdleTimeout: ptr(int32(n))} //nolint:gosec // seconds, at most 4,000
		}
	}
	if len(due) == 0 {
		return nil
	}
	_, err = w.elb.ModifyLoadBalancerAttributes(ctx, &elb.ModifyLoadBalancerAttributesInput{LoadBalancerName: &name, LoadBalancerAttributes: set})
	return w.called(err, "set attributes of load balancer %s", name)
}

// classicHealthCheck writes the whole check, as ConfigureHealthCheck demands:
// the live one with what is due.
func (w *writing) classicHealthCheck(ctx context.Context, fields []providers.FieldChange) error {
	due := w.due(fields)
	if len(due) == 0 {
		return nil
	}
	if !w.isClassic() {
		return unsupported("%s has its health checks at its target groups", w.Resource)
	}
	value := func(name string) providers.Value {
		path := "/healthCheck/" + name
		if at := slices.IndexFunc(due, func(f providers.FieldChange) bool { return f.Path == path }); at >= 0 {
			return due[at].Want
		}
		return w.live.Fields.Get(path).Value
	}
	number := func(name string) *int32 {
		n, _ := value(name).Number()
		return ptr(int32(n)) //nolint:gosec // seconds and counts, at most 300
	}
	_, err := w.elb.ConfigureHealthCheck(ctx, &elb.ConfigureHealthCheckInput{LoadBalancerName: &w.live.Name, HealthCheck: &elbtypes.HealthCheck{
		Target: ptr(value("target").Text()), Interval: number("interval"), Timeout: number("timeout"),
		HealthyThreshold: number("healthyThreshold"), UnhealthyThreshold: number("unhealthyThreshold"),
	}})
	return w.called(err, "configure the health check of load balancer %s", w.live.Name)
}

// targetGroupChecks writes health checks, group by group.
func (w *writing) targetGroupChecks(ctx context.Context, fields []providers.FieldChange) error {
	byGroup := map[string][]providers.FieldChange{}
	for _, f := range fields {
		s := providers.Segments(f.Path)
		if len(s) != 4 || s[2] != "healthCheck" {
			return unsupported("%s of %s is chosen when the target group is made", f.Path, w.Resource)
		}
		byGroup[s[1]] = append(byGroup[s[1]], f)
	}
	for _, name := range sorted(byGroup) {
		group, err := w.groupNamed(ctx, name)
		if err != nil {
			return err
		}
		if group == nil || len(group.LoadBalancerArns) > 0 && !slices.Contains(group.LoadBalancerArns, w.Resource.Name) {
			return moved("target group %s of %s does not exist any more", name, w.Resource)
		}
		w.targetGroup(w.live, group)
		if err := w.healthCheck(ctx, group, w.due(byGroup[name])); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) healthCheck(ctx context.Context, group *elbv2types.TargetGroup, due []providers.FieldChange) error {
	if len(due) == 0 {
		return nil
	}
	in := &elbv2.ModifyTargetGroupInput{TargetGroupArn: group.TargetGroupArn}
	for _, f := range due {
		n, _ := f.Want.Number()
		number := ptr(int32(n)) //nolint:gosec // seconds and counts, at most 300
		switch lastSegment(f.Path) {
		case "protocol":
			in.HealthCheckProtocol = elbv2types.ProtocolEnum(f.Want.Text())
			// A check by HTTP needs a path, and one by TCP has none.
			path := strings.TrimSuffix(f.Path, "protocol") + "path"
			if want := w.Want.Fields.Get(path).Value; !want.IsAbsent() {
				in.HealthCheckPath = ptr(want.Text())
			}
		case "port":
			in.HealthCheckPort = ptr(f.Want.Text())
		case "path":
			in.HealthCheckPath = ptr(f.Want.Text())
		case "interval":
			in.HealthCheckIntervalSeconds = number
		case "timeout":
			in.HealthCheckTimeoutSeconds = number
		case "healthyThreshold":
			in.HealthyThresholdCount = number
		case "unhealthyThreshold":
			in.UnhealthyThresholdCount = number
		default:
			return unsupported("%s of %s is not known", f.Path, w.Resource)
		}
	}
	_, err := w.elbv2.ModifyTargetGroup(ctx, in)
	return w.called(err, "change the health check of target group %s", deref(group.TargetGroupName))
}
