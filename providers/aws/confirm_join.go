package aws

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// complete gives resources that were read by their ids what Observe joins to
// them from other reads. found has them by kind; what was read anew takes the
// place of what is there.
func (o *observation) complete(ctx context.Context, found map[string][]*providers.Resource) {
	var g errgroup.Group
	g.SetLimit(readsAtOnce)
	g.Go(func() error { o.completeDisks(ctx); return nil })
	g.Go(func() error { o.completeEvents(ctx); return nil })
	g.Go(func() error { o.completeBalancers(ctx, found); return nil })
	g.Go(func() error { o.completeSubnets(ctx, found[providers.KindSubnet]); return nil })
	g.Go(func() error { o.completeGroups(ctx, found[providers.KindSecurityGroup]); return nil })
	for _, vpc := range found[providers.KindVPC] {
		g.Go(func() error { o.readDNS(ctx, vpc); return nil })
	}
	_ = g.Wait() // failures are in coverage

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
	for _, list := range found {
		for _, r := range list {
			o.open(r)
		}
	}
}

// alive are the instances that others are joined to.
func (o *observation) alive() (ids, volumes []string) {
	for i := range o.seenInstances {
		s := &o.seenInstances[i]
		if s.Gone != "" || s.Unknown != "" {
			continue
		}
		ids = append(ids, s.ID.Name)
		for _, d := range s.devices {
			volumes = append(volumes, d.volume)
		}
	}
	return ids, volumes
}

func (o *observation) completeDisks(ctx context.Context) {
	_, ids := o.alive()
	for _, batch := range batches(ids, confirmBatch) {
		// A volume that is gone since must not hide the others.
		list, err := o.volumes(ctx, &choice{ids: batch, byFilter: true})
		if err != nil {
			o.cover("volumes", err, partRootVolume, partOtherVolumes)
			return
		}
		o.seenVolumes = append(o.seenVolumes, list...)
	}
}

func (o *observation) completeEvents(ctx context.Context) {
	ids, _ := o.alive()
	o.seenEvents = make(map[string][]string, len(ids))
	for _, batch := range batches(ids, confirmBatch) {
		events, err := o.events(ctx, &choice{ids: batch})
		if err != nil {
			o.cover("instance status", err, partEvents)
			return
		}
		for id, list := range events {
			o.seenEvents[id] = list
		}
	}
}

// completeBalancers reads the parts of the load balancers that were asked for,
// and, where instances were that may be registered in some, of those of their
// VPCs. Each costs calls of a bucket of ten a second, so a worker's instance, of
// which nobody wants to know what it is registered in, has none of them read.
func (o *observation) completeBalancers(ctx context.Context, found map[string][]*providers.Resource) {
	asked := found[providers.KindLoadBalancer]
	serving := o.serving()
	if len(asked) == 0 && len(serving) == 0 {
		return
	}
	for _, r := range asked {
		o.interest.balancers[r.Name] = true
	}
	var err error
	if len(serving) > 0 {
		o.interest.addOwned(nil, serving)
		if o.balancers, err = o.listBalancers(ctx); err == nil {
			o.balancers.keep(func(r *providers.Resource) bool {
				vpc := r.Fields.Get("/vpcId").Value.Text()
				return slices.ContainsFunc(serving, func(i *providers.Resource) bool { return i.Fields.Get("/vpcId").Value.Text() == vpc }) ||
					slices.ContainsFunc(asked, func(a *providers.Resource) bool { return a.ID == r.ID })
			})
		}
	} else {
		for _, r := range asked {
			if strings.HasPrefix(r.ID.Name, classicPrefix) {
				o.balancers.classic = append(o.balancers.classic, r)
			} else {
				o.balancers.modern = append(o.balancers.modern, r)
			}
		}
		if len(o.balancers.modern) > 0 {
			o.balancers.groups, err = o.targetGroups(ctx)
		}
	}
	if err != nil {
		o.cover("load balancers", err, providers.KindLoadBalancer, partRegistrations)
	}
	o.readBalancers(ctx)
	for i, r := range asked {
		for _, read := range o.balancers.resources() {
			if read.ID == r.ID {
				asked[i] = read
			}
		}
	}
}

// serving are the living instances that the API server's load balancers may
// send to: those of control-plane machines, and all others that CAPA did not tag
// as workers.
func (o *observation) serving() (out []*providers.Resource) {
	for i := range o.seenInstances {
		s := &o.seenInstances[i]
		if s.Gone == "" && s.Unknown == "" && (o.interest.planes[s.ID.Name] || tagOf(s.Resource, infrav1.NameAWSClusterAPIRole) != roleNode) {
			out = append(out, s.Resource)
		}
	}
	return out
}

// roleNode is what CAPA says of a worker's instance by its role tag.
const roleNode = "node"

// completeSubnets reads the tables and ACLs of the subnets' VPCs: a subnet that
// no table names has its VPC's main one.
func (o *observation) completeSubnets(ctx context.Context, subnets []*providers.Resource) {
	var vpcs []string
	for _, s := range subnets {
		if id := s.Fields.Get("/vpcId").Value.Text(); id != "" && !slices.Contains(vpcs, id) {
			vpcs = append(vpcs, id)
		}
	}
	for _, batch := range batches(vpcs, confirmBatch) {
		within := &choice{ids: batch, byFilter: true, field: "vpc-id"}
		tables, err := o.routeTables(ctx, within)
		o.cover("route tables", err, partRouteTable)
		if err == nil {
			joinRouteTables(subnets, tables)
		}
		acls, err := o.networkACLs(ctx, within)
		o.cover("network ACLs", err, partNetworkACL)
		if err == nil {
			joinNetworkACLs(subnets, acls)
		}
	}
}

// partForeignRules stands for what the groups' peers tell about their rules.
const partForeignRules = providers.KindSecurityGroup + "/ingress"

// completeGroups reads the groups that rules name as peers: a rule towards a
// controller's group is that controller's.
func (o *observation) completeGroups(ctx context.Context, groups []*providers.Resource) {
	var peers []string
	known := map[string]bool{}
	for _, g := range groups {
		known[g.ID.Name] = true
	}
	for _, g := range groups {
		for _, path := range []string{"/ingress", "/egress"} {
			for _, w := range g.Fields.Get(path).Value.Elements() {
				if peer := w[strings.LastIndexByte(w, ' ')+1:]; strings.HasPrefix(peer, "sg-") && !known[peer] {
					known[peer] = true
					peers = append(peers, peer)
				}
			}
		}
	}
	everyone := slices.Clone(groups)
	for _, batch := range batches(peers, confirmBatch) {
		list, err := o.groups(ctx, &choice{ids: batch, byFilter: true})
		if err != nil {
			o.cover("security groups that rules name", err, partForeignRules, providers.KindSecurityGroup+"/egress")
			return
		}
		everyone = append(everyone, list...)
	}
	adoptForeignRules(everyone)
}

// open takes from a resource what was not read in full. A confirmation has no
// coverage to say so, and half a set must not pass for the whole.
func (o *observation) open(r *providers.Resource) {
	for part, err := range o.coverage {
		path, ok := strings.CutPrefix(part, r.ID.Kind+"/")
		if err == nil || !ok {
			continue
		}
		path = "/" + path
		for at := range r.Fields.All() {
			if within(at, path) {
				r.Fields.Delete(at)
			}
		}
		r.Closed = slices.DeleteFunc(slices.Clone(r.Closed), func(c string) bool { return within(c, path) || within(path, c) })
	}
}

func within(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}
