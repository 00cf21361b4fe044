package aws

import (
	"fmt"
	"slices"
	"time"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/providers"
)

// noteCluster writes what CAPA writes: addresses, load balancers, the endpoint,
// failure domains, conditions. An AWSCluster that was ready once stays so.
func noteCluster(owner *providers.Owner, a *infrav1.AWSCluster, snap *providers.Snapshot, progress providers.Progress) string {
	n := &clusterNote{a: a, progress: progress, seen: snap != nil}
	if snap == nil {
		snap = &providers.Snapshot{}
	}
	n.c = newClusterView(owner, snap, true)
	if n.c.spec == nil {
		return notBuilt(owner).Error()
	}
	n.c.resolveSubnets()
	n.at = snap.TakenAt
	if progress.Deleting {
		return n.deleting()
	}
	if n.seen {
		n.addresses()
		n.balancers()
	}
	waiting := n.waiting()
	n.conditions(waiting)
	if waiting == "" || progress.WasReady {
		n.failureDomains()
		a.Status.Ready = true
	}
	return waiting
}

type clusterNote struct {
	c        *clusterView
	a        *infrav1.AWSCluster
	progress providers.Progress
	// seen says that there is a snapshot, which was taken at the time at.
	seen bool
	at   time.Time
}

// addresses records the NAT gateways', which security groups let in. While one
// is not known, what is recorded is the best that is.
func (n *clusterNote) addresses() {
	ips, open := n.c.natIPs()
	if len(open) == 0 && len(ips) > 0 && !slices.Equal(ips, n.a.Status.Network.NatGatewaysIPs) {
		n.a.Status.Network.NatGatewaysIPs = ips
	}
}

// balancers records what the load balancers are like, and the primary one's
// address as the endpoint unless there is one.
func (n *clusterNote) balancers() {
	for _, lb := range n.c.loadBalancers() {
		if lb.seen == nil || lb.seen.Gone != "" || lb.seen.Unknown != "" {
			continue
		}
		status := lb.status(n.a)
		n.balancer(&lb, status)
		endpoint := &n.a.Spec.ControlPlaneEndpoint
		if status != &n.a.Status.Network.APIServerELB || status.DNSName == "" {
			continue
		}
		if endpoint.Host == "" {
			endpoint.Host = status.DNSName
		}
		if endpoint.Port == 0 {
			endpoint.Port = int32(n.c.apiServerPort()) //nolint:gosec // a port
		}
	}
}

func (n *clusterNote) balancer(lb *lbView, s *infrav1.LoadBalancer) {
	r := lb.seen
	s.Name, s.Scheme, s.LoadBalancerType = r.Name, infrav1.ELBScheme(textOf(r, pathScheme)), balancerTypes[textOf(r, pathLBType)]
	s.DNSName = first(textOf(r, pathDNSName), s.DNSName)
	s.LoadBalancerIPAddressType = infrav1.LoadBalancerIPAddressType(first(textOf(r, pathAddressType), string(infrav1.LoadBalancerIPAddressTypeIPv4)))
	s.SubnetIDs = r.Fields.Get(pathSubnets).Value.Elements()
	s.SecurityGroupIDs = r.Fields.Get(pathSecurityGroups).Value.Elements()
	s.AvailabilityZones = nil
	for i := range n.c.subnets {
		if sub := &n.c.subnets[i]; sub.id != "" && slices.Contains(s.SubnetIDs, sub.id) && !slices.Contains(s.AvailabilityZones, sub.zone) {
			s.AvailabilityZones = append(s.AvailabilityZones, sub.zone)
		}
	}
	if r.Closes("/tags") {
		s.Tags = map[string]string{}
		for path, f := range r.Fields.All() {
			if within(path, "/tags") {
				s.Tags[lastSegment(path)] = f.Value.Text()
			}
		}
	}
	if lb.kind == lbClassic {
		s.ARN = ""
		if idle, ok := r.Fields.Get(pathIdleTimeout).Value.Number(); ok {
			s.ClassicElbAttributes.IdleTimeout = time.Duration(idle) * time.Second
		}
		s.ClassicElbAttributes.CrossZoneLoadBalancing = r.Fields.Get(pathCrossZone).Value.Equal(providers.Bool(true))
		return
	}
	s.ARN = r.ID.Name
	attributes := map[string]*string{}
	for key, path := range map[string]string{
		infrav1.LoadBalancerAttributeEnableLoadBalancingCrossZone: pathCrossZone,
		infrav1.LoadBalancerAttributeIdleTimeTimeoutSeconds:       pathIdleTimeout,
	} {
		if v := r.Fields.Get(path).Value; !v.IsAbsent() {
			attributes[key] = ptr(v.Text())
		}
	}
	s.ELBAttributes = attributes
}

