package infra

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// network is an owner that was made just now.
func network() *providers.Owner {
	infra := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "eu", UID: "u1", CreationTimestamp: metav1.Time{Time: noon}}}
	return &providers.Owner{
		Ref:     providers.OwnerRef{Kind: "AWSCluster", Namespace: "prod", Name: "eu", UID: types.UID("u1")},
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "eu"}}, Infra: infra,
	}
}

func resource(id providers.ID, edit ...func(*providers.Resource)) providers.Resource {
	r := providers.Resource{ID: id, Name: id.Kind}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func needs(ids ...providers.ID) func(*providers.Resource) {
	return func(r *providers.Resource) { r.Needs = ids }
}

func field(path string, v providers.Value, m providers.Mutability) func(*providers.Resource) {
	return func(r *providers.Resource) { r.Set(path, providers.Field{Value: v, Mutability: m}) }
}

func closed(paths ...string) func(*providers.Resource) {
	return func(r *providers.Resource) { r.Closed = paths }
}

func seen(resources ...providers.Resource) *providers.Snapshot {
	s := &providers.Snapshot{TakenAt: noon, Coverage: map[string]error{}, Resources: map[providers.ID]*providers.Resource{}}
	for _, kind := range []string{providers.KindVPC, providers.KindSubnet, providers.KindInternetGateway, providers.KindRouteTable} {
		s.Coverage[kind] = nil
	}
	for i := range resources {
		s.Resources[resources[i].ID] = &resources[i]
	}
	return s
}

// TestNext: what is done, and in which order, follows from a plan and a snapshot
// alone.
func TestNext(t *testing.T) {
	var (
		vpc       = providers.ID{Kind: providers.KindVPC, Name: "vpc-1"}
		newVPC    = providers.Provisional(providers.KindVPC, "VPC")
		newSubnet = providers.Provisional(providers.KindSubnet, "a")
		gateway   = providers.ID{Kind: providers.KindInternetGateway, Name: "igw-1"}
		table     = providers.ID{Kind: providers.KindRouteTable, Name: "rtb-1"}
		newTable  = providers.Provisional(providers.KindRouteTable, "b")
	)
	dns := field("/dns", providers.Bool(true), providers.InPlace)
	for name, c := range map[string]struct {
		plan    []providers.Resource
		seen    *providers.Snapshot
		ready   bool
		todo    []string // "+KIND" makes, "KIND path" sets
		look    []providers.ID
		open    map[providers.ID]string
		failure string
	}{
		"the first thing first": {
			plan: []providers.Resource{resource(newSubnet, needs(newVPC)), resource(newVPC)}, seen: seen(),
			todo: []string{"+VPC"}, open: map[providers.ID]string{newSubnet: "it needs VPC"},
		},
		"set up before others are made in it": {
			plan: []providers.Resource{resource(vpc, dns), resource(newSubnet, needs(vpc))},
			seen: seen(resource(vpc, field("/dns", providers.Bool(false), 0))),
			todo: []string{"VPC /dns"}, open: map[providers.ID]string{newSubnet: "it needs VPC"},
		},
		"what does not need each other at once": {
			plan: []providers.Resource{resource(vpc), resource(newSubnet, needs(vpc)), resource(newTable, needs(vpc))}, seen: seen(resource(vpc)),
			todo: []string{"+Subnet", "+RouteTable"},
		},
		"a value that is still to be made waits, the others do not": {
			plan: []providers.Resource{resource(table, field("/routes/a", providers.String(gateway.Name), providers.InPlace),
				field("/routes/b", providers.String(newSubnet.Name), providers.InPlace))},
			seen: seen(resource(table, closed("/routes"))),
			todo: []string{"RouteTable /routes/a"},
		},
		"only values that wait": {
			plan: []providers.Resource{resource(table, field("/routes/b", providers.String(newSubnet.Name), providers.InPlace))},
			seen: seen(resource(table, closed("/routes"))), open: map[providers.ID]string{table: "its /routes/b wait for what is still to be made"},
		},
		"one that was ready is not set: that is the policy's": {
			plan:  []providers.Resource{resource(vpc, dns), resource(newSubnet, needs(vpc))},
			seen:  seen(resource(vpc, field("/dns", providers.Bool(false), 0))),
			ready: true, todo: []string{"+Subnet"},
		},
		"another's in its place": {
			plan:    []providers.Resource{resource(vpc, field("/cidrBlock", providers.String("10.0.0.0/16"), providers.Immutable))},
			seen:    seen(resource(vpc, field("/cidrBlock", providers.String("10.1.0.0/16"), 0))),
			failure: `VPC exists as vpc-1, and its cidrBlock is "10.1.0.0/16" where "10.0.0.0/16" is wanted`,
		},
		"recorded and not seen is looked for, and never made again": {
			plan: []providers.Resource{resource(vpc), resource(newSubnet, needs(vpc))}, seen: seen(), look: []providers.ID{vpc},
			open: map[providers.ID]string{vpc: "it is recorded, and the cloud does not show it", newSubnet: "it needs VPC"},
		},
		"what cannot be told stands against everything": {
			plan: []providers.Resource{resource(newVPC, func(r *providers.Resource) {
				r.Unchecked = "VPC not recorded, and the cluster's tags are on several: vpc-1, vpc-2"
			})},
			seen:    seen(),
			failure: "the cluster's tags are on several",
		},
		"a kind that was not read": {
			plan:    []providers.Resource{resource(providers.ID{Kind: "Volume", Name: "vol-1"})},
			seen:    seen(),
			failure: "Volume is not modelled",
		},
		"being made": {
			plan: []providers.Resource{resource(vpc, dns, func(r *providers.Resource) { r.Unsettled = true })}, seen: seen(resource(vpc)),
			open: map[providers.ID]string{vpc: "it is being made"},
		},
		"everything is there": {plan: []providers.Resource{resource(vpc, dns)}, seen: seen(resource(vpc, dns))},
	} {
		t.Run(name, func(t *testing.T) {
			s := next(network(), c.plan, c.seen, func(providers.ID) bool { return !c.ready })
			var todo []string
			for _, st := range s.todo {
				word := "+" + st.want.ID.Kind
				if !st.creates() {
					word = st.want.ID.Kind
					for _, f := range st.fields {
						word += " " + f.Path
					}
				}
				todo = append(todo, word)
			}
			if !slices.Equal(todo, c.todo) || !slices.Equal(s.look, c.look) {
				t.Errorf("it does %q and looks for %v, want %q and %v", todo, s.look, c.todo, c.look)
			}
			for id, want := range c.open {
				if s.open[id] != want {
					t.Errorf("%s is open because %q, want %q", id, s.open[id], want)
				}
			}
			if (s.failed != nil) != (c.failure != "") || s.failed != nil && !strings.Contains(s.failed.Error(), c.failure) {
				t.Errorf("it fails with %v, want %q", s.failed, c.failure)
			}
			if reason := (*providers.ApplyError)(nil); strings.Contains(c.failure, "exists as") && !errors.As(s.failed, &reason) {
				t.Errorf("%v is no refusal: trying again soon will not help", s.failed)
			}
		})
	}
}

// TestToken: a token is the same for every try and another for whatever else.
func TestToken(t *testing.T) {
	a, b := network(), network()
	b.Ref.UID = "u2"
	id, other := providers.Provisional("Subnet", "a"), providers.Provisional("Subnet", "b")
	if token(a, id) != token(network(), id) {
		t.Error("two tries have two tokens")
	}
	if token(a, id) == token(a, other) || token(a, id) == token(b, id) {
		t.Error("two things have one token")
	}
}

// TestDoomedNow: what others need goes after them, and what is going is left.
func TestDoomedNow(t *testing.T) {
	vpc, subnet, gateway := providers.ID{Kind: "VPC", Name: "v"}, providers.ID{Kind: "Subnet", Name: "s"}, providers.ID{Kind: "NATGateway", Name: "n"}
	all := []providers.Resource{resource(vpc), resource(subnet, needs(vpc)), resource(gateway, needs(subnet), func(r *providers.Resource) { r.Unsettled = true })}
	if now := doomedNow(all); len(now) != 0 {
		t.Errorf("%v go while the gateway is going", now[0].ID)
	}
	if now := doomedNow(all[:2]); len(now) != 1 || now[0].ID != subnet {
		t.Errorf("%v go, want the subnet", now)
	}
}
