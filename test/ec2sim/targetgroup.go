package ec2sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// targetGroup of v2 load balancers.
type targetGroup struct {
	meta                       `wire:"-"`
	TargetGroupARN             string
	TargetGroupName            string
	Protocol                   string
	Port                       int
	VPCID                      string
	TargetType                 string
	IPAddressType              string
	HealthCheckEnabled         bool
	HealthCheckProtocol        string
	HealthCheckPort            string
	HealthCheckPath            string
	HealthCheckIntervalSeconds int
	HealthCheckTimeoutSeconds  int
	HealthyThresholdCount      int
	UnhealthyThresholdCount    int
	Matcher                    *matcher
	LoadBalancerARNs           []string `wire:"LoadBalancerArns"`

	attributes attributes
	targets    []*target
	digest     string
}

type matcher struct {
	HTTPCode string
}

// target is a registered instance or address.
type target struct {
	ID         string `wire:"Id"`
	Port       int
	registered time.Time
	draining   bool
}

func replaceFirst(text, old, with string) string { return strings.Replace(text, old, with, 1) }

// arnType is the first word of an ARN's resource part.
func arnType(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	kind, _, _ := strings.Cut(parts[len(parts)-1], "/")
	return kind
}

var targetGroupActions = []*action{
	write("CreateTargetGroup", (*call).createTargetGroup),
	write("ModifyTargetGroup", (*call).modifyTargetGroup),
	write("DeleteTargetGroup", (*call).deleteTargetGroup),
	read("DescribeTargetGroups", (*call).describeTargetGroups),
	read("DescribeTargetGroupAttributes", (*call).describeTargetGroupAttributes),
	write("ModifyTargetGroupAttributes", (*call).modifyTargetGroupAttributes),
	write("RegisterTargets", (*call).registerTargets),
	write("DeregisterTargets", (*call).deregisterTargets),
	read("DescribeTargetHealth", (*call).describeTargetHealth),
}

type targetGroupIn struct {
	TargetGroupARN             string
	Name                       string
	Protocol                   string
	Port                       int
	VPCID                      string
	TargetType                 string
	IPAddressType              string
	HealthCheckEnabled         *bool
	HealthCheckProtocol        string
	HealthCheckPort            string
	HealthCheckPath            string
	HealthCheckIntervalSeconds int
	HealthCheckTimeoutSeconds  int
	HealthyThresholdCount      int
	UnhealthyThresholdCount    int
	Matcher                    *matcher
	Tags                       []Tag
	Attributes                 []Tag
}

type targetGroupsOut struct {
	TargetGroups []*targetGroup
	NextMarker   string
}

