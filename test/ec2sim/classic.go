package ec2sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// classicBalancer is a Classic Load Balancer; its name is its id.
type classicBalancer struct {
	meta                      `wire:"-"`
	LoadBalancerName          string
	DNSName                   string `wire:"DNSName"`
	CanonicalHostedZoneNameID string `wire:"CanonicalHostedZoneNameID"`
	CreatedTime               time.Time
	Scheme                    string
	VPCID                     string `wire:"VPCId"`
	Subnets                   []string
	AvailabilityZones         []string
	SecurityGroups            []string
	SourceSecurityGroup       *sourceGroup
	ListenerDescriptions      []listenerDescription
	HealthCheck               classicHealthCheck
	Instances                 []classicInstance
	Policies                  empty
	BackendServerDescriptions []empty

	attributes classicAttributes
}

type sourceGroup struct{ OwnerAlias, GroupName string }

type classicInstance struct {
	InstanceID string `wire:"InstanceId"`
}

type listenerDescription struct {
	Listener    classicListener
	PolicyNames []string
}

type classicListener struct {
	Protocol         string
	LoadBalancerPort int
	InstanceProtocol string
	InstancePort     int
	SSLCertificateID string `wire:"SSLCertificateId"`
}

type classicHealthCheck struct {
	Target             string
	Interval           int
	Timeout            int
	UnhealthyThreshold int
	HealthyThreshold   int
}

type classicAttributes struct {
	CrossZoneLoadBalancing *struct{ Enabled bool }
	AccessLog              *struct {
		Enabled      bool
		S3BucketName string
		EmitInterval int `wire:"EmitInterval,omitempty"`
	}
	ConnectionDraining *struct {
		Enabled bool
		Timeout int
	}
	ConnectionSettings   *struct{ IdleTimeout int }
	AdditionalAttributes []Tag
}

var classicActions = []*action{
	write("CreateLoadBalancer", (*call).createClassic),
	write("DeleteLoadBalancer", (*call).deleteClassic),
	read("DescribeLoadBalancers", (*call).describeClassic),
	read("DescribeLoadBalancerAttributes", (*call).describeClassicAttributes),
	write("ModifyLoadBalancerAttributes", (*call).modifyClassicAttributes),
	write("ApplySecurityGroupsToLoadBalancer", (*call).applyClassicGroups),
	write("AttachLoadBalancerToSubnets", (*call).attachClassic),
	write("DetachLoadBalancerFromSubnets", (*call).detachClassic),
	read("DescribeTags", (*call).describeClassicTags),
	write("AddTags", (*call).addClassicTags),
	write("RemoveTags", (*call).removeClassicTags),
}

var kindClassic = kind{noun: "load balancer", notFound: "LoadBalancerNotFound"}

func (c *call) classicNamed(name string) (*classicBalancer, *apiError) {
	b, known := c.classic.byID[name]
	if !known || c.hides(&b.meta) {
		return nil, failf("LoadBalancerNotFound", "There is no ACTIVE Load Balancer named '%s'", name)
	}
	return b, nil
}

type createClassicIn struct {
	LoadBalancerName string
	Listeners        []classicListener
	Subnets          []string
	SecurityGroups   []string
	Scheme           string
	Tags             []Tag
}

type dnsNameOut struct {
	DNSName string `wire:"DNSName"`
}

func (c *call) createClassic(in *createClassicIn) (out dnsNameOut, err *apiError) {
	if in.LoadBalancerName == "" || len(in.LoadBalancerName) > 32 {
		return out, failf("ValidationError", "LoadBalancer name must have 1 to 32 characters")
	}
	if _, exists := c.classic.byID[in.LoadBalancerName]; exists {
		return out, failf("DuplicateLoadBalancerName", "The Load Balancer name '%s' is in use", in.LoadBalancerName)
	}
	if len(in.Subnets) == 0 {
		return out, failf("ValidationError", "At least one subnet must be specified")
	}
	subnets, err := c.placeBalancer(in.Subnets, in.SecurityGroups)
	if err != nil {
		return out, err
	}
	if err := checkTags(in.Tags); err != nil {
		return out, failf("ValidationError", "%s", err.Message)
	}
	b := &classicBalancer{
		meta: c.newMeta(c.now, in.LoadBalancerName, in.Tags), LoadBalancerName: in.LoadBalancerName, CreatedTime: c.now,
		Scheme: in.Scheme, VPCID: subnets[0].VPCID, Subnets: in.Subnets, SecurityGroups: in.SecurityGroups,
		HealthCheck: classicHealthCheck{Interval: 30, Timeout: 5, UnhealthyThreshold: 2, HealthyThreshold: 10},
	}
	prefix := ""
	if b.Scheme == "" {
		b.Scheme = "internet-facing"
	} else {
		prefix = "internal-"
	}
	b.DNSName = c.balancerHost(b.LoadBalancerName,
		fmt.Sprintf("%s%s-%d.%s.elb.amazonaws.com", prefix, b.LoadBalancerName, hash64(b.id+c.account.id)>>34, c.name))
	b.setZones(subnets)
	b.attributes.CrossZoneLoadBalancing = &struct{ Enabled bool }{}
	b.attributes.ConnectionSettings = &struct{ IdleTimeout int }{60}
	b.attributes.ConnectionDraining = &struct {
		Enabled bool
		Timeout int
	}{false, 300}
	if err := b.addListeners(in.Listeners); err != nil {
		return out, err
	}
	if len(in.Listeners) > 0 {
		b.HealthCheck.Target = fmt.Sprintf("TCP:%d", in.Listeners[0].InstancePort)
	}
	c.classic.add(b)
	return dnsNameOut{b.DNSName}, nil
}