// failureDomains are the zones of the private subnets. Control planes may be in
// those that the load balancer serves.
func (n *clusterNote) failureDomains() {
	domains := clusterv1beta1.FailureDomains{}
	for _, s := range n.a.Spec.NetworkSpec.Subnets.FilterPrivate() {
		domains[s.AvailabilityZone] = clusterv1beta1.FailureDomainSpec{
			ControlPlane: slices.Contains(n.a.Status.Network.APIServerELB.AvailabilityZones, s.AvailabilityZone),
		}
	}
	if len(domains) > 0 {
		n.a.Status.FailureDomains = domains
	}
}

// longestClusterNote bounds what is said in a status.
const longestClusterNote = 600

func clean(s string) string { return (providers.Cleaner{Max: longestClusterNote}).Clean(s) }

// waiting says what the cluster still waits for; empty if it is ready.
func (n *clusterNote) waiting() string {
	switch p := &n.progress; {
	case p.Failed != nil:
		return clean(p.Failed.Error())
	case p.Before != "":
		return p.Before
	case !n.seen || p.Plan == nil:
		return "nothing was planned yet"
	}
	for i := range n.progress.Plan {
		if why, open := n.open(&n.progress.Plan[i]); open {
			return why
		}
	}
	return n.endpointWaits()
}

// open says whether a planned resource is not as wanted yet, and why.
func (n *clusterNote) open(r *providers.Resource) (why string, open bool) {
	why, open = n.progress.Open[r.ID]
	if !open {
		return "", false
	}
	name := kindWords[r.ID.Kind] + " " + r.Name
	if r.ID.Kind == providers.KindNATGateway {
		for _, nat := range n.c.natGateways() {
			if nat.id == r.ID.Name {
				name = whatNAT(nat.zone)
			}
		}
		if n.c.pendingNAT(r.ID.Name) {
			return name + " is pending", true
		}
	}
	return clean(name + ": " + why), true
}

var kindWords = map[string]string{
	providers.KindVPC: "VPC", providers.KindSubnet: "subnet", providers.KindInternetGateway: "internet gateway",
	providers.KindNATGateway: "NAT gateway", providers.KindRouteTable: "route table", providers.KindNetworkACL: "network ACL",
	providers.KindSecurityGroup: "security group", providers.KindLoadBalancer: "load balancer", providers.KindInstance: "instance",
}

// endpointWaits says what the control plane's endpoint waits for.
func (n *clusterNote) endpointWaits() string {
	for _, lb := range n.c.loadBalancers() {
		switch state := textOf(lb.seen, pathState); {
		case state == "provisioning":
			return whatBalancer(lb.name) + " is provisioning"
		case state == "failed":
			return whatBalancer(lb.name) + " could not be set up: delete it, and it is made anew"
		case lb.status(n.a).DNSName == "":
			return whatBalancer(lb.name) + " has no address yet"
		}
	}
	if e := n.a.Spec.ControlPlaneEndpoint; e.Host == "" || e.Port == 0 {
		return "spec.controlPlaneEndpoint is not set, and with spec.controlPlaneLoadBalancer.loadBalancerType disabled it is for somebody else to set"
	}
	return ""
}

// deleting notes how far the cluster is on its way out.
func (n *clusterNote) deleting() string {
	waiting := ""
	switch {
	case n.progress.Failed != nil:
		waiting = clean(n.progress.Failed.Error())
	case len(n.progress.Open) > 0:
		waiting = n.going()
	}
	n.deletingConditions(waiting)
	return waiting
}

// going says what goes next.
func (n *clusterNote) going() string {
	for _, kind := range goingOrder {
		var ids []string
		for id := range n.progress.Open {
			if id.Kind == kind {
				ids = append(ids, id.Name)
			}
		}
		if len(ids) > 0 {
			slices.Sort(ids)
			return clean(fmt.Sprintf("%s %s: %s", kindWords[kind], ids[0], n.progress.Open[providers.ID{Kind: kind, Name: ids[0]}]))
		}
	}
	return ""
}
