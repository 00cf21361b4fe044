package aws

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/providers"
)

// readsAtOnce bounds the kinds that are read at the same time: enough to hide
// latency, few enough that a throttled account is not hit by all at once.
const readsAtOnce = 4

// Observe implements [providers.Provider]. Every kind is one paged listing of
// the region, whatever the number of clusters; only the VPCs and load
// balancers of clusters are read further. A kind whose listing failed at any
// page is left out as a whole and has the error in Coverage: what one page did
// not show must not look absent.
func (p *Provider) Observe(ctx context.Context, scope providers.Scope) (*providers.Snapshot, error) {
	s, err := p.ready(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", scope, err)
	}
	o := &observation{
		reader:   reader{session: s, converter: newConverter()},
		scope:    scope,
		interest: p.interestIn(scope),
		coverage: map[string]error{},
	}
	taken := p.clock.Now()
	o.listAll(ctx)
	o.readDetails(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("observe %s: %w", scope, context.Cause(ctx))
	}
	if err := o.refused(); err != nil {
		p.forget(scope, s)
		return nil, fmt.Errorf("observe %s: %w", scope, err)
	}
	snap := &providers.Snapshot{Scope: scope, TakenAt: taken, Coverage: o.coverage, Resources: o.join()}
	p.watching.learn(snap)
	return snap, nil
}

// observation is one Observe under way.
type observation struct {
	reader
	scope    providers.Scope
	interest interest

	mu       sync.Mutex
	coverage map[string]error

	seenInstances []seenInstance
	seenEvents    map[string][]string
	seenVolumes   []*providers.Resource
	seenENIs      []*providers.Resource
	seenGroups    []*providers.Resource
	seenVPCs      []*providers.Resource
	seenSubnets   []*providers.Resource
	seenGateways  []*providers.Resource
	seenEgress    []*providers.Resource
	seenNATs      []*providers.Resource
	seenTables    []*providers.Resource
	seenACLs      []*providers.Resource
	seenAliases   []*providers.Resource
	balancers     balancers
}

// Coverage keys of what is joined into another kind.
const (
	partRootVolume    = providers.KindInstance + "/rootVolume"
	partOtherVolumes  = providers.KindInstance + "/nonRootVolumes"
	partEvents        = providers.KindInstance + "/scheduledEvents"
	partRegistrations = providers.KindInstance + "/loadBalancers"
	partRouteTable    = providers.KindSubnet + "/routeTableId"
	partNetworkACL    = providers.KindSubnet + "/networkAclId"
	partDNSSupport    = providers.KindVPC + "/enableDnsSupport"
	partDNSHostnames  = providers.KindVPC + "/enableDnsHostnames"
)

// cover records the outcome of a read under all its keys. The first failure of
// a key stays.
func (o *observation) cover(what string, err error, keys ...string) {
	if err != nil {
		err = fmt.Errorf("observe %s in %s: %w", what, o.scope, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		if o.coverage[key] == nil {
			o.coverage[key] = err
		}
	}
}

// failed reports whether a read that covers the key went wrong.
func (o *observation) failed(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.coverage[key] != nil
}

// list runs one listing and keeps its result only when it is complete.
func list[T any](ctx context.Context, o *observation, what string, into *T, read func(context.Context) (T, error), keys ...string) func() error {
	return func() error {
		out, err := read(ctx)
		o.cover(what, err, keys...)
		if err == nil {
			*into = out
		}
		return nil
	}
}

// all makes a listing of the whole region of a read that can also be narrowed.
func all[T any](read func(context.Context, *choice) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) { return read(ctx, nil) }
}

