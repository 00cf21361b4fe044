package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Destinations of the routes that CAPA makes.
const (
	anyIPv4 = "0.0.0.0/0"
	anyIPv6 = "::/0"
	nat64   = "64:ff9b::/96" // RFC 6052
)

// tableWants is one route table with the subnets that use it.
type tableWants struct {
	id      string
	subnets []*subnetView
	seen    *providers.Resource
}

// routeWants adds the route tables of the spec's subnets. Subnets may share a
// table; then it must serve all of them.
func (w *wants) routeWants(nats []natView) {
	c := w.cluster
	if c.plan && !c.managed {
		return // whoever brought the VPC routes in it
	}
	var tables []*tableWants
	for i := range c.subnets {
		s := &c.subnets[i]
		if s.id == "" {
			continue
		}
		id, why := c.tableID(s)
		if id == "" {
			if why != "" {
				w.unrecorded(providers.KindRouteTable, s.spec.ID, why)
			}
			continue
		}
		at := slices.IndexFunc(tables, func(t *tableWants) bool { return t.id == id })
		if at < 0 {
			at = len(tables)
			tables = append(tables, &tableWants{id: id, seen: c.snap.Resources[providers.ID{Kind: providers.KindRouteTable, Name: id}]})
		}
		tables[at].subnets = append(tables[at].subnets, s)
	}
	for _, t := range tables {
		w.tableWants(t, nats)
	}
}

func (w *wants) tableWants(t *tableWants, nats []natView) {
	c := w.cluster
	s := t.subnets[0]
	mixed := slices.ContainsFunc(t.subnets, func(o *subnetView) bool { return o.public != s.public })
	name := fmt.Sprintf("%s-rt-%s-%s", c.name, s.role(), s.zone)
	r := w.made(providers.KindRouteTable, t.id, name, infrav1.RouteTablesReadyCondition)
	r.Needs = w.needs(providers.KindVPC, c.vpcID)
	if c.managed {
		wantString(&r, pathVPCID, c.vpcID, providers.Immutable)
		ids := make([]string, len(t.subnets))
		for i, s := range t.subnets {
			ids[i] = s.id
		}
		wantMatch(&r, pathAssociations, providers.Set(ids...), providers.Contains, providers.InPlace)
		if !mixed {
			w.tableTags(&r, s)
			w.routes(&r, s, nats)
		}
	}
	if !s.public && !mixed {
		refuseInternetRoutes(&r, t.seen, s.adopted)
	}
	if len(r.Fields) > 0 {
		w.add(r)
	}
}

// tableTags follows CAPA, which names a table after its subnet's role and zone.
func (w *wants) tableTags(r *providers.Resource, s *subnetView) {
	c := w.cluster
	tags := func(role string) infrav1.Tags {
		return c.clusterTags(fmt.Sprintf("%s-rt-%s-%s", c.name, role, s.zone), infrav1.CommonRoleTagValue, c.cloudProviderTag())
	}
	wantTags(r, c.name, tags(s.role()))
	if s.adopted {
		now := *s
		now.public = s.spec.IsPublic
		c.markAdopted(r, tags(s.role()), tags(now.role()))
	}
}

// routes wants each route that CAPA makes for a subnet. A target that is not
// known is left open: the gateway itself is reported.
func (w *wants) routes(r *providers.Resource, s *subnetView, nats []natView) {
	c := w.cluster
	route := func(destination, target string) {
		if target == "" {
			return
		}
		r.Set(providers.Pointer("routes", destination), providers.Field{
			Value: providers.String(target), Mutability: providers.InPlace, Adopted: s.adopted,
		})
	}
	if s.public {
		if s.spec.IsEdgeWavelength() {
			route(anyIPv4, deref(c.vpc().CarrierGatewayID))
			return
		}
		gateway, _ := c.internetGateway()
		route(anyIPv4, gateway)
		if s.spec.IsIPv6 {
			route(anyIPv6, gateway)
		}
		return
	}
	nat := natFor(s, nats)
	if c.pendingNAT(nat) {
		nat = providers.Provisional(providers.KindNATGateway, whatNAT(s.zone)).Name
	}
	route(anyIPv4, nat)
	if !s.spec.IsIPv6 {
		return
	}
	if s.spec.CidrBlock == "" {
		route(nat64, nat)
	}
	if c.vpc().IsIPv6Enabled() {
		gateway, _ := c.egressOnlyGateway()
		route(anyIPv6, gateway)
	}
}

