package ec2sim

import (
	"fmt"
	"slices"
)

// listener of a v2 load balancer.
type listener struct {
	meta            `wire:"-"`
	ListenerARN     string
	LoadBalancerARN string
	Port            int
	Protocol        string
	SSLPolicy       string
	Certificates    []certificate
	DefaultActions  []listenerAction

	digest string
}

type certificate struct{ CertificateARN string }

type listenerAction struct {
	Type           string
	Order          int `wire:"Order,omitempty"`
	TargetGroupARN string
	ForwardConfig  *struct {
		TargetGroups []struct {
			TargetGroupARN string
			Weight         int `wire:"Weight,omitempty"`
		}
		TargetGroupStickinessConfig *struct {
			Enabled         bool
			DurationSeconds int `wire:"DurationSeconds,omitempty"`
		}
	}
}

// targets are the target groups that a listener forwards to.
func (l *listener) targets() []string {
	var arns []string
	for _, a := range l.DefaultActions {
		arns = append(arns, one(a.TargetGroupARN)...)
		if a.ForwardConfig != nil {
			for _, g := range a.ForwardConfig.TargetGroups {
				arns = append(arns, g.TargetGroupARN)
			}
		}
	}
	return arns
}

var listenerActions = []*action{
	write("CreateListener", (*call).createListener),
	write("ModifyListener", (*call).modifyListener),
	write("DeleteListener", (*call).deleteListener),
	read("DescribeListeners", (*call).describeListeners),
}

type listenerIn struct {
	ListenerARN     string
	LoadBalancerARN string
	Port            int
	Protocol        string
	SSLPolicy       string
	Certificates    []certificate
	DefaultActions  []listenerAction
	Tags            []Tag
}

type listenersOut struct {
	Listeners  []*listener
	NextMarker string
}

// balancerProtocols are those of each type's listeners.
var balancerProtocols = map[string][]string{
	"application": {"HTTP", "HTTPS"}, "network": {"TCP", "TLS", "UDP", "TCP_UDP"}, "gateway": {"GENEVE"},
}

func (c *call) createListener(in *listenerIn) (out listenersOut, err *apiError) {
	b, err := c.balancer(in.LoadBalancerARN)
	if err != nil {
		return out, err
	}
	l := &listener{
		LoadBalancerARN: b.id, Port: in.Port, Protocol: in.Protocol, SSLPolicy: in.SSLPolicy, Certificates: in.Certificates,
		DefaultActions: in.DefaultActions, digest: c.digest,
	}
	if err := c.checkListener(b, l); err != nil {
		return out, err
	}
	if other, taken := c.listeners.first(func(o *listener) bool { return o.LoadBalancerARN == b.id && o.Port == l.Port }); taken {
		if other.digest != c.digest {
			return out, failf("DuplicateListener", "A listener already exists on this port for this load balancer '%s'", b.id)
		}
		return listenersOut{Listeners: []*listener{other}}, nil
	}
	l.ListenerARN = fmt.Sprintf("%s/%016x", replaceFirst(b.id, ":loadbalancer/", ":listener/"), mix(c.nextNumber()))
	l.meta = c.newMeta(c.now, l.ListenerARN, in.Tags)
	c.listeners.add(l)
	return listenersOut{Listeners: []*listener{l}}, nil
}

