package aws

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// listenerWords is a listener taken apart: "TCP:6443 to target group NAME", or
// "TCP:6443 to TCP:6443" of a classic load balancer.
type listenerWords struct {
	protocol string
	port     int32
	// group is the target group's name; one that ends in * is any that begins
	// so.
	group string
	// toProtocol and toPort are the instances' side of a classic one.
	toProtocol string
	toPort     int32
}

func parseListener(words string) (l listenerWords, err error) {
	from, to, ok := strings.Cut(words, " to ")
	if !ok {
		return l, fmt.Errorf("listener %q: want PROTOCOL:PORT to TARGET", words)
	}
	if l.protocol, l.port, err = protocolPort(from); err != nil {
		return l, fmt.Errorf("listener %q: %w", words, err)
	}
	if group, ok := strings.CutPrefix(to, "target group "); ok {
		l.group = group
		return l, nil
	}
	if l.toProtocol, l.toPort, err = protocolPort(to); err != nil {
		return l, fmt.Errorf("listener %q: %w", words, err)
	}
	return l, nil
}

func protocolPort(s string) (protocol string, port int32, err error) {
	protocol, number, _ := strings.Cut(s, ":")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 1 || n > 65535 || protocol == "" {
		return "", 0, fmt.Errorf("%q is not PROTOCOL:PORT", s)
	}
	return protocol, int32(n), nil
}

// checkListeners refuses listeners that need what the words do not hold: a
// certificate, rules, weights.
func checkListeners(c *providers.Change, fields []providers.FieldChange) error {
	classic := strings.HasPrefix(c.Resource.Name, classicPrefix)
	for _, f := range fields {
		if f.Want.IsAbsent() {
			continue
		}
		l, err := parseListener(f.Want.Text())
		switch {
		case err != nil:
			return refused("%s: %w", c.Resource, err)
		case classic != (l.group == ""):
			return refused("%s: listener %q is of another type of load balancer", c.Resource, f.Want.Text())
		case l.protocol == "HTTPS" || l.protocol == "TLS" || l.protocol == "SSL":
			return unsupported("%s: listener %q needs a certificate", c.Resource, f.Want.Text())
		}
	}
	return nil
}

// isListener reports whether live words are the wanted ones. A target group
// that could not be told is wanted by the beginning of its name.
func isListener(want, live string) bool {
	prefix, open := strings.CutSuffix(want, "*")
	return want == live || open && strings.HasPrefix(live, prefix)
}

func (w *writing) balancerListeners(ctx context.Context, fields []providers.FieldChange) error {
	if w.isClassic() {
		return w.classicListeners(ctx, w.due(fields))
	}
	groups, err := w.targetGroups(ctx)
	if err != nil {
		return applyError(err, "list target groups")
	}
	live, err := w.liveListeners(ctx, groups)
	if err != nil {
		return err
	}
	add, remove := split(fields)
	changed := map[string]bool{}
	for _, f := range add {
		if slices.ContainsFunc(live, func(l liveListener) bool {
			return slices.ContainsFunc(l.words, func(words string) bool { return isListener(f.Want.Text(), words) })
		}) {
			continue
		}
		arn, err := w.setListener(ctx, f.Want.Text(), live, groups)
		if err != nil {
			return err
		}
		changed[arn] = true
	}
	for _, f := range remove {
		for _, l := range live {
			if changed[l.arn] || !slices.Contains(l.words, f.Have.Text()) {
				continue
			}
			if err := w.deleteListener(ctx, &l); err != nil {
				return err
			}
		}
	}
	return nil
}

// liveListener is a listener with what it is in words.
type liveListener struct {
	arn   string
	port  int32
	words []string
}

func (w *writing) liveListeners(ctx context.Context, groups []elbv2types.TargetGroup) (out []liveListener, err error) {
	names := map[string]string{}
	for i := range groups {
		names[deref(groups[i].TargetGroupArn)] = deref(groups[i].TargetGroupName)
	}
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := w.elbv2.DescribeListeners(ctx, &elbv2.DescribeListenersInput{LoadBalancerArn: &w.Resource.Name, PageSize: ptr(loadBalancerPage), Marker: token})
		if err != nil {
			return nil, err
		}
		for i := range page.Listeners {
			one := w.resource(providers.KindLoadBalancer, nil, 1)
			w.listeners(one, page.Listeners[i:i+1], names)
			out = append(out, liveListener{
				arn: deref(page.Listeners[i].ListenerArn), port: deref(page.Listeners[i].Port), words: one.Fields.Get(pathListeners).Value.Elements(),
			})
		}
		return page.NextMarker, nil
	})
	if err != nil {
		return nil, applyError(err, "list the listeners of "+w.live.Name)
	}
	return out, nil
}

