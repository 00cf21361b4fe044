package ec2sim

import (
	"slices"
	"strconv"
	"strings"
)

var classicListenerActions = []*action{
	write("CreateLoadBalancerListeners", (*call).createClassicListeners),
	write("DeleteLoadBalancerListeners", (*call).deleteClassicListeners),
	write("ConfigureHealthCheck", (*call).configureHealthCheck),
	write("RegisterInstancesWithLoadBalancer", (*call).registerInstances),
	write("DeregisterInstancesFromLoadBalancer", (*call).deregisterInstances),
	read("DescribeInstanceHealth", (*call).describeInstanceHealth),
}

type classicListenersIn struct {
	LoadBalancerName  string
	Listeners         []classicListener
	LoadBalancerPorts []int
}

func (c *call) createClassicListeners(in *classicListenersIn) (empty, *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err == nil {
		err = b.addListeners(in.Listeners)
	}
	return empty{}, err
}

func (c *call) deleteClassicListeners(in *classicListenersIn) (empty, *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err == nil {
		b.ListenerDescriptions = slices.DeleteFunc(b.ListenerDescriptions, func(d listenerDescription) bool {
			return slices.Contains(in.LoadBalancerPorts, d.Listener.LoadBalancerPort)
		})
	}
	return empty{}, err
}

type healthCheckIn struct {
	LoadBalancerName string
	HealthCheck      classicHealthCheck
}

type healthCheckOut struct{ HealthCheck classicHealthCheck }

func (c *call) configureHealthCheck(in *healthCheckIn) (out healthCheckOut, err *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err != nil {
		return out, err
	}
	h := in.HealthCheck
	protocol, rest, _ := strings.Cut(h.Target, ":")
	port, _, _ := strings.Cut(rest, "/")
	n, notNumber := strconv.Atoi(port)
	switch {
	case !slices.Contains([]string{"TCP", "SSL", "HTTP", "HTTPS"}, strings.ToUpper(protocol)), notNumber != nil, n < 1, n > 65535:
		return out, failf("ValidationError", "HealthCheck Target %q is not PROTOCOL:PORT[/PATH]", h.Target)
	case h.Timeout >= h.Interval:
		return out, failf("ValidationError", "HealthCheck timeout must be less than interval")
	case h.Interval < 5 || h.Interval > 300 || h.HealthyThreshold < 2 || h.HealthyThreshold > 10 || h.UnhealthyThreshold < 2 || h.UnhealthyThreshold > 10:
		return out, failf("ValidationError", "HealthCheck interval or threshold is out of range")
	}
	b.HealthCheck = h
	return healthCheckOut{h}, nil
}

type classicInstancesIn struct {
	LoadBalancerName string
	Instances        []classicInstance
}

type classicInstancesOut struct{ Instances []classicInstance }

func (c *call) registerInstances(in *classicInstancesIn) (out classicInstancesOut, err *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err != nil {
		return out, err
	}
	for _, wanted := range in.Instances {
		i, known := c.instances.byID[wanted.InstanceID]
		if !known || i.state == "terminated" {
			return out, failf("InvalidInstance", "Could not find EC2 instance %s.", wanted.InstanceID)
		}
		if i.vpcID != b.VPCID {
			return out, failf("InvalidInstance", "EC2 instance %s is not in the same VPC as ELB.", i.id)
		}
	}
	for _, wanted := range in.Instances {
		if !slices.Contains(b.Instances, wanted) {
			b.Instances = append(b.Instances, wanted)
		}
	}
	return classicInstancesOut{b.Instances}, nil
}

func (c *call) deregisterInstances(in *classicInstancesIn) (out classicInstancesOut, err *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err != nil {
		return out, err
	}
	for _, wanted := range in.Instances {
		if !slices.Contains(b.Instances, wanted) {
			return out, failf("InvalidInstance", "Could not find EC2 instance %s.", wanted.InstanceID)
		}
	}
	b.Instances = slices.DeleteFunc(b.Instances, func(i classicInstance) bool { return slices.Contains(in.Instances, i) })
	return classicInstancesOut{b.Instances}, nil
}

type instanceHealthOut struct{ InstanceStates []instanceHealth }

type instanceHealth struct {
	InstanceID  string `wire:"InstanceId"`
	State       string
	ReasonCode  string
	Description string
}

func (c *call) describeInstanceHealth(in *classicInstancesIn) (out instanceHealthOut, err *apiError) {
	b, err := c.classicNamed(in.LoadBalancerName)
	if err != nil {
		return out, err
	}
	wanted := in.Instances
	if len(wanted) == 0 {
		wanted = b.Instances
	}
	for _, w := range wanted {
		if !slices.Contains(b.Instances, w) {
			return out, failf("InvalidInstance", "Could not find EC2 instance %s.", w.InstanceID)
		}
		health := instanceHealth{w.InstanceID, "OutOfService", "Instance", "Instance is in stopped state."}
		if i, known := c.instances.byID[w.InstanceID]; known && i.state == "running" {
			health = instanceHealth{w.InstanceID, "InService", "N/A", "N/A"}
		}
		out.InstanceStates = append(out.InstanceStates, health)
	}
	return out, nil
}

type classicTagsIn struct {
	LoadBalancerNames []string
	Tags              []struct {
		Key   string
		Value string
	}
}

type classicTagsOut struct{ TagDescriptions []classicTags }

type classicTags struct {
	LoadBalancerName string
	Tags             []Tag
}

func (c *call) classicMetas(names []string) ([]*meta, *apiError) {
	if err := checkTagged(names); err != nil {
		return nil, err
	}
	var found []*meta
	for _, name := range names {
		b, err := c.classicNamed(name)
		if err != nil {
			return nil, err
		}
		found = append(found, &b.meta)
	}
	return found, nil
}

func (c *call) describeClassicTags(in *classicTagsIn) (out classicTagsOut, err *apiError) {
	found, err := c.classicMetas(in.LoadBalancerNames)
	for _, m := range found {
		out.TagDescriptions = append(out.TagDescriptions, classicTags{m.id, elbTags(m, c)})
	}
	return out, err
}

func (c *call) addClassicTags(in *classicTagsIn) (empty, *apiError) {
	found, err := c.classicMetas(in.LoadBalancerNames)
	if err != nil {
		return empty{}, err
	}
	var tags []Tag
	for _, t := range in.Tags {
		tags = append(tags, Tag(t))
	}
	return empty{}, c.retagAll(found, tags, nil)
}

func (c *call) removeClassicTags(in *classicTagsIn) (empty, *apiError) {
	found, err := c.classicMetas(in.LoadBalancerNames)
	if err != nil {
		return empty{}, err
	}
	var keys []string
	for _, t := range in.Tags {
		keys = append(keys, t.Key)
	}
	return empty{}, c.retagAll(found, nil, keys)
}