func (b *classicBalancer) setZones(subnets []*subnet) {
	b.AvailabilityZones = nil
	for _, s := range subnets {
		if !slices.Contains(b.AvailabilityZones, s.AvailabilityZone) {
			b.AvailabilityZones = append(b.AvailabilityZones, s.AvailabilityZone)
		}
	}
}

// addListeners adds all or none; an equal one is not added again.
func (b *classicBalancer) addListeners(added []classicListener) *apiError {
	next := slices.Clone(b.ListenerDescriptions)
	for _, l := range added {
		l.Protocol = strings.ToUpper(l.Protocol)
		if l.InstanceProtocol = strings.ToUpper(l.InstanceProtocol); l.InstanceProtocol == "" {
			l.InstanceProtocol = l.Protocol
		}
		if !slices.Contains([]string{"TCP", "SSL", "HTTP", "HTTPS"}, l.Protocol) || l.InstancePort < 1 || l.InstancePort > 65535 {
			return failf("ValidationError", "The listener %s:%d to port %d is not valid", l.Protocol, l.LoadBalancerPort, l.InstancePort)
		}
		at := slices.IndexFunc(next, func(d listenerDescription) bool { return d.Listener.LoadBalancerPort == l.LoadBalancerPort })
		if at >= 0 && next[at].Listener == l {
			continue
		}
		if at >= 0 {
			return failf("DuplicateListener", "A listener already exists for %s with LoadBalancerPort %d, but with a different configuration", b.id, l.LoadBalancerPort)
		}
		next = append(next, listenerDescription{Listener: l})
	}
	b.ListenerDescriptions = next
	return nil
}

type classicIn struct {
	LoadBalancerName string
	Subnets          []string
	SecurityGroups   []string
}

// deleteClassic succeeds for one that does not exist (its reference).
func (c *call) deleteClassic(in *classicIn) (empty, *apiError) {
	c.classic.remove(in.LoadBalancerName)
	return empty{}, nil
}

type describeClassicIn struct {
	marker
	LoadBalancerNames []string
}

type describeClassicOut struct {
	LoadBalancerDescriptions []*classicBalancer
	NextMarker               string
}

func (c *call) describeClassic(in *describeClassicIn) (out describeClassicOut, err *apiError) {
	for _, name := range in.LoadBalancerNames {
		b, err := c.classicNamed(name)
		if err != nil {
			return out, err
		}
		out.LoadBalancerDescriptions = append(out.LoadBalancerDescriptions, b)
	}
	if len(in.LoadBalancerNames) > 0 {
		return out, nil
	}
	out.LoadBalancerDescriptions, out.NextMarker, err = listMarked(c, &c.classic, func(*classicBalancer) bool { return true }, in.marker)
	return out, err
}

type classicAttributesOut struct{ LoadBalancerAttributes *classicAttributes }

func (c *call) describeClassicAttributes(in *classicIn) (out classicAttributesOut, err *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err != nil {
		return out, err
	}
	return classicAttributesOut{&b.attributes}, nil
}

type modifyClassicAttributesIn struct {
	LoadBalancerName       string
	LoadBalancerAttributes classicAttributes
}

type modifyClassicAttributesOut struct {
	LoadBalancerName       string
	LoadBalancerAttributes *classicAttributes
}

func (c *call) modifyClassicAttributes(in *modifyClassicAttributesIn) (out modifyClassicAttributesOut, err *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err != nil {
		return out, err
	}
	given := in.LoadBalancerAttributes
	if s := given.ConnectionSettings; s != nil {
		if s.IdleTimeout < 1 || s.IdleTimeout > 4000 {
			return out, failf("InvalidConfigurationRequest", "The idle timeout %d is not valid; expecting 1 to 4000", s.IdleTimeout)
		}
		b.attributes.ConnectionSettings = s
	}
	if given.CrossZoneLoadBalancing != nil {
		b.attributes.CrossZoneLoadBalancing = given.CrossZoneLoadBalancing
	}
	if given.AccessLog != nil {
		b.attributes.AccessLog = given.AccessLog
	}
	if given.ConnectionDraining != nil {
		b.attributes.ConnectionDraining = given.ConnectionDraining
	}
	return modifyClassicAttributesOut{b.id, &b.attributes}, nil
}

type classicGroupsOut struct{ SecurityGroups []string }

func (c *call) applyClassicGroups(in *classicIn) (out classicGroupsOut, err *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err != nil {
		return out, err
	}
	if _, err := c.placeBalancer(b.Subnets, in.SecurityGroups); err != nil {
		return out, err
	}
	b.SecurityGroups = in.SecurityGroups
	return classicGroupsOut{b.SecurityGroups}, nil
}

type classicSubnetsOut struct{ Subnets []string }

func (c *call) attachClassic(in *classicIn) (classicSubnetsOut, *apiError) {
	return c.moveClassic(in, func(now []string) []string { return append(now, in.Subnets...) })
}

func (c *call) detachClassic(in *classicIn) (classicSubnetsOut, *apiError) {
	return c.moveClassic(in, func(now []string) []string {
		return slices.DeleteFunc(now, func(id string) bool { return slices.Contains(in.Subnets, id) })
	})
}

func (c *call) moveClassic(in *classicIn, change func([]string) []string) (out classicSubnetsOut, err *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err != nil {
		return out, err
	}
	next := change(slices.Clone(b.Subnets))
	slices.Sort(next)
	next = slices.Compact(next)
	subnets, err := c.placeBalancer(next, nil)
	if err != nil {
		return out, err
	}
	if len(next) == 0 {
		return out, failf("InvalidConfigurationRequest", "A load balancer must be attached to at least one subnet")
	}
	b.Subnets = next
	b.setZones(subnets)
	return classicSubnetsOut{b.Subnets}, nil
}