func (o *observation) listAll(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(readsAtOnce)
	g.Go(list(ctx, o, "instances", &o.seenInstances, all(o.instances), providers.KindInstance))
	g.Go(list(ctx, o, "instance status", &o.seenEvents, all(o.events), partEvents))
	g.Go(list(ctx, o, "volumes", &o.seenVolumes, all(o.volumes), providers.KindVolume, partRootVolume, partOtherVolumes))
	g.Go(list(ctx, o, "network interfaces", &o.seenENIs, all(o.interfaces), providers.KindNetworkInterface))
	g.Go(list(ctx, o, "security groups", &o.seenGroups, all(o.groups), providers.KindSecurityGroup))
	g.Go(list(ctx, o, "VPCs", &o.seenVPCs, all(o.vpcs), providers.KindVPC))
	g.Go(list(ctx, o, "subnets", &o.seenSubnets, all(o.subnets), providers.KindSubnet))
	g.Go(list(ctx, o, "internet gateways", &o.seenGateways, all(o.internetGateways), providers.KindInternetGateway))
	g.Go(list(ctx, o, "egress-only internet gateways", &o.seenEgress, all(o.egressOnlyGateways), providers.KindInternetGateway))
	g.Go(list(ctx, o, "NAT gateways", &o.seenNATs, all(o.natGateways), providers.KindNATGateway))
	g.Go(list(ctx, o, "route tables", &o.seenTables, all(o.routeTables), providers.KindRouteTable, partRouteTable))
	g.Go(list(ctx, o, "network ACLs", &o.seenACLs, all(o.networkACLs), providers.KindNetworkACL, partNetworkACL))
	g.Go(list(ctx, o, "load balancers", &o.balancers, o.listBalancers, providers.KindLoadBalancer, partRegistrations))
	if o.interest.keyAliases {
		g.Go(list(ctx, o, "KMS aliases", &o.seenAliases, o.keyAliases, kindKeyAlias))
	}
	_ = g.Wait() // failures are in coverage
}

// readDetails reads what needs calls for each: VPC attributes and the parts of
// load balancers, both only for clusters.
func (o *observation) readDetails(ctx context.Context) {
	instances := make([]*providers.Resource, len(o.seenInstances))
	for i := range o.seenInstances {
		instances[i] = o.seenInstances[i].Resource
	}
	o.interest.addOwned(o.seenVPCs, instances, o.seenSubnets, o.seenGroups)
	var g errgroup.Group
	g.Go(func() error { o.readVPCAttributes(ctx); return nil })
	g.Go(func() error { o.readBalancers(ctx); return nil })
	_ = g.Wait() // failures are in coverage
}

// refused reports that AWS stopped accepting the credentials half-way: then
// nothing that is left is worth more than the error.
func (o *observation) refused() error {
	for _, key := range sorted(o.coverage) {
		if err := o.coverage[key]; err != nil && refusesCaller(err) {
			return scopeError(err)
		}
	}
	return nil
}

// join puts the kinds together.
func (o *observation) join() map[providers.ID]*providers.Resource {
	if !o.failed(partRootVolume) {
		volumes := make(map[string]*providers.Resource, len(o.seenVolumes))
		for _, v := range o.seenVolumes {
			volumes[v.ID.Name] = v
		}
		o.joinVolumes(o.seenInstances, volumes)
	}
	if !o.failed(partEvents) {
		o.joinEvents()
	}
	o.joinRegistrations()
	joinRouteTables(o.seenSubnets, o.seenTables)
	joinNetworkACLs(o.seenSubnets, o.seenACLs)
	lists := [][]*providers.Resource{
		o.seenVolumes, o.seenENIs, o.seenGroups, o.seenVPCs, o.seenSubnets, o.seenNATs, o.seenTables, o.seenACLs, o.seenAliases,
	}
	// Two listings make these kinds: one alone would be partial.
	if !o.failed(providers.KindInternetGateway) {
		lists = append(lists, o.seenGateways, o.seenEgress)
	}
	if !o.failed(providers.KindLoadBalancer) {
		lists = append(lists, o.balancers.resources())
	}
	n := len(o.seenInstances)
	for _, l := range lists {
		n += len(l)
	}
	out := make(map[providers.ID]*providers.Resource, n)
	for i := range o.seenInstances {
		o.put(out, o.seenInstances[i].Resource)
	}
	for _, l := range lists {
		for _, r := range l {
			o.put(out, r)
		}
	}
	return out
}

var errNoID = errors.New("AWS gave a resource without an id, so the listing cannot be trusted")

// put adds a resource. One without an id would match every unset reference.
func (o *observation) put(out map[providers.ID]*providers.Resource, r *providers.Resource) {
	if r.ID.Name == "" {
		o.cover("kind "+r.ID.Kind, errNoID, r.ID.Kind)
		return
	}
	out[r.ID] = r
}

// joinEvents gives each instance its events. Instances that do not run have no
// entry, and so no event that a status read would show.
func (o *observation) joinEvents() {
	for i := range o.seenInstances {
		s := &o.seenInstances[i]
		if s.Gone == "" && s.Unknown == "" {
			o.set(s.Resource, "/scheduledEvents", o.seenEvents[s.ID.Name])
		}
	}
}

var errManyVPCs = errors.New("more VPCs than are read one by one")

// mostVPCs bounds the VPCs whose attributes are read, at two calls each.
const mostVPCs = 250
