package aws

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// classicPrefix makes a classic load balancer's id of its name, which is
// unique in an account and region, and all that it has for an ARN.
const classicPrefix = "classic/"

// classicBalancer converts one classic load balancer (Elastic Load Balancing
// 2012-06-01, LoadBalancerDescription). Tags and attributes are read apart.
func (c converter) classicBalancer(in *elbtypes.LoadBalancerDescription) *providers.Resource {
	name := deref(in.LoadBalancerName)
	id := classicPrefix + name
	r := c.resource(providers.KindLoadBalancer, &id, 24)
	r.Name = name
	r.Closed = []string{"/securityGroups", "/subnets", "/listeners", "/targets", "/healthCheck"}
	word(c, r, "/name", name)
	word(c, r, "/type", "classic")
	c.text(r, "/scheme", in.Scheme)
	c.text(r, "/vpcId", in.VPCId)
	c.text(r, pathDNSName, in.DNSName)
	c.set(r, "/subnets", in.Subnets)
	c.set(r, "/securityGroups", in.SecurityGroups)
	var listeners, targets []string
	for i := range in.ListenerDescriptions {
		if l := in.ListenerDescriptions[i].Listener; l != nil {
			listeners = append(listeners, listenerPart(deref(l.Protocol), l.LoadBalancerPort)+
				" to "+listenerPart(deref(l.InstanceProtocol), deref(l.InstancePort)))
		}
	}
	for i := range in.Instances {
		targets = append(targets, deref(in.Instances[i].InstanceId))
	}
	c.set(r, "/listeners", listeners)
	c.set(r, "/targets", targets)
	if h := in.HealthCheck; h != nil {
		c.text(r, "/healthCheck/target", h.Target)
		c.number(r, "/healthCheck/interval", h.Interval)
		c.number(r, "/healthCheck/timeout", h.Timeout)
		c.number(r, "/healthCheck/healthyThreshold", h.HealthyThreshold)
		c.number(r, "/healthCheck/unhealthyThreshold", h.UnhealthyThreshold)
	}
	return r
}

func listenerPart(protocol string, port int32) string {
	return strings.ToUpper(protocol) + ":" + strconv.Itoa(int(port))
}

// classicAttributes sets what a spec can want of a classic load balancer's
// attributes.
func (c converter) classicAttributes(r *providers.Resource, in *elasticloadbalancing.DescribeLoadBalancerAttributesOutput) {
	a := in.LoadBalancerAttributes
	if a == nil {
		return
	}
	if a.CrossZoneLoadBalancing != nil {
		c.truth(r, "/attributes/crossZone", &a.CrossZoneLoadBalancing.Enabled)
	}
	if a.ConnectionSettings != nil {
		c.number(r, "/attributes/idleTimeout", a.ConnectionSettings.IdleTimeout)
	}
}

// balancer converts one application, network or gateway load balancer (Elastic
// Load Balancing 2015-12-01, LoadBalancer). Tags, attributes, listeners and
// target groups are read apart.
func (c converter) balancer(in *elbv2types.LoadBalancer) *providers.Resource {
	r := c.resource(providers.KindLoadBalancer, in.LoadBalancerArn, 32)
	r.Name = deref(in.LoadBalancerName)
	r.Closed = []string{"/securityGroups", "/subnets"}
	word(c, r, "/name", r.Name)
	word(c, r, "/type", in.Type)
	word(c, r, "/scheme", in.Scheme)
	c.text(r, "/vpcId", in.VpcId)
	c.text(r, pathDNSName, in.DNSName)
	word(c, r, pathAddressType, in.IpAddressType)
	c.set(r, "/securityGroups", in.SecurityGroups)
	var subnets []string
	for i := range in.AvailabilityZones {
		if deref(in.AvailabilityZones[i].SubnetId) != "" {
			subnets = append(subnets, *in.AvailabilityZones[i].SubnetId)
		}
	}
	c.set(r, "/subnets", subnets)
	if s := in.State; s != nil {
		word(c, r, pathState, s.Code)
	}
	if s := in.State; s != nil && s.Code == elbv2types.LoadBalancerStateEnumFailed {
		r.Warnings = append(r.Warnings, "the load balancer could not be set up: "+deref(s.Reason))
	}
	return r
}

// attributePaths are the attributes that a spec can want, with the type of
// their values.
var attributePaths = map[string]struct {
	path  string
	truth bool
}{
	"load_balancing.cross_zone.enabled": {"/attributes/crossZone", true},
	"idle_timeout.timeout_seconds":      {"/attributes/idleTimeout", false},
	"deletion_protection.enabled":       {pathProtection, true},
}

