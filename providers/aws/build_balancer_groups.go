package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// makeListeners gives each port that has none a target group and a listener.
func (b *building) makeListeners(ctx context.Context, c *providers.Creation, lb *lbView, arn string) error {
	taken := map[int64]bool{}
	err := pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := b.elbv2.DescribeListeners(ctx, &elbv2.DescribeListenersInput{LoadBalancerArn: &arn, PageSize: ptr(loadBalancerPage), Marker: token})
		if err != nil {
			return nil, err
		}
		for i := range page.Listeners {
			taken[int64(deref(page.Listeners[i].Port))] = true
		}
		return page.NextMarker, nil
	})
	if err != nil {
		return buildError(err, "list the listeners of load balancer "+lb.name)
	}
	for i := range lb.listeners {
		l := &lb.listeners[i]
		if taken[l.port] {
			continue
		}
		group, err := b.makeTargetGroup(ctx, c, lb, l)
		if err != nil {
			return err
		}
		_, err = b.elbv2.CreateListener(ctx, &elbv2.CreateListenerInput{
			LoadBalancerArn: &arn, Port: ptr(int32(l.port)), Protocol: elbv2types.ProtocolEnum(strings.ToUpper(string(l.protocol))), //nolint:gosec // a port
			DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: &group}},
			Tags:           elbv2Tags(b.tagsOfWant(c.Want)),
		})
		if err != nil && apiCode(err) != "DuplicateListener" {
			return buildError(err, fmt.Sprintf("make the listener on port %d of load balancer %s", l.port, lb.name))
		}
	}
	return nil
}

// targetGroupName has the prefix by which CAPA knows its target groups, and is
// the same in every try.
func (b *building) targetGroupName(c *providers.Creation, l *listenerView) string {
	sum := sha256.Sum256([]byte(c.Token + "/" + strconv.FormatInt(l.port, 10)))
	return l.prefix + hex.EncodeToString(sum[:5])
}

func (b *building) makeTargetGroup(ctx context.Context, c *providers.Creation, lb *lbView, l *listenerView) (arn string, err error) {
	name, vpc := b.targetGroupName(c, l), c.Want.Fields.Get(pathVPCID).Value.Text()
	found, err := b.groupNamedV2(ctx, name)
	switch {
	case err != nil:
		return "", err
	case found != nil && deref(found.VpcId) != vpc:
		return "", foreign("target group %s exists in %s, which is not the cluster's VPC %s: delete it if nobody needs it", name, deref(found.VpcId), vpc)
	case found != nil:
		arn = deref(found.TargetGroupArn)
	default:
		out, err := b.elbv2.CreateTargetGroup(ctx, b.targetGroupInput(c, lb, l, name, vpc))
		if err != nil {
			return "", buildError(err, "make the target group "+name)
		}
		if len(out.TargetGroups) == 0 {
			return "", fmt.Errorf("make the target group %s: Elastic Load Balancing gave none", name)
		}
		arn = deref(out.TargetGroups[0].TargetGroupArn)
	}
	return arn, b.setTargetAttributes(ctx, arn, name, targetAttributes(lb))
}

// setTargetAttributes sets those that differ, all at once.
func (b *building) setTargetAttributes(ctx context.Context, arn, name string, want []elbv2types.TargetGroupAttribute) error {
	if len(want) == 0 {
		return nil
	}
	now, err := b.elbv2.DescribeTargetGroupAttributes(ctx, &elbv2.DescribeTargetGroupAttributesInput{TargetGroupArn: &arn})
	if err != nil {
		return buildError(err, "read the attributes of target group "+name)
	}
	due := slices.DeleteFunc(want, func(w elbv2types.TargetGroupAttribute) bool {
		return slices.ContainsFunc(now.Attributes, func(a elbv2types.TargetGroupAttribute) bool {
			return deref(a.Key) == deref(w.Key) && deref(a.Value) == deref(w.Value)
		})
	})
	if len(due) == 0 {
		return nil
	}
	_, err = b.elbv2.ModifyTargetGroupAttributes(ctx, &elbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &arn, Attributes: due})
	return buildError(err, "set attributes of target group "+name)
}

func (b *building) groupNamedV2(ctx context.Context, name string) (*elbv2types.TargetGroup, error) {
	out, err := b.elbv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{Names: []string{name}})
	switch {
	case isNotFound(err):
		return nil, nil //nolint:nilnil // none is no error
	case err != nil:
		return nil, buildError(err, "look for the target group "+name)
	case len(out.TargetGroups) == 0:
		return nil, nil //nolint:nilnil // none is no error
	}
	return &out.TargetGroups[0], nil
}

func (b *building) targetGroupInput(c *providers.Creation, lb *lbView, l *listenerView, name, vpc string) *elbv2.CreateTargetGroupInput {
	number := func(n *int64, otherwise int32) *int32 {
		if n == nil {
			return &otherwise
		}
		return ptr(int32(*n)) //nolint:gosec // seconds and counts, at most 300
	}
	in := &elbv2.CreateTargetGroupInput{
		Name: &name, VpcId: &vpc, Port: ptr(int32(l.port)), Protocol: elbv2types.ProtocolEnum(strings.ToUpper(string(l.protocol))), //nolint:gosec // a port
		Tags: elbv2Tags(b.tagsOfWant(c.Want)), IpAddressType: elbv2types.TargetGroupIpAddressTypeEnumIpv4,
		HealthCheckEnabled: ptr(true), HealthCheckProtocol: elbv2types.ProtocolEnum(strings.ToUpper(deref(l.check.Protocol))),
		HealthCheckPort: l.check.Port, HealthCheckPath: l.check.Path,
		HealthCheckIntervalSeconds: number(l.check.IntervalSeconds, infrav1.DefaultAPIServerHealthCheckIntervalSec),
		HealthCheckTimeoutSeconds:  number(l.check.TimeoutSeconds, infrav1.DefaultAPIServerHealthCheckTimeoutSec),
		HealthyThresholdCount:      number(l.check.ThresholdCount, infrav1.DefaultAPIServerHealthThresholdCount),
		UnhealthyThresholdCount:    number(l.check.UnhealthyThresholdCount, infrav1.DefaultAPIServerUnhealthThresholdCount),
	}
	if kind := targetIPType(lb, l); kind != "" {
		in.IpAddressType = elbv2types.TargetGroupIpAddressTypeEnum(kind)
	}
	return in
}

// targetIPType is what the spec says of the group behind a listener.
func targetIPType(lb *lbView, l *listenerView) infrav1.TargetGroupIPType {
	if l.prefix == apiTargetPrefix {
		return deref(lb.spec.TargetGroupIPType)
	}
	for i := range lb.spec.AdditionalListeners {
		if lb.spec.AdditionalListeners[i].Port == l.port {
			return deref(lb.spec.AdditionalListeners[i].TargetGroupIPType)
		}
	}
	return ""
}

// targetAttributes are those that CAPA sets when it makes a target group.
func targetAttributes(lb *lbView) (out []elbv2types.TargetGroupAttribute) {
	add := func(key, value string) {
		out = append(out, elbv2types.TargetGroupAttribute{Key: &key, Value: &value})
	}
	if lb.kind == lbNetwork {
		add(infrav1.TargetGroupAttributeEnableConnectionTermination, "false")
		add(infrav1.TargetGroupAttributeUnhealthyDrainingIntervalSeconds, "300")
	}
	if !lb.spec.PreserveClientIP {
		add(infrav1.TargetGroupAttributeEnablePreserveClientIP, "false")
	}
	return out
}