// createTargetGroup has the defaults of its reference, which depend on the
// protocol, and is idempotent.
func (c *call) createTargetGroup(in *targetGroupIn) (out targetGroupsOut, err *apiError) {
	if in.Name == "" || len(in.Name) > 32 {
		return out, failf("ValidationError", "The target group name '%s' is not valid", in.Name)
	}
	if g, exists := c.targetGroups.first(func(g *targetGroup) bool { return g.TargetGroupName == in.Name }); exists {
		if g.digest != c.digest {
			return out, failf("DuplicateTargetGroupName", "A target group with the same name '%s' exists, but with different settings", in.Name)
		}
		return targetGroupsOut{TargetGroups: []*targetGroup{c.shownGroup(g)}}, nil
	}
	if _, known := c.vpcs.byID[in.VPCID]; !known {
		return out, failf("ValidationError", "The VPC ID '%s' is not found", in.VPCID)
	}
	web := in.Protocol == "HTTP" || in.Protocol == "HTTPS"
	if !web && !slices.Contains(balancerProtocols["network"], in.Protocol) || in.Port < 1 || in.Port > 65535 {
		return out, failf("ValidationError", "The protocol '%s' or port %d is not valid", in.Protocol, in.Port)
	}
	arn := c.arn("elasticloadbalancing", fmt.Sprintf("targetgroup/%s/%016x", in.Name, mix(c.nextNumber())))
	g := &targetGroup{
		meta: c.newMeta(c.now, arn, in.Tags), TargetGroupARN: arn, TargetGroupName: in.Name, Protocol: in.Protocol, Port: in.Port,
		VPCID: in.VPCID, TargetType: "instance", IPAddressType: "ipv4", HealthCheckEnabled: true, HealthCheckProtocol: "TCP",
		HealthCheckPort: "traffic-port", HealthCheckIntervalSeconds: 30, HealthCheckTimeoutSeconds: 10, HealthyThresholdCount: 5,
		UnhealthyThresholdCount: 2, digest: c.digest,
		attributes: attributes{
			{"deregistration_delay.timeout_seconds", "300"}, {"stickiness.enabled", "false"}, {"stickiness.type", "source_ip"},
			{"deregistration_delay.connection_termination.enabled", "false"}, {"preserve_client_ip.enabled", "true"},
			{"proxy_protocol_v2.enabled", "false"}, {"load_balancing.cross_zone.enabled", "use_load_balancer_configuration"},
			{"target_health_state.unhealthy.connection_termination.enabled", "true"},
			{"target_health_state.unhealthy.draining_interval_seconds", "0"},
		},
	}
	if web {
		g.HealthCheckProtocol, g.HealthCheckTimeoutSeconds = "HTTP", 5
	}
	if in.TargetType != "" {
		g.TargetType = in.TargetType
	}
	if in.IPAddressType != "" {
		g.IPAddressType = in.IPAddressType
	}
	if err := g.check(in); err != nil {
		return out, err
	}
	c.targetGroups.add(g)
	return targetGroupsOut{TargetGroups: []*targetGroup{c.shownGroup(g)}}, nil
}

// check sets the health check of a request.
func (g *targetGroup) check(in *targetGroupIn) *apiError {
	if in.HealthCheckEnabled != nil {
		g.HealthCheckEnabled = *in.HealthCheckEnabled
	}
	if in.HealthCheckProtocol != "" {
		g.HealthCheckProtocol = in.HealthCheckProtocol
	}
	if in.HealthCheckPort != "" {
		if n, err := strconv.Atoi(in.HealthCheckPort); in.HealthCheckPort != "traffic-port" && (err != nil || n < 1 || n > 65535) {
			return failf("ValidationError", "Health check port '%s' must be in the range [1-65535] or 'traffic-port'", in.HealthCheckPort)
		}
		g.HealthCheckPort = in.HealthCheckPort
	}
	for _, setting := range []struct {
		from, least, most int
		to                *int
	}{
		{in.HealthCheckIntervalSeconds, 5, 300, &g.HealthCheckIntervalSeconds},
		{in.HealthCheckTimeoutSeconds, 2, 120, &g.HealthCheckTimeoutSeconds},
		{in.HealthyThresholdCount, 2, 10, &g.HealthyThresholdCount},
		{in.UnhealthyThresholdCount, 2, 10, &g.UnhealthyThresholdCount},
	} {
		if setting.from == 0 {
			continue
		}
		if setting.from < setting.least || setting.from > setting.most {
			return failf("ValidationError", "A health check setting of %d is out of range; expecting %d to %d", setting.from, setting.least, setting.most)
		}
		*setting.to = setting.from
	}
	web := g.HealthCheckProtocol == "HTTP" || g.HealthCheckProtocol == "HTTPS"
	if !web {
		if in.HealthCheckPath != "" {
			return failf("ValidationError", "Health check path is not supported for protocol %s", g.HealthCheckProtocol)
		}
		g.HealthCheckPath, g.Matcher = "", nil
		return nil
	}
	if in.HealthCheckPath != "" {
		g.HealthCheckPath = in.HealthCheckPath
	} else if g.HealthCheckPath == "" {
		g.HealthCheckPath = "/"
	}
	if in.Matcher != nil {
		g.Matcher = in.Matcher
	} else if g.Matcher == nil {
		g.Matcher = &matcher{"200"}
	}
	return nil
}

