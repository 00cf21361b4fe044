package aws

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Settings of classic load balancers that CAPA writes in every reconcile.
const (
	classicInterval       = infrav1.DefaultAPIServerHealthCheckIntervalSec
	classicTimeout        = infrav1.DefaultAPIServerHealthCheckTimeoutSec
	classicHealthy        = infrav1.DefaultAPIServerHealthThresholdCount
	classicUnhealthy      = infrav1.DefaultAPIServerUnhealthThresholdCount
	classicIdleTimeout    = 600 // s
	applicationIdleSecond = 60
)

// loadBalancerWants adds the control plane's load balancers. One that the
// user brought must be there; instances are registered in it, and the rest is
// the user's.
func (w *wants) loadBalancerWants() {
	lbs := w.cluster.loadBalancers()
	for i := range lbs {
		lb := &lbs[i]
		if lb.id == "" {
			w.unrecorded(providers.KindLoadBalancer, lb.name, lb.why)
			continue
		}
		r := w.made(providers.KindLoadBalancer, lb.id, lb.name, infrav1.LoadBalancerReadyCondition)
		if lb.managed {
			w.managedLoadBalancer(&r, lb)
			r.Needs = w.needsOf(&r, map[string]string{pathSubnets: providers.KindSubnet, pathSecurityGroups: providers.KindSecurityGroup})
			if lb.scheme == infrav1.ELBSchemeInternetFacing {
				r.Needs = append(r.Needs, w.cluster.needsGateway()...)
			}
		}
		w.add(r)
	}
}

func (w *wants) managedLoadBalancer(r *providers.Resource, lb *lbView) {
	c := w.cluster
	want(r, pathLBType, providers.String(lb.kind), providers.Immutable)
	wantString(r, pathScheme, lb.scheme, providers.Immutable)
	wantString(r, pathVPCID, c.vpcID, providers.Immutable)
	wantTags(r, c.name, c.clusterTags(lb.name, infrav1.APIServerRoleTagValue, nil))
	w.loadBalancerSubnets(r, lb)
	w.loadBalancerGroups(r, lb)
	if lb.kind == lbClassic {
		c.classicSettings(r, lb)
		return
	}
	words := make([]string, len(lb.listeners))
	for i := range lb.listeners {
		words[i] = lb.listeners[i].words()
		lb.listeners[i].wants(r)
	}
	want(r, pathListeners, providers.Set(words...), providers.InPlace)
	if lb.kind == lbApplication {
		want(r, pathIdleTimeout, providers.Int(applicationIdleSecond), providers.InPlace)
	} else {
		// Application load balancers always balance across zones.
		want(r, pathCrossZone, providers.Bool(lb.spec.CrossZoneLoadBalancing), providers.InPlace)
	}
}

// classicSettings wants what CAPA writes again and again, so that no release
// of it leaves other values behind.
func (c *clusterView) classicSettings(r *providers.Resource, lb *lbView) {
	protocol := infrav1.ELBProtocolTCP
	if lb.spec.HealthCheckProtocol != nil {
		protocol = *lb.spec.HealthCheckProtocol
	}
	target := fmt.Sprintf("%s:%d", protocol, infrav1.DefaultAPIServerPort)
	if protocol == infrav1.ELBProtocolHTTP || protocol == infrav1.ELBProtocolHTTPS {
		target += infrav1.DefaultAPIServerHealthCheckPath
	}
	want(r, "/healthCheck/target", providers.String(target), providers.InPlace)
	want(r, "/healthCheck/interval", providers.Int(classicInterval), providers.InPlace)
	want(r, "/healthCheck/timeout", providers.Int(classicTimeout), providers.InPlace)
	want(r, "/healthCheck/healthyThreshold", providers.Int(classicHealthy), providers.InPlace)
	want(r, "/healthCheck/unhealthyThreshold", providers.Int(classicUnhealthy), providers.InPlace)
	want(r, pathIdleTimeout, providers.Int(classicIdleTimeout), providers.InPlace)
	want(r, pathCrossZone, providers.Bool(lb.spec.CrossZoneLoadBalancing), providers.InPlace)
	want(r, pathListeners, providers.Set(fmt.Sprintf("TCP:%d to TCP:%d", c.apiServerPort(), infrav1.DefaultAPIServerPort)), providers.InPlace)
}

// wants adds the fields of a listener's target group. One that is not there
// shows in the listeners.
func (l *listenerView) wants(r *providers.Resource) {
	if l.group == "" {
		return
	}
	path := func(segments ...string) string {
		return providers.Pointer(append([]string{"targetGroups", l.group}, segments...)...)
	}
	wantString(r, path("protocol"), strings.ToUpper(string(l.protocol)), providers.Immutable)
	want(r, path("port"), providers.Int(l.port), providers.Immutable)
	wantString(r, path("healthCheck", "protocol"), strings.ToUpper(deref(l.check.Protocol)), providers.InPlace)
	wantString(r, path("healthCheck", "port"), deref(l.check.Port), providers.InPlace)
	wantString(r, path("healthCheck", "path"), deref(l.check.Path), providers.InPlace)
	number := func(name string, n *int64) {
		if n != nil {
			want(r, path("healthCheck", name), providers.Int(*n), providers.InPlace)
		}
	}
	number("interval", l.check.IntervalSeconds)
	number("timeout", l.check.TimeoutSeconds)
	number("healthyThreshold", l.check.ThresholdCount)
	number("unhealthyThreshold", l.check.UnhealthyThresholdCount)
}

