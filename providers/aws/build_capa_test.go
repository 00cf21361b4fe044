package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// picture is a cloud in words that two clouds have in common: names for ids,
// and none of what only one of the builders writes.
func (y *yard) picture(ctx context.Context) map[string]string {
	y.t.Helper()
	p, owner := provider(y.t), y.owner()
	scope, err := p.Scope(ctx, owner)
	if err != nil {
		y.t.Fatal(err)
	}
	snap, err := p.Observe(ctx, scope)
	if err != nil {
		y.t.Fatal(err)
	}
	names := map[string]string{}
	for id, r := range snap.Resources {
		name := r.Name
		if id.Kind == providers.KindRouteTable {
			name += " of " + strings.Join(r.Fields.Get(pathAssociations).Value.Elements(), "+")
		}
		if id.Kind == providers.KindNATGateway {
			name += " in " + textOf(r, pathSubnetID)
		}
		names[id.Name] = "<" + id.Kind + " " + name + ">"
	}
	ids := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) })
	said := func(s string) string {
		for range 3 { // names may have ids in them
			for _, id := range ids {
				s = strings.ReplaceAll(s, id, names[id])
			}
		}
		return s
	}
	out := map[string]string{}
	for id, r := range snap.Resources {
		if id.Kind == providers.KindNetworkInterface || r.Gone != "" {
			continue // the gateways', and what is no more
		}
		key := said(names[id.Name])
		for path, f := range r.Fields.All() {
			if last := lastSegment(path); last == ownerTag || last == madeForTag || slices.Contains([]string{pathDNSName, pathPublicIPs, pathAllocations}, path) {
				continue
			}
			values := f.Value.Elements()
			if !f.Value.IsSet() {
				values = []string{f.Value.Text()}
			}
			for i := range values {
				values[i] = said(values[i])
			}
			slices.Sort(values)
			path = said(path)
			text := strings.Join(values, ", ")
			for _, prefix := range []string{apiTargetPrefix, additionalTargetPrefix} {
				path, text = anonymous(path, prefix), anonymous(text, prefix)
			}
			out[key+" "+path] = text
		}
	}
	return out
}

// anonymous cuts off what is random of a name.
func anonymous(s, prefix string) string {
	at := strings.Index(s, prefix)
	if at < 0 {
		return s
	}
	end := at + len(prefix)
	rest := strings.TrimLeft(s[end:], "0123456789abcdefghijklmnopqrstuvwxyz")
	return s[:end] + "*" + rest
}

// What is built is, field by field, what CAPA builds of the same declaration.
func TestBuildsAsCAPA(t *testing.T) {
	internal := func(a *infrav1.AWSCluster) {
		withNLB(a)
		a.Spec.ControlPlaneLoadBalancer.Scheme = &infrav1.ELBSchemeInternal
		a.Spec.ControlPlaneLoadBalancer.CrossZoneLoadBalancing = true
		a.Spec.ControlPlaneLoadBalancer.AdditionalListeners = []infrav1.AdditionalListenerSpec{{Port: 8132, Protocol: infrav1.ELBProtocolTCP}}
		a.Spec.AdditionalTags = infrav1.Tags{"team": "platform"}
	}
	for name, mod := range map[string]func(*infrav1.AWSCluster){
		"classic":  func(*infrav1.AWSCluster) {},
		"network":  withNLB,
		"internal": internal,
		"listed subnets": func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.VPC.EmptyRoutesDefaultVPCSecurityGroup = true
			a.Spec.NetworkSpec.Subnets = infrav1.Subnets{
				{ID: "front", CidrBlock: "10.0.0.0/20", AvailabilityZone: "us-west-2b", IsPublic: true},
				{ID: "back", CidrBlock: "10.0.16.0/20", AvailabilityZone: "us-west-2b"},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", mod)
			y.build(ctx)
			ours := y.picture(ctx)

			capa := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", mod)
			p, owner := provider(t), capa.owner()
			scope, err := p.Scope(ctx, owner)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Settle(ctx, scope, owner); err != nil {
				t.Fatal(err)
			}
			a := owner.Infra.(*infrav1.AWSCluster)
			if err := awscluster.NewPlayer(awscluster.ClientsFrom(capa.cloud.Config(capa.region)), capa.cluster).Infrastructure(ctx, a); err != nil {
				t.Fatal(err)
			}
			a.Spec.IdentityRef = nil
			capa.store(a)
			if diff := cmp.Diff(capa.picture(ctx), ours); diff != "" {
				t.Errorf("not what CAPA builds (-CAPA +Holdfast):\n%s", diff)
			}
			if len(ours) < 100 {
				t.Errorf("only %d fields were compared", len(ours))
			}
			if diff := cmp.Diff(recorded(a), recorded(y.object())); diff != "" {
				t.Errorf("not recorded as CAPA does (-CAPA +Holdfast):\n%s", diff)
			}
			// And what CAPA has made Holdfast takes over, without a change.
			mutations := len(capa.cloud.Mutations())
			capa.build(ctx)
			if made := capa.cloud.Mutations()[mutations:]; len(made) != 0 {
				t.Errorf("taking it over changed it: %v", made)
			}
			capa.unmake(ctx)
			if left := capa.counts(ctx); left != "" {
				t.Errorf("of what CAPA made is left: %s", left)
			}
		})
	}
}

// recorded is what an AWSCluster records, with which of the cloud's ids are
// there in place of the ids.
func recorded(a *infrav1.AWSCluster) map[string]string {
	has := func(s string) string { kind, _, _ := strings.Cut(s, "-"); return kind }
	n, st := &a.Spec.NetworkSpec, &a.Status
	out := map[string]string{
		"vpc": has(n.VPC.ID), "vpc.cidr": n.VPC.CidrBlock, "igw": has(deref(n.VPC.InternetGatewayID)), "vpc.role": n.VPC.Tags.GetRole(),
		"nat addresses": fmt.Sprint(len(st.Network.NatGatewaysIPs)), "endpoint port": fmt.Sprint(a.Spec.ControlPlaneEndpoint.Port),
		"endpoint": fmt.Sprint(a.Spec.ControlPlaneEndpoint.Host == st.Network.APIServerELB.DNSName && a.Spec.ControlPlaneEndpoint.Host != ""),
		"ready":    fmt.Sprint(st.Ready), "domains": fmt.Sprint(st.FailureDomains), "owned": fmt.Sprint(n.VPC.Tags.HasOwned("my-cluster")),
	}
	for i := range n.Subnets {
		s := &n.Subnets[i]
		out["subnet "+s.ID] = fmt.Sprint(has(s.ResourceID), s.CidrBlock, s.AvailabilityZone, s.IsPublic, has(deref(s.RouteTableID)), has(deref(s.NatGatewayID)), s.Tags, *s.ZoneType)
	}
	for role, g := range st.Network.SecurityGroups {
		out["group "+string(role)] = fmt.Sprint(has(g.ID), g.Name, g.Tags)
	}
	lb := &st.Network.APIServerELB
	out["lb"] = fmt.Sprint(lb.Name, lb.ARN != "", lb.Scheme, lb.AvailabilityZones, len(lb.SubnetIDs), len(lb.SecurityGroupIDs), lb.LoadBalancerType, lb.LoadBalancerIPAddressType, lb.ClassicElbAttributes, len(lb.ELBAttributes))
	return out
}