// natFor gives the gateway of the subnet's zone; in an edge zone, which has
// none, its parent zone's or the first.
func natFor(s *subnetView, nats []natView) string {
	in := func(zone string) string {
		for _, n := range nats {
			if n.zone == zone {
				return n.id
			}
		}
		return ""
	}
	if id := in(s.zone); id != "" || !s.spec.IsEdge() {
		return id
	}
	if id := in(deref(s.spec.ParentZoneName)); id != "" {
		return id
	}
	zones := map[string]string{}
	for _, n := range nats {
		if n.id != "" {
			zones[n.zone] = n.id
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		return zones[zone]
	}
	return ""
}

// refuseInternetRoutes wants no route of a private subnet's table to lead to
// an internet gateway: also not half the internet, or IPv6, or a range that
// nobody thought of. Where another target is wanted, that says it already.
func refuseInternetRoutes(r, seen *providers.Resource, adopted bool) {
	if seen == nil {
		return
	}
	for path, f := range seen.Fields.All() {
		if !strings.HasPrefix(path, "/routes/") || !strings.HasPrefix(f.Value.Text(), "igw-") {
			continue
		}
		if _, wanted := r.Fields.Lookup(path); !wanted {
			r.Set(path, providers.Field{Mutability: providers.InPlace, Adopted: adopted})
		}
	}
}

// tableID gives the table that a subnet must use. The recorded id only echoes
// the association that CAPA saw last, so where the subnet's role was adopted
// it may be the table that a careless hand moved the subnet to.
func (c *clusterView) tableID(s *subnetView) (id, why string) {
	recorded := deref(s.spec.RouteTableID)
	if !c.managed {
		return textOf(s.seen, pathRouteTableID), ""
	}
	if s.adopted {
		if id := c.ownTable(s); id != "" {
			return id, ""
		}
		for i := range c.subnets {
			o := &c.subnets[i]
			if o.public != s.public && !o.adopted && recorded != "" && deref(o.spec.RouteTableID) == recorded {
				return "", fmt.Sprintf("route table of %s: the recorded %s belongs to %s, and its own was not found", s.spec.ID, recorded, o.spec.ID)
			}
		}
	}
	if recorded != "" {
		return recorded, ""
	}
	if c.plan {
		return c.notCreated(providers.KindRouteTable, whatTable(s.spec))
	}
	if id := c.ownTable(s); id != "" {
		return id, ""
	}
	if err, known := c.snap.Covered(providers.KindRouteTable, ""); err != nil || !known {
		return "", fmt.Sprintf("route table of %s not recorded: %s", s.spec.ID, notRead(providers.KindRouteTable, err))
	}
	return "", fmt.Sprintf("route table of %s not recorded, and not to be told by its tags", s.spec.ID)
}

// ownTable finds the table by CAPA's name for it. Several subnets of one role
// and zone have tables of one name; then the association decides.
func (c *clusterView) ownTable(s *subnetView) string {
	name := fmt.Sprintf("%s-rt-%s-%s", c.name, s.role(), s.zone)
	var named, free []string
	for _, r := range ofKind(c.snap, providers.KindRouteTable) {
		if !ownedBy(r, c.name) || textOf(r, pathVPCID) != c.vpcID || tagOf(r, "Name") != name {
			continue
		}
		if r.Fields.Get(pathAssociations).Value.Has(s.id) {
			return r.ID.Name
		}
		named = append(named, r.ID.Name)
		if !c.usedByOther(r, s) {
			free = append(free, r.ID.Name)
		}
	}
	switch {
	case len(named) == 1:
		return named[0]
	case len(free) == 1:
		return free[0]
	default:
		return ""
	}
}

func (c *clusterView) usedByOther(table *providers.Resource, s *subnetView) bool {
	return slices.ContainsFunc(c.subnets, func(o subnetView) bool {
		return o.id != s.id && table.Fields.Get(pathAssociations).Value.Has(o.id)
	})
}