func (c *call) checkListener(b *balancer, l *listener) *apiError {
	switch {
	case l.Port < 1 || l.Port > 65535:
		return failf("ValidationError", "The port %d is not valid", l.Port)
	case !slices.Contains(balancerProtocols[b.Type], l.Protocol):
		return failf("ValidationError", "Protocol '%s' must be one of %s", l.Protocol, quoted(balancerProtocols[b.Type]))
	case len(l.DefaultActions) == 0:
		return failf("ValidationError", "A listener needs a default action")
	}
	for _, arn := range l.targets() {
		if _, err := c.targetGroup(arn); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) listener(arn string) (*listener, *apiError) {
	l, known := c.listeners.byID[arn]
	if !known || c.hides(&l.meta) {
		return nil, failf("ListenerNotFound", "One or more listeners not found: %s", arn)
	}
	return l, nil
}

func (c *call) modifyListener(in *listenerIn) (out listenersOut, err *apiError) {
	l, err := c.listener(in.ListenerARN)
	if err != nil {
		return out, err
	}
	next := *l
	if in.Port != 0 {
		next.Port = in.Port
	}
	if in.Protocol != "" {
		next.Protocol = in.Protocol
	}
	if in.SSLPolicy != "" {
		next.SSLPolicy = in.SSLPolicy
	}
	if in.Certificates != nil {
		next.Certificates = in.Certificates
	}
	if in.DefaultActions != nil {
		next.DefaultActions = in.DefaultActions
	}
	if err := c.checkListener(c.balancers.byID[l.LoadBalancerARN], &next); err != nil {
		return out, err
	}
	*l = next
	return listenersOut{Listeners: []*listener{l}}, nil
}

func (c *call) deleteListener(in *listenerIn) (empty, *apiError) {
	l, err := c.listener(in.ListenerARN)
	if err == nil {
		c.listeners.remove(l.id)
	}
	return empty{}, err
}

type describeListenersIn struct {
	marker
	LoadBalancerARN string
	ListenerARNs    []string `wire:"ListenerArns"`
}

// describeListeners wants either a load balancer or listeners named.
func (c *call) describeListeners(in *describeListenersIn) (out listenersOut, err *apiError) {
	if (in.LoadBalancerARN == "") == (len(in.ListenerARNs) == 0) {
		return out, failf("ValidationError", "You must specify either listener ARNs or a load balancer ARN")
	}
	for _, arn := range in.ListenerARNs {
		l, err := c.listener(arn)
		if err != nil {
			return out, err
		}
		out.Listeners = append(out.Listeners, l)
	}
	if len(out.Listeners) > 0 {
		return out, nil
	}
	b, err := c.balancer(in.LoadBalancerARN)
	if err != nil {
		return out, err
	}
	out.Listeners, out.NextMarker, err = listMarked(c, &c.listeners, func(l *listener) bool { return l.LoadBalancerARN == b.id }, in.marker)
	return out, err
}

var balancerTagActions = []*action{
	read("DescribeTags", (*call).describeBalancerTags),
	write("AddTags", (*call).addBalancerTags),
	write("RemoveTags", (*call).removeBalancerTags),
}

type balancerTagsIn struct {
	ResourceARNs []string `wire:"ResourceArns"`
	Tags         []Tag
	TagKeys      []string
}

type balancerTagsOut struct{ TagDescriptions []balancerTags }

type balancerTags struct {
	ResourceARN string
	Tags        []Tag
}

func (c *call) balancerMetas(arns []string) ([]*meta, *apiError) {
	if err := checkTagged(arns); err != nil {
		return nil, err
	}
	var found []*meta
	for _, arn := range arns {
		if b, known := c.balancers.byID[arn]; known {
			found = append(found, &b.meta)
		} else if g, known := c.targetGroups.byID[arn]; known {
			found = append(found, &g.meta)
		} else if l, known := c.listeners.byID[arn]; known {
			found = append(found, &l.meta)
		} else if arnType(arn) == "targetgroup" {
			return nil, failf("TargetGroupNotFound", "One or more target groups not found: %s", arn)
		} else {
			return nil, failf("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
		}
	}
	return found, nil
}

func (c *call) describeBalancerTags(in *balancerTagsIn) (out balancerTagsOut, err *apiError) {
	found, err := c.balancerMetas(in.ResourceARNs)
	for _, m := range found {
		out.TagDescriptions = append(out.TagDescriptions, balancerTags{m.id, elbTags(m, c)})
	}
	return out, err
}

func (c *call) addBalancerTags(in *balancerTagsIn) (empty, *apiError) {
	found, err := c.balancerMetas(in.ResourceARNs)
	if err != nil {
		return empty{}, err
	}
	return empty{}, c.retagAll(found, in.Tags, nil)
}

func (c *call) removeBalancerTags(in *balancerTagsIn) (empty, *apiError) {
	found, err := c.balancerMetas(in.ResourceARNs)
	if err != nil {
		return empty{}, err
	}
	return empty{}, c.retagAll(found, nil, in.TagKeys)
}
