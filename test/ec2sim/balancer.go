package ec2sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// balancer is a load balancer of the v2 API: application or network.
type balancer struct {
	meta                  `wire:"-"`
	LoadBalancerARN       string
	DNSName               string `wire:"DNSName"`
	CanonicalHostedZoneID string
	CreatedTime           time.Time
	LoadBalancerName      string
	Scheme                string
	VPCID                 string
	State                 balancerState
	Type                  string
	AvailabilityZones     []balancerZone
	SecurityGroups        []string
	IPAddressType         string

	attributes attributes
	digest     string
}

type balancerState struct{ Code, Reason string }

type balancerZone struct {
	ZoneName string
	SubnetID string
}

// attributes are kept in the order in which they are shown.
type attributes []Tag

func (a attributes) get(key string) string {
	for _, attribute := range a {
		if attribute.Key == key {
			return attribute.Value
		}
	}
	return ""
}

// modify sets known attributes, all or none.
func (a *attributes) modify(wanted []Tag) *apiError {
	next := slices.Clone(*a)
	for _, w := range wanted {
		at := slices.IndexFunc(next, func(old Tag) bool { return old.Key == w.Key })
		if at < 0 {
			return failf("ValidationError", "Attribute key '%s' is not recognized", w.Key)
		}
		next[at].Value = w.Value
	}
	*a = next
	return nil
}

func defaultBalancerAttributes(kind string) attributes {
	shared := attributes{{"deletion_protection.enabled", "false"}, {"access_logs.s3.enabled", "false"}, {"access_logs.s3.bucket", ""}, {"access_logs.s3.prefix", ""}}
	if kind == "network" {
		return append(shared, Tag{"load_balancing.cross_zone.enabled", "false"}, Tag{"dns_record.client_routing_policy", "any_availability_zone"})
	}
	return append(shared, Tag{"load_balancing.cross_zone.enabled", "true"}, Tag{"idle_timeout.timeout_seconds", "60"},
		Tag{"routing.http2.enabled", "true"}, Tag{"routing.http.drop_invalid_header_fields.enabled", "false"},
		Tag{"routing.http.desync_mitigation_mode", "defensive"}, Tag{"client_keep_alive.seconds", "3600"})
}

var balancerActions = []*action{
	write("CreateLoadBalancer", (*call).createBalancer),
	write("DeleteLoadBalancer", (*call).deleteBalancer),
	read("DescribeLoadBalancers", (*call).describeBalancers),
	read("DescribeLoadBalancerAttributes", (*call).describeBalancerAttributes),
	write("ModifyLoadBalancerAttributes", (*call).modifyBalancerAttributes),
	write("SetSecurityGroups", (*call).setBalancerGroups),
	write("SetSubnets", (*call).setBalancerSubnets),
}

type createBalancerIn struct {
	Name           string
	Subnets        []string
	SubnetMappings []struct {
		SubnetID           string
		AllocationID       string
		PrivateIPv4Address string
	}
	SecurityGroups []string
	Scheme         string
	Type           string
	IPAddressType  string
	Tags           []Tag
}

type balancersOut struct {
	LoadBalancers []*balancer
	NextMarker    string
}

// createBalancer is idempotent: equal settings give the same load balancer
// (CreateLoadBalancer, v2 reference).
func (c *call) createBalancer(in *createBalancerIn) (out balancersOut, err *apiError) {
	if in.Name == "" || len(in.Name) > 32 || strings.HasPrefix(in.Name, "internal-") || strings.Trim(in.Name, "-") != in.Name {
		return out, failf("ValidationError", "The load balancer name '%s' is not valid", in.Name)
	}
	if in.Type == "" {
		in.Type = "application"
	}
	if b, exists := c.balancers.first(func(b *balancer) bool { return b.LoadBalancerName == in.Name }); exists {
		if b.digest != c.digest {
			return out, failf("DuplicateLoadBalancerName", "A load balancer with the same name '%s' exists, but with different settings", in.Name)
		}
		return balancersOut{LoadBalancers: []*balancer{b}}, nil
	}
	subnetIDs := in.Subnets
	for _, mapping := range in.SubnetMappings {
		subnetIDs = append(subnetIDs, mapping.SubnetID)
	}
	if len(subnetIDs) == 0 || in.Type == "application" && len(subnetIDs) < 2 {
		return out, failf("ValidationError", "At least two subnets in two different Availability Zones must be specified")
	}
	subnets, err := c.placeBalancer(subnetIDs, in.SecurityGroups)
	if err != nil {
		return out, err
	}
	zones, err := zonesOf(subnets)
	if err != nil {
		return out, err
	}
	if err := checkTags(in.Tags); err != nil {
		return out, failf("ValidationError", "%s", err.Message)
	}
	short := map[string]string{"application": "app", "network": "net", "gateway": "gwy"}[in.Type]
	if short == "" {
		return out, failf("ValidationError", "The load balancer type '%s' is not valid", in.Type)
	}
	number := fmt.Sprintf("%016x", mix(hash64(in.Name)+c.nextNumber()))
	arn := c.arn("elasticloadbalancing", "loadbalancer/"+short+"/"+in.Name+"/"+number)
	b := &balancer{
		meta: c.newMeta(c.now, arn, in.Tags), LoadBalancerARN: arn, LoadBalancerName: in.Name, Type: in.Type, CreatedTime: c.now,
		Scheme: in.Scheme, VPCID: subnets[0].VPCID, AvailabilityZones: zones, SecurityGroups: in.SecurityGroups,
		IPAddressType: in.IPAddressType, CanonicalHostedZoneID: "Z1H1FL5HABSF5", State: balancerState{Code: "provisioning"},
		DNSName:    c.balancerHost(in.Name, fmt.Sprintf("%s-%s.elb.%s.amazonaws.com", in.Name, number, c.name)),
		attributes: defaultBalancerAttributes(in.Type), digest: c.digest,
	}
	if b.Scheme == "" {
		b.Scheme = "internet-facing"
	}
	if b.IPAddressType == "" {
		b.IPAddressType = "ipv4"
	}
	c.balancers.add(b)
	c.later(c.now, c.srv.delays.LoadBalancer, func(time.Time) { b.State.Code = "active" })
	return balancersOut{LoadBalancers: []*balancer{b}}, nil
}