// setListener makes a listener, or changes the one that has its port: a load
// balancer has one for each (CreateListener, DuplicateListener).
func (w *writing) setListener(ctx context.Context, words string, live []liveListener, groups []elbv2types.TargetGroup) (arn string, err error) {
	l, err := parseListener(words)
	if err != nil {
		return "", refused("%s: %w", w.Resource, err)
	}
	group, err := w.chooseGroup(ctx, &l, groups)
	if err != nil {
		return "", err
	}
	forward := []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: group}}
	protocol := elbv2types.ProtocolEnum(l.protocol)
	at := slices.IndexFunc(live, func(other liveListener) bool { return other.port == l.port })
	if at >= 0 {
		if len(live[at].words) > 1 {
			return "", unsupported("listener on port %d of %s has several targets, which are not changed one by one", l.port, w.Resource)
		}
		_, err = w.elbv2.ModifyListener(ctx, &elbv2.ModifyListenerInput{ListenerArn: &live[at].arn, Protocol: protocol, DefaultActions: forward})
		return live[at].arn, w.called(err, "change the listener on port %d of load balancer %s", l.port, w.live.Name)
	}
	var tags []elbv2types.Tag
	for path, f := range w.Want.Fields.All() {
		if within(path, "/tags") {
			tags = append(tags, elbv2types.Tag{Key: ptr(lastSegment(path)), Value: ptr(f.Value.Text())})
		}
	}
	_, err = w.elbv2.CreateListener(ctx, &elbv2.CreateListenerInput{
		LoadBalancerArn: &w.Resource.Name, Protocol: protocol, Port: &l.port, DefaultActions: forward, Tags: tags,
	})
	return "", w.called(err, "make a listener on port %d of load balancer %s", l.port, w.live.Name)
}

func (w *writing) deleteListener(ctx context.Context, l *liveListener) error {
	if len(l.words) > 1 {
		return unsupported("listener on port %d of %s has several targets, which are not taken away one by one", l.port, w.Resource)
	}
	_, err := w.elbv2.DeleteListener(ctx, &elbv2.DeleteListenerInput{ListenerArn: &l.arn})
	if apiCode(err) == "ListenerNotFound" {
		err = nil
	}
	return w.called(err, "delete the listener on port %d of load balancer %s", l.port, w.live.Name)
}

// chooseGroup finds the target group that a listener is to forward to. Where
// only the beginning of its name is known, it is the one of the cluster's that
// fits and stands behind no other load balancer; making one is for whoever
// builds load balancers.
func (w *writing) chooseGroup(ctx context.Context, l *listenerWords, groups []elbv2types.TargetGroup) (*string, error) {
	prefix, open := strings.CutSuffix(l.group, "*")
	var fit []*string
	for i := range groups {
		g := &groups[i]
		name := deref(g.TargetGroupName)
		if name != l.group && (!open || !strings.HasPrefix(name, prefix)) || deref(g.VpcId) != w.live.Fields.Get(pathVPCID).Value.Text() ||
			len(g.LoadBalancerArns) > 0 && !slices.Contains(g.LoadBalancerArns, w.Resource.Name) {
			continue
		}
		if open && (deref(g.Port) != l.port || string(g.Protocol) != l.protocol) {
			continue
		}
		fit = append(fit, g.TargetGroupArn)
	}
	if open && len(fit) > 0 {
		var err error
		if fit, err = w.ownGroups(ctx, fit); err != nil {
			return nil, err
		}
	}
	if len(fit) != 1 {
		return nil, unsupported("listener %s:%d of %s: %d target groups fit %q, and making one is not a change in place", l.protocol, l.port, w.Resource, len(fit), l.group)
	}
	return fit[0], nil
}

// ownGroups keeps the groups that carry the ownership tags which are wanted of
// the load balancer.
func (w *writing) ownGroups(ctx context.Context, arns []*string) (out []*string, err error) {
	for _, arn := range arns {
		tags, err := w.elbv2.DescribeTags(ctx, &elbv2.DescribeTagsInput{ResourceArns: []string{deref(arn)}})
		if err != nil {
			return nil, applyError(err, "read the tags of target group "+deref(arn))
		}
		for i := range tags.TagDescriptions {
			if slices.ContainsFunc(tags.TagDescriptions[i].Tags, func(t elbv2types.Tag) bool {
				want, wanted := w.Want.Fields.Lookup(providers.Pointer("tags", deref(t.Key)))
				return strings.HasPrefix(deref(t.Key), infrav1.NameAWSProviderOwned) && wanted && want.Value.Text() == deref(t.Value)
			}) {
				out = append(out, arn)
			}
		}
	}
	return out, nil
}

// classicListeners removes before it adds: a port has one listener, which
// cannot be changed.
func (w *writing) classicListeners(ctx context.Context, due []providers.FieldChange) error {
	add, remove := split(due)
	name := w.live.Name
	for _, f := range remove {
		from, _, _ := strings.Cut(f.Have.Text(), " to ")
		_, port, err := protocolPort(from)
		if err != nil {
			return refused("%s: listener %q: %w", w.Resource, f.Have.Text(), err)
		}
		_, err = w.elb.DeleteLoadBalancerListeners(ctx, &elb.DeleteLoadBalancerListenersInput{LoadBalancerName: &name, LoadBalancerPorts: []int32{port}})
		if err := w.called(err, "delete the listener on port %d of load balancer %s", port, name); err != nil {
			return err
		}
	}
	for _, f := range add {
		l, err := parseListener(f.Want.Text())
		if err != nil {
			return refused("%s: %w", w.Resource, err)
		}
		_, err = w.elb.CreateLoadBalancerListeners(ctx, &elb.CreateLoadBalancerListenersInput{LoadBalancerName: &name, Listeners: []elbtypes.Listener{{
			Protocol: &l.protocol, LoadBalancerPort: l.port, InstanceProtocol: &l.toProtocol, InstancePort: &l.toPort,
		}}})
		if err := w.called(err, "make a listener on port %d of load balancer %s", l.port, name); err != nil {
			return err
		}
	}
	return nil
}