// loadBalancerSubnets wants the declared subnets, or one of each zone. Which
// of several in one zone it was is not recorded, so those zones are left open.
func (w *wants) loadBalancerSubnets(r *providers.Resource, lb *lbView) {
	if len(lb.spec.Subnets) > 0 {
		want(r, pathSubnets, providers.Set(lb.spec.Subnets...), providers.InPlace)
		return
	}
	byZone := map[string][]string{}
	var zones []string
	whole := true
	for _, s := range w.cluster.loadBalancerSide(lb.scheme) {
		if s.id == "" || s.zone == "" {
			whole = false
			continue
		}
		if len(byZone[s.zone]) == 0 {
			zones = append(zones, s.zone)
		}
		byZone[s.zone] = append(byZone[s.zone], s.id)
	}
	var ids []string
	for _, zone := range zones {
		if len(byZone[zone]) > 1 && w.cluster.plan && lb.seen == nil {
			byZone[zone] = byZone[zone][:1] // which CAPA takes
		}
		if len(byZone[zone]) > 1 {
			whole = false
			continue
		}
		ids = append(ids, byZone[zone]...)
	}
	switch {
	case len(ids) == 0:
	case whole:
		want(r, pathSubnets, providers.Set(ids...), providers.InPlace)
	default:
		wantMatch(r, pathSubnets, providers.Set(ids...), providers.Contains, providers.InPlace)
	}
}

// loadBalancerSide gives the subnets that a load balancer of the scheme may be
// in: public ones for the internet, or where there are no private ones.
func (c *clusterView) loadBalancerSide(scheme infrav1.ELBScheme) []subnetView {
	side := func(public bool) []subnetView {
		var out []subnetView
		for _, s := range c.subnets {
			if s.core() && s.public == public {
				out = append(out, s)
			}
		}
		return out
	}
	private := side(false)
	if scheme == infrav1.ELBSchemeInternetFacing || len(private) == 0 {
		return side(true)
	}
	return private
}

// loadBalancerGroups wants the group of the API server's load balancers and
// the additional ones. A network load balancer that was made without groups
// can never get any.
func (w *wants) loadBalancerGroups(r *providers.Resource, lb *lbView) {
	if lb.kind == lbNetwork && lb.seen != nil && len(lb.seen.Fields.Get(pathSecurityGroups).Value.Elements()) == 0 {
		return
	}
	ids := slices.Clone(lb.spec.AdditionalSecurityGroups)
	id, _ := w.cluster.group(infrav1.SecurityGroupAPIServerLB)
	switch {
	case id != "":
		want(r, pathSecurityGroups, providers.Set(append(ids, id)...), providers.InPlace)
	case len(ids) > 0:
		wantMatch(r, pathSecurityGroups, providers.Set(ids...), providers.Contains, providers.InPlace)
	}
}

// bastionWants adds the bastion. CAPA makes none in a cluster without private
// subnets.
func (w *wants) bastionWants() {
	c := w.cluster
	if !slices.ContainsFunc(c.subnets, func(s subnetView) bool { return !s.public && !s.spec.IsEdge() }) {
		return
	}
	id, why := c.bastion()
	name := c.name + "-bastion"
	if id == "" {
		w.unrecorded(providers.KindInstance, name, why)
		return
	}
	spec := &c.spec.Spec
	r := w.made(providers.KindInstance, id, name, infrav1.BastionHostReadyCondition)
	want(&r, pathState, providers.String(stateRunning), providers.InPlace)
	wantString(&r, pathInstanceType, spec.Bastion.InstanceType, providers.InPlaceDisruptive)
	wantString(&r, pathImageID, spec.Bastion.AMI, providers.Immutable)
	wantString(&r, pathKeyName, deref(spec.SSHKeyName), providers.Immutable)
	if group, _ := c.group(infrav1.SecurityGroupBastion); group != "" {
		want(&r, pathSecurityGroups, providers.Set(group), providers.InPlace)
	}
	wantTags(&r, c.name, c.clusterTags(name, infrav1.BastionRoleTagValue, nil))
	w.add(r)
}

func (c *clusterView) bastion() (id, why string) {
	if b := c.spec.Status.Bastion; b != nil && b.ID != "" {
		return b.ID, ""
	}
	return c.byTag(providers.KindInstance, "bastion", func(r *providers.Resource) bool {
		return tagOf(r, infrav1.NameAWSClusterAPIRole) == infrav1.BastionRoleTagValue
	})
}