func (c *call) nextNumber() uint64 {
	c.srv.ids++
	return c.srv.ids
}

func zonesOf(subnets []*subnet) ([]balancerZone, *apiError) {
	var zones []balancerZone
	for _, s := range subnets {
		if slices.ContainsFunc(zones, func(z balancerZone) bool { return z.ZoneName == s.AvailabilityZone }) {
			return nil, failf("InvalidConfigurationRequest", "A load balancer cannot be attached to multiple subnets in the same Availability Zone")
		}
		zones = append(zones, balancerZone{s.AvailabilityZone, s.id})
	}
	return zones, nil
}

func (c *call) balancer(arn string) (*balancer, *apiError) {
	b, known := c.balancers.byID[arn]
	if !known || c.hides(&b.meta) {
		return nil, failf("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
	}
	return b, nil
}

type balancerIn struct {
	LoadBalancerARN string
	SecurityGroups  []string
	Subnets         []string
	SubnetMappings  []struct{ SubnetID string }
	Attributes      []Tag
}

// deleteBalancer deletes the listeners too, keeps the target groups, and
// succeeds for one that does not exist (its reference).
func (c *call) deleteBalancer(in *balancerIn) (empty, *apiError) {
	b, known := c.balancers.byID[in.LoadBalancerARN]
	if !known {
		return empty{}, nil
	}
	if b.attributes.get("deletion_protection.enabled") == "true" {
		return empty{}, failf("OperationNotPermitted", "Load balancer '%s' cannot be deleted because deletion protection is enabled", b.id)
	}
	for _, l := range c.listeners.where(func(l *listener) bool { return l.LoadBalancerARN == b.id }) {
		c.listeners.remove(l.id)
	}
	c.balancers.remove(b.id)
	return empty{}, nil
}

type describeBalancersIn struct {
	marker
	LoadBalancerARNs []string `wire:"LoadBalancerArns"`
	Names            []string
}

func (c *call) describeBalancers(in *describeBalancersIn) (out balancersOut, err *apiError) {
	if len(in.LoadBalancerARNs) > 20 || len(in.Names) > 20 {
		return out, failf("ValidationError", "At most 20 load balancers can be named")
	}
	for _, arn := range in.LoadBalancerARNs {
		b, err := c.balancer(arn)
		if err != nil {
			return out, err
		}
		out.LoadBalancers = append(out.LoadBalancers, b)
	}
	for _, name := range in.Names {
		b, known := c.balancers.first(func(b *balancer) bool { return b.LoadBalancerName == name })
		if !known || c.hides(&b.meta) {
			return out, failf("LoadBalancerNotFound", "Load balancers '[%s]' not found", name)
		}
		out.LoadBalancers = append(out.LoadBalancers, b)
	}
	if len(out.LoadBalancers) > 0 {
		return out, nil
	}
	out.LoadBalancers, out.NextMarker, err = listMarked(c, &c.balancers, func(*balancer) bool { return true }, in.marker)
	return out, err
}

type attributesOut struct{ Attributes attributes }

func (c *call) describeBalancerAttributes(in *balancerIn) (out attributesOut, err *apiError) {
	b, err := c.balancer(in.LoadBalancerARN)
	if err != nil {
		return out, err
	}
	return attributesOut{b.attributes}, nil
}

func (c *call) modifyBalancerAttributes(in *balancerIn) (out attributesOut, err *apiError) {
	b, err := c.balancer(in.LoadBalancerARN)
	if err != nil {
		return out, err
	}
	err = b.attributes.modify(in.Attributes)
	return attributesOut{b.attributes}, err
}

type setGroupsOut struct {
	SecurityGroupIDs []string `wire:"SecurityGroupIds"`
}

func (c *call) setBalancerGroups(in *balancerIn) (out setGroupsOut, err *apiError) {
	b, err := c.balancer(in.LoadBalancerARN)
	if err != nil {
		return out, err
	}
	if b.Type == "network" && len(b.SecurityGroups) == 0 {
		return out, failf("InvalidConfigurationRequest", "A Network Load Balancer that was created without security groups cannot have any")
	}
	if _, err := c.placeBalancer([]string{b.AvailabilityZones[0].SubnetID}, in.SecurityGroups); err != nil {
		return out, err
	}
	b.SecurityGroups = in.SecurityGroups
	return setGroupsOut{b.SecurityGroups}, nil
}

type setSubnetsOut struct{ AvailabilityZones []balancerZone }

func (c *call) setBalancerSubnets(in *balancerIn) (out setSubnetsOut, err *apiError) {
	b, err := c.balancer(in.LoadBalancerARN)
	if err != nil {
		return out, err
	}
	for _, mapping := range in.SubnetMappings {
		in.Subnets = append(in.Subnets, mapping.SubnetID)
	}
	subnets, err := c.placeBalancer(in.Subnets, nil)
	if err != nil {
		return out, err
	}
	if len(subnets) == 0 {
		return out, failf("ValidationError", "At least one subnet must be specified")
	}
	zones, err := zonesOf(subnets)
	if err != nil {
		return out, err
	}
	b.AvailabilityZones = zones
	return setSubnetsOut{zones}, nil
}
