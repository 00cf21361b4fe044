package ec2sim

import (
	"fmt"
	"hash/fnv"
	"time"
)

// region is all state of one account in one region.
type region struct {
	srv     *Server
	account *account
	name    string
	seq     uint64
	due     transitions
	tokens  map[tokenKey]tokenResult

	vpcs            table[*vpc]
	subnets         table[*subnet]
	gateways        table[*internetGateway]
	egressGateways  table[*egressGateway]
	nats            table[*natGateway]
	addresses       table[*address]
	routeTables     table[*routeTable]
	acls            table[*networkACL]
	groups          table[*securityGroup]
	interfaces      table[*networkInterface]
	instances       table[*instance]
	volumes         table[*volume]
	images          table[*image]
	keys            map[string]*keyPair
	placementGroups map[string]*placementGroup
	dhcpOptions     string

	classic      table[*classicBalancer]
	balancers    table[*balancer]
	listeners    table[*listener]
	targetGroups table[*targetGroup]
	kmsKeys      []*kmsKey
	secrets      map[string]*secret // by name
}

func newRegion(s *Server, acct *account, name string) *region {
	r := &region{
		srv: s, account: acct, name: name, tokens: map[tokenKey]tokenResult{},
		vpcs: newTable[*vpc](kindVPC), subnets: newTable[*subnet](kindSubnet),
		gateways: newTable[*internetGateway](kindGateway), egressGateways: newTable[*egressGateway](kindEgressGateway),
		nats: newTable[*natGateway](kindNAT), addresses: newTable[*address](kindAddress),
		routeTables: newTable[*routeTable](kindRouteTable), acls: newTable[*networkACL](kindACL),
		groups: newTable[*securityGroup](kindGroup), interfaces: newTable[*networkInterface](kindInterface),
		instances: newTable[*instance](kindInstance), volumes: newTable[*volume](kindVolume),
		images: newTable[*image](kindImage), balancers: newTable[*balancer](kindBalancer),
		listeners: newTable[*listener](kindListener), targetGroups: newTable[*targetGroup](kindTargetGroup),
		keys: map[string]*keyPair{}, placementGroups: map[string]*placementGroup{},
		classic: newTable[*classicBalancer](kindClassic), secrets: map[string]*secret{},
	}
	r.dhcpOptions = r.newID("dopt")
	r.addDefaultKeys()
	return r
}

// partition is that of the region's ARNs.
func (r *region) partition() string {
	switch {
	case len(r.name) > 3 && r.name[:3] == "cn-":
		return "aws-cn"
	case len(r.name) > 7 && r.name[:7] == "us-gov-":
		return "aws-us-gov"
	}
	return "aws"
}

// zones are the availability zones' names.
func (r *region) zones() []string { return []string{r.name + "a", r.name + "b", r.name + "c"} }

func (r *region) zoneID(zone string) string {
	return fmt.Sprintf("%s-az%d", r.name[:2]+r.name[3:4]+r.name[len(r.name)-1:], zone[len(zone)-1]-'a'+1)
}

// newID makes an id in the long format. Ids look random, as EC2's do, so that
// no reader can rely on their order, and repeat from run to run.
func (r *region) newID(prefix string) string {
	r.srv.ids++
	return fmt.Sprintf("%s-0%016x", prefix, mix(r.srv.options.Seed<<32+r.srv.ids))
}

// mix is a bijection (the finalizer of splitmix64), so ids never collide.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hash64(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text)) // a hash cannot refuse
	return h.Sum64()
}

// meta is what every taggable resource has.
type meta struct {
	id        string
	seq       uint64
	created   time.Time
	hideReads int
	visibleAt time.Time
	TagSet    tagSet
}

func (m *meta) base() *meta { return m }

type resource interface{ base() *meta }

// newMeta numbers a new resource and starts its time of invisibility.
func (r *region) newMeta(now time.Time, id string, tags []Tag) meta {
	r.seq++
	m := meta{id: id, seq: r.seq, created: now, hideReads: r.srv.options.Consistency.HideReads}
	m.visibleAt = now.Add(r.srv.options.Consistency.HideFor)
	m.TagSet.set(tags, now, r.srv.options.Consistency.TagsFor)
	return m
}

// hides tells that this read still misses the resource, and counts the read.
func (c *call) hides(m *meta) bool {
	if c.action == nil || !c.action.read {
		return false
	}
	if c.now.Before(m.visibleAt) {
		return true
	}
	if m.hideReads > 0 {
		m.hideReads--
		return true
	}
	return false
}

// arn names a resource of the region.
func (r *region) arn(service, rest string) string {
	return "arn:" + r.partition() + ":" + service + ":" + r.name + ":" + r.account.id + ":" + rest
}

// uuid formats two numbers as a version 4 UUID.
func uuid(a, b uint64) string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffffffffffff)
}
