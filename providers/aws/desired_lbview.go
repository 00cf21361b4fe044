package aws

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Types of load balancers, as seen resources name them.
const (
	lbClassic     = "classic"
	lbNetwork     = "network"
	lbApplication = "application"
	lbGateway     = "gateway"
)

// Prefixes that CAPA gives the names of its target groups; the rest of a name
// is random and not recorded.
const (
	apiTargetPrefix        = "apiserver-target-"
	additionalTargetPrefix = "additional-listener-"
)

// lbView is one load balancer of the control plane.
type lbView struct {
	// field is where the spec declares it.
	field  string
	spec   *infrav1.AWSLoadBalancerSpec
	kind   string
	scheme infrav1.ELBScheme
	name   string
	// id is empty when the load balancer is not known, and why says why.
	id, why string
	seen    *providers.Resource
	// managed is false for a load balancer that the user brought: CAPA only
	// registers instances in it.
	managed   bool
	listeners []listenerView
	// registrations name what control-plane instances are registered in.
	registrations []string
}

// listenerView is one listener of a load balancer that has target groups.
type listenerView struct {
	port     int64
	protocol infrav1.ELBProtocol
	check    infrav1.TargetGroupHealthCheck
	prefix   string
	// group is the seen target group; empty if there is none.
	group string
}

// loadBalancers gives the control plane's load balancers that CAPA keeps or
// registers instances in.
func (c *clusterView) loadBalancers() []lbView {
	if c.spec == nil {
		return nil
	}
	primary := c.spec.Spec.ControlPlaneLoadBalancer
	if primary == nil {
		primary = &infrav1.AWSLoadBalancerSpec{}
	}
	var out []lbView
	if lb, ok := c.loadBalancer("spec.controlPlaneLoadBalancer", primary, &c.spec.Status.Network.APIServerELB,
		infrav1.LoadBalancerTypeClassic, infrav1.ELBSchemeInternetFacing); ok {
		out = append(out, lb)
	}
	if second := c.spec.Spec.SecondaryControlPlaneLoadBalancer; second != nil {
		if lb, ok := c.loadBalancer("spec.secondaryControlPlaneLoadBalancer", second, &c.spec.Status.Network.SecondaryAPIServerELB,
			infrav1.LoadBalancerTypeNLB, infrav1.ELBSchemeInternal); ok {
			out = append(out, lb)
		}
	}
	return out
}

// loadBalancer makes the view of one. Where someone else manages the cluster's
// infrastructure, only one that the spec names can be meant.
func (c *clusterView) loadBalancer(field string, spec *infrav1.AWSLoadBalancerSpec, status *infrav1.LoadBalancer,
	kind infrav1.LoadBalancerType, scheme infrav1.ELBScheme,
) (lbView, bool) {
	lb := lbView{field: field, spec: spec, scheme: scheme}
	if spec.LoadBalancerType != "" {
		kind = spec.LoadBalancerType
	}
	if spec.Scheme != nil {
		lb.scheme = *spec.Scheme
	}
	switch kind {
	case infrav1.LoadBalancerTypeClassic:
		lb.kind = lbClassic
	case infrav1.LoadBalancerTypeNLB:
		lb.kind = lbNetwork
	case infrav1.LoadBalancerTypeALB:
		lb.kind = lbApplication
	case infrav1.LoadBalancerTypeELB:
		lb.kind = lbGateway
	default:
		return lb, false
	}
	if c.external && spec.Name == nil {
		return lb, false
	}
	lb.name = c.loadBalancerName(&lb, status)
	lb.id, lb.why = c.loadBalancerID(&lb, status)
	if lb.id != "" {
		lb.seen = c.snap.Resources[providers.ID{Kind: providers.KindLoadBalancer, Name: lb.id}]
	}
	// One that the user named and that lacks the cluster's tag was brought.
	brought := spec.Name != nil && lb.seen != nil && !ownedBy(lb.seen, c.name)
	lb.managed = !c.external && !brought
	lb.listeners = c.listeners(&lb)
	lb.registrations = c.registrationNames(&lb)
	return lb, true
}