func (c converter) balancerAttributes(r *providers.Resource, attributes []elbv2types.LoadBalancerAttribute) {
	for i := range attributes {
		known, ok := attributePaths[deref(attributes[i].Key)]
		if !ok {
			continue
		}
		setAttribute(r, known.path, known.truth, deref(attributes[i].Value))
	}
}

// setAttribute leaves out what does not parse: an attribute in a form that is
// not known says nothing.
func setAttribute(r *providers.Resource, path string, truth bool, value string) {
	if truth {
		if b, err := strconv.ParseBool(value); err == nil {
			r.Fields.Set(path, providers.Field{Value: providers.Bool(b)})
		}
		return
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		r.Fields.Set(path, providers.Field{Value: providers.Int(n)})
	}
}

// listeners sets the set of words and gives the target groups that the
// listeners forward to. names maps target group ARNs to names.
func (c converter) listeners(r *providers.Resource, in []elbv2types.Listener, names map[string]string) (groups []string) {
	var words []string
	for i := range in {
		l := &in[i]
		from := listenerPart(string(l.Protocol), deref(l.Port))
		for j := range l.DefaultActions {
			a := &l.DefaultActions[j]
			targets := forwardTargets(a)
			if len(targets) == 0 {
				words = append(words, from+" to "+string(a.Type))
			}
			for _, arn := range targets {
				groups = append(groups, arn)
				words = append(words, from+" to target group "+targetGroupName(arn, names))
			}
		}
		if len(l.DefaultActions) == 0 {
			words = append(words, from)
		}
	}
	c.set(r, "/listeners", words)
	return groups
}

// forwardTargets gives an action's target groups. Where there is but one, the
// API gives it both ways.
func forwardTargets(a *elbv2types.Action) []string {
	var out []string
	if a.ForwardConfig != nil {
		for i := range a.ForwardConfig.TargetGroups {
			out = append(out, deref(a.ForwardConfig.TargetGroups[i].TargetGroupArn))
		}
	}
	if len(out) == 0 && deref(a.TargetGroupArn) != "" {
		out = append(out, *a.TargetGroupArn)
	}
	return out
}

// targetGroupName falls back on the ARN, which holds the name before its last
// segment: "...:targetgroup/NAME/ID".
func targetGroupName(arn string, names map[string]string) string {
	if name := names[arn]; name != "" {
		return name
	}
	if parts := strings.Split(arn, "/"); len(parts) == 3 {
		return parts[1]
	}
	return arn
}

// targetGroup sets one target group's fields on its load balancer (TargetGroup).
func (c converter) targetGroup(r *providers.Resource, in *elbv2types.TargetGroup) {
	path := func(field string) string {
		return providers.Pointer("targetGroups", deref(in.TargetGroupName)) + field
	}
	word(c, r, path("/protocol"), in.Protocol)
	c.number(r, path("/port"), in.Port)
	word(c, r, path("/targetType"), in.TargetType)
	word(c, r, path("/ipAddressType"), in.IpAddressType)
	c.text(r, path("/vpcId"), in.VpcId)
	word(c, r, path("/healthCheck/protocol"), in.HealthCheckProtocol)
	c.text(r, path("/healthCheck/port"), in.HealthCheckPort)
	c.text(r, path("/healthCheck/path"), in.HealthCheckPath)
	c.number(r, path("/healthCheck/interval"), in.HealthCheckIntervalSeconds)
	c.number(r, path("/healthCheck/timeout"), in.HealthCheckTimeoutSeconds)
	c.number(r, path("/healthCheck/healthyThreshold"), in.HealthyThresholdCount)
	c.number(r, path("/healthCheck/unhealthyThreshold"), in.UnhealthyThresholdCount)
}

// registeredTargets gives the targets that are in a group and not on their way
// out of it, in order: a draining target was deregistered. One that is there on
// other ports than the group's (where port is not nil) and not on that one gets
// nothing that is meant for it.
func registeredTargets(in []elbv2types.TargetHealthDescription, port *int32) []registration {
	var out []registration
	for i := range in {
		d := &in[i]
		if d.Target == nil || d.TargetHealth != nil && d.TargetHealth.State == elbv2types.TargetHealthStateEnumDraining {
			continue
		}
		r := registration{id: deref(d.Target.Id), value: valueRegistered}
		own := port == nil || d.Target.Port == nil || *d.Target.Port == *port
		if !own {
			r.value = providers.String("registered on port " + strconv.Itoa(int(*d.Target.Port)))
		}
		at := slices.IndexFunc(out, func(o registration) bool { return o.id == r.id })
		switch {
		case at < 0:
			out = append(out, r)
		case own:
			out[at] = r
		}
	}
	slices.SortFunc(out, func(a, b registration) int { return strings.Compare(a.id, b.id) })
	return out
}