func (c *call) targetGroup(arn string) (*targetGroup, *apiError) {
	g, known := c.targetGroups.byID[arn]
	if !known || c.hides(&g.meta) {
		return nil, failf("TargetGroupNotFound", "One or more target groups not found: %s", arn)
	}
	return g, nil
}

// shownGroup is a copy that names the load balancers that use the group.
func (c *call) shownGroup(g *targetGroup) *targetGroup {
	view := *g
	view.LoadBalancerARNs = nil
	for _, l := range c.listeners.order {
		if slices.Contains(l.targets(), g.id) && !slices.Contains(view.LoadBalancerARNs, l.LoadBalancerARN) {
			view.LoadBalancerARNs = append(view.LoadBalancerARNs, l.LoadBalancerARN)
		}
	}
	return &view
}

func (c *call) modifyTargetGroup(in *targetGroupIn) (out targetGroupsOut, err *apiError) {
	g, err := c.targetGroup(in.TargetGroupARN)
	if err != nil {
		return out, err
	}
	next := *g
	if err := next.check(in); err != nil {
		return out, err
	}
	*g = next
	return targetGroupsOut{TargetGroups: []*targetGroup{c.shownGroup(g)}}, nil
}

func (c *call) deleteTargetGroup(in *targetGroupIn) (empty, *apiError) {
	g, known := c.targetGroups.byID[in.TargetGroupARN]
	if !known {
		return empty{}, nil
	}
	if len(c.shownGroup(g).LoadBalancerARNs) > 0 {
		return empty{}, failf("ResourceInUse", "Target group '%s' is currently in use by a listener or a rule", g.id)
	}
	c.targetGroups.remove(g.id)
	return empty{}, nil
}

type describeTargetGroupsIn struct {
	marker
	LoadBalancerARN string
	TargetGroupARNs []string `wire:"TargetGroupArns"`
	Names           []string
}

func (c *call) describeTargetGroups(in *describeTargetGroupsIn) (out targetGroupsOut, err *apiError) {
	for _, arn := range in.TargetGroupARNs {
		g, err := c.targetGroup(arn)
		if err != nil {
			return out, err
		}
		out.TargetGroups = append(out.TargetGroups, c.shownGroup(g))
	}
	for _, name := range in.Names {
		g, known := c.targetGroups.first(func(g *targetGroup) bool { return g.TargetGroupName == name })
		if !known || c.hides(&g.meta) {
			return out, failf("TargetGroupNotFound", "One or more target groups not found: %s", name)
		}
		out.TargetGroups = append(out.TargetGroups, c.shownGroup(g))
	}
	if len(out.TargetGroups) > 0 {
		return out, nil
	}
	if in.LoadBalancerARN != "" {
		if _, err := c.balancer(in.LoadBalancerARN); err != nil {
			return out, err
		}
	}
	found, next, err := listMarked(c, &c.targetGroups, func(g *targetGroup) bool {
		return in.LoadBalancerARN == "" || slices.Contains(c.shownGroup(g).LoadBalancerARNs, in.LoadBalancerARN)
	}, in.marker)
	for _, g := range found {
		out.TargetGroups = append(out.TargetGroups, c.shownGroup(g))
	}
	out.NextMarker = next
	return out, err
}

func (c *call) describeTargetGroupAttributes(in *targetGroupIn) (out attributesOut, err *apiError) {
	g, err := c.targetGroup(in.TargetGroupARN)
	if err != nil {
		return out, err
	}
	return attributesOut{g.attributes}, nil
}

func (c *call) modifyTargetGroupAttributes(in *targetGroupIn) (out attributesOut, err *apiError) {
	g, err := c.targetGroup(in.TargetGroupARN)
	if err != nil {
		return out, err
	}
	err = g.attributes.modify(in.Attributes)
	return attributesOut{g.attributes}, err
}