func (c *clusterView) loadBalancerName(lb *lbView, status *infrav1.LoadBalancer) string {
	switch {
	case lb.spec.Name != nil:
		return *lb.spec.Name
	case status.Name != "":
		return status.Name
	case lb.kind == lbClassic:
		return generatedLBName(c.name)
	default:
		return generatedLBName(c.namespace + "-" + c.name)
	}
}

// loadBalancerID gives a classic load balancer's name, which is its identity,
// and another's ARN: the recorded one, else that of the load balancer with the
// name, which is unique in a region (CreateLoadBalancer, Name).
func (c *clusterView) loadBalancerID(lb *lbView, status *infrav1.LoadBalancer) (id, why string) {
	if c.plan {
		return c.plannedLoadBalancer(lb, status)
	}
	recorded := status.Name != "" || status.ARN != "" || status.DNSName != "" ||
		c.spec.Spec.ControlPlaneEndpoint.Host != ""
	if lb.kind == lbClassic {
		id := lbClassic + "/" + lb.name
		if _, seen := c.snap.Resources[providers.ID{Kind: providers.KindLoadBalancer, Name: id}]; !seen && !recorded {
			return c.notCreated(providers.KindLoadBalancer, whatBalancer(lb.name))
		}
		return id, ""
	}
	if status.ARN != "" {
		return status.ARN, ""
	}
	if err, known := c.snap.Covered(providers.KindLoadBalancer, ""); err != nil || !known {
		return "", "load balancer " + lb.name + " not recorded, and not to be found by its name: " + notRead(providers.KindLoadBalancer, err)
	}
	for _, r := range ofKind(c.snap, providers.KindLoadBalancer) {
		if r.Name == lb.name && textOf(r, pathLBType) != lbClassic {
			return r.ID.Name, ""
		}
	}
	if recorded {
		return "", "load balancer " + lb.name + " is not there, and its ARN was never recorded"
	}
	return c.notCreated(providers.KindLoadBalancer, whatBalancer(lb.name))
}

// plannedLoadBalancer gives the recorded one, or one that the user named and
// brought: it carries no cluster's tags.
func (c *clusterView) plannedLoadBalancer(lb *lbView, status *infrav1.LoadBalancer) (id, why string) {
	switch {
	case lb.kind == lbClassic && status.Name != "":
		return classicPrefix + lb.name, ""
	case lb.kind != lbClassic && status.ARN != "":
		return status.ARN, ""
	case lb.spec.Name != nil:
		for _, r := range ofKind(c.snap, providers.KindLoadBalancer) {
			if r.Name == lb.name && r.Closes("/tags") && len(r.ClusterTags) == 0 && (textOf(r, pathLBType) == lbClassic) == (lb.kind == lbClassic) {
				return r.ID.Name, ""
			}
		}
	}
	return c.notCreated(providers.KindLoadBalancer, whatBalancer(lb.name))
}

// listeners are the API server's and the additional ones, with the target
// groups that stand for them now. A classic load balancer has neither.
func (c *clusterView) listeners(lb *lbView) []listenerView {
	if lb.kind == lbClassic {
		return nil
	}
	api := listenerView{
		port: infrav1.DefaultAPIServerPort, protocol: infrav1.ELBProtocolTCP, prefix: apiTargetPrefix,
		check: apiHealthCheck(lb.spec),
	}
	out := []listenerView{api}
	for i := range lb.spec.AdditionalListeners {
		l := &lb.spec.AdditionalListeners[i]
		protocol := l.Protocol
		if protocol == "" {
			protocol = infrav1.ELBProtocolTCP
		}
		out = append(out, listenerView{port: l.Port, protocol: protocol, prefix: additionalTargetPrefix, check: additionalHealthCheck(l, protocol)})
	}
	for i := range out {
		out[i].group = targetGroup(lb.seen, &out[i])
	}
	return out
}

