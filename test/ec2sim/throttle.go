package ec2sim

import (
	"strings"
	"time"
)

// rate is a token bucket's size and its refill per second.
type rate struct{ burst, refill float64 }

// bucketKey: buckets are per account, Region and API action ("each API is
// evaluated individually"; Request throttling for the Amazon EC2 API). Those
// of ELB are per category and API version, named in place of the action.
type bucketKey struct{ account, region, service, name string }

type bucket struct {
	tokens float64
	filled time.Time
}

// actionRates are the request buckets of actions that have their own, from
// the tables of the same page.
var actionRates = map[string]rate{
	"AuthorizeSecurityGroupIngress": {50, 5}, "RevokeSecurityGroupIngress": {50, 5},
	"RunInstances": {5, 2}, "StartInstances": {5, 2}, "StopInstances": {50, 5}, "TerminateInstances": {100, 5},
	"CreateTags": {100, 10}, "DeleteTags": {100, 10},
}

// resourceRates are the resource buckets: one token for each instance.
var resourceRates = map[string]rate{
	"RunInstances": {1000, 2}, "StartInstances": {1000, 2},
	"StopInstances": {1000, 20}, "TerminateInstances": {1000, 20},
}

// unpaged are reads that have a smaller bucket without filters and pages.
var unpaged = map[string]bool{
	"DescribeInstances": true, "DescribeInstanceStatus": true, "DescribeNetworkInterfaces": true,
	"DescribeSecurityGroups": true, "DescribeSnapshots": true, "DescribeSpotInstanceRequests": true,
	"DescribeVolumes": true,
}

// balancerRates are of "Request throttling for the Elastic Load Balancing
// API" (user guide); registrations have a bucket of their own.
var balancerRates = map[string]rate{"read": {40, 10}, "write": {20, 3}, "registration": {20, 4}}

// Bucket names the request bucket that an action of EC2 or Elastic Load Balancing,
// "SERVICE:ACTION", takes its tokens from, for a caller who pages and filters; two
// actions may share one. Empty is an action without.
func Bucket(action string) string {
	service, name, _ := strings.Cut(action, ":")
	switch service {
	case serviceEC2:
		return action
	case serviceELB, serviceELBv2:
		read := strings.HasPrefix(name, "Describe")
		return service + ":" + balancerCategory(name, read)
	default:
		return ""
	}
}

// Rate is the size of a request bucket and its refill per second; zero where
// there is none of the name.
func Rate(bucket string) (burst, refill float64) {
	service, name, _ := strings.Cut(bucket, ":")
	r := balancerRates[name]
	if service == serviceEC2 {
		r = usualRate(name, !strings.HasPrefix(name, "Describe"))
	}
	return r.burst, r.refill
}

func balancerCategory(action string, read bool) string {
	switch action {
	case "RegisterTargets", "DeregisterTargets", "RegisterInstancesWithLoadBalancer", "DeregisterInstancesFromLoadBalancer":
		return "registration"
	}
	if read {
		return "read"
	}
	return "write"
}

func usualRate(action string, mutating bool) rate {
	if own, has := actionRates[action]; has {
		return own
	}
	if mutating {
		return rate{50, 5}
	}
	return rate{100, 20}
}

func (s *Server) throttle(c *call) *apiError {
	if !s.options.Throttle || c.action == nil || c.credential.Unthrottled {
		return nil
	}
	switch c.service {
	case serviceEC2:
		name, limit := c.action.name, c.requestRate()
		if limit == (rate{50, 10}) {
			name += " unfiltered"
		}
		if !s.take(c, name, limit, 1) {
			return failf("RequestLimitExceeded", "Request limit exceeded.")
		}
		if limit, has := resourceRates[c.action.name]; has && !s.take(c, c.action.name+" resources", limit, c.instanceCount()) {
			return failf("RequestLimitExceeded", "Request limit exceeded.")
		}
	case serviceELB, serviceELBv2:
		category := balancerCategory(c.action.name, c.action.read)
		if !s.take(c, category, balancerRates[category], 1) {
			return failf("Throttling", "Rate exceeded")
		}
	}
	return nil
}

func (c *call) requestRate() rate {
	if unpaged[c.action.name] && c.form.Get("MaxResults") == "" && c.form.Get("Filter.1.Name") == "" && !c.namesIDs() {
		return rate{50, 10}
	}
	return usualRate(c.action.name, !c.action.read)
}

func (c *call) namesIDs() bool {
	for _, name := range []string{"InstanceId.1", "NetworkInterfaceId.1", "GroupId.1", "GroupName.1", "VolumeId.1"} {
		if c.form.Get(name) != "" {
			return true
		}
	}
	return false
}

// instanceCount is how many resource tokens a call takes: what it asks for.
func (c *call) instanceCount() float64 {
	if c.action.name == "RunInstances" {
		var n float64
		for _, digit := range c.form.Get("MaxCount") {
			n = n*10 + float64(digit-'0')
		}
		return n
	}
	n := 0
	for name := range c.form {
		if len(name) > 11 && name[:11] == "InstanceId." {
			n++
		}
	}
	return float64(n)
}

func (s *Server) take(c *call, name string, limit rate, tokens float64) bool {
	key := bucketKey{c.credential.Account, c.name, c.service, name}
	b := s.buckets[key]
	if b == nil {
		b = &bucket{tokens: limit.burst, filled: c.now}
		s.buckets[key] = b
	}
	if gone := c.now.Sub(b.filled); gone > 0 {
		b.tokens = min(limit.burst, b.tokens+gone.Seconds()*limit.refill)
		b.filled = c.now
	}
	if b.tokens < tokens {
		return false
	}
	b.tokens -= tokens
	return true
}