// targetGroup finds the target group of a listener as CAPA does: by the
// prefix of its name, its port and its protocol.
func targetGroup(lb *providers.Resource, l *listenerView) string {
	if lb == nil {
		return ""
	}
	var names []string
	for path := range lb.Fields.All() {
		s := providers.Segments(path)
		if len(s) != 3 || s[0] != "targetGroups" || s[2] != "port" || !strings.HasPrefix(s[1], l.prefix) {
			continue
		}
		if port, _ := lb.Fields.Get(path).Value.Number(); port != l.port {
			continue
		}
		if strings.EqualFold(textOf(lb, providers.Pointer("targetGroups", s[1], "protocol")), string(l.protocol)) {
			names = append(names, s[1])
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// registrationNames are the load balancer itself where it is classic, and
// each of its target groups otherwise. Of a load balancer that the user
// brought CAPA takes every target group. One that is certainly not there is
// missing itself, which says all that its registrations could.
func (c *clusterView) registrationNames(lb *lbView) []string {
	if lb.kind == lbClassic {
		err, known := c.snap.Covered(providers.KindLoadBalancer, "")
		if lb.id == "" || lb.seen == nil && known && err == nil {
			return nil
		}
		return []string{lb.name}
	}
	if lb.seen == nil {
		return nil
	}
	var names []string
	for path := range lb.seen.Fields.All() {
		s := providers.Segments(path)
		if len(s) == 3 && s[0] == "targetGroups" && s[2] == "port" && (!lb.managed || lb.wantsGroup(s[1])) {
			names = append(names, s[1])
		}
	}
	slices.Sort(names)
	return names
}

func (lb *lbView) wantsGroup(name string) bool {
	return slices.ContainsFunc(lb.listeners, func(l listenerView) bool { return l.group == name })
}

// words give a listener's identity. A target group that is not there is named
// by what its name would begin with.
func (l *listenerView) words() string {
	return fmt.Sprintf("%s:%d to target group %s", strings.ToUpper(string(l.protocol)), l.port, first(l.group, l.prefix+"*"))
}

// apiHealthCheck holds what CAPA fixes and what the spec sets. The counts that
// the spec leaves open have other defaults in other releases of CAPA, which
// never changes a target group that exists.
func apiHealthCheck(spec *infrav1.AWSLoadBalancerSpec) infrav1.TargetGroupHealthCheck {
	protocol := infrav1.ELBProtocolTCP
	if spec.HealthCheckProtocol != nil {
		protocol = *spec.HealthCheckProtocol
	}
	port := infrav1.DefaultAPIServerPortString
	check := infrav1.TargetGroupHealthCheck{Protocol: (*string)(&protocol), Port: &port}
	if protocol == infrav1.ELBProtocolHTTP || protocol == infrav1.ELBProtocolHTTPS {
		path := infrav1.DefaultAPIServerHealthCheckPath
		check.Path = &path
	}
	if h := spec.HealthCheck; h != nil {
		check.IntervalSeconds, check.TimeoutSeconds = h.IntervalSeconds, h.TimeoutSeconds
		check.ThresholdCount, check.UnhealthyThresholdCount = h.ThresholdCount, h.UnhealthyThresholdCount
	}
	return check
}

func additionalHealthCheck(l *infrav1.AdditionalListenerSpec, protocol infrav1.ELBProtocol) infrav1.TargetGroupHealthCheck {
	port := fmt.Sprint(l.Port)
	check := infrav1.TargetGroupHealthCheck{Protocol: (*string)(&protocol), Port: &port}
	h := l.HealthCheck
	if h == nil {
		return check
	}
	if h.Protocol != nil {
		check.Protocol = h.Protocol
	}
	if h.Port != nil {
		check.Port = h.Port
	}
	check.Path = h.Path
	check.IntervalSeconds, check.TimeoutSeconds = h.IntervalSeconds, h.TimeoutSeconds
	check.ThresholdCount, check.UnhealthyThresholdCount = h.ThresholdCount, h.UnhealthyThresholdCount
	return check
}
