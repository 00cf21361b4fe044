package ec2sim

import (
	"slices"
	"strconv"
	"time"
)

type targetsIn struct {
	TargetGroupARN string
	Targets        []targetDescription
	Include        []string
}

type targetDescription struct {
	ID               string `wire:"Id"`
	Port             int    `wire:"Port,omitempty"`
	AvailabilityZone string
}

func (g *targetGroup) find(d targetDescription) *target {
	for _, t := range g.targets {
		if t.ID == d.ID && (d.Port == 0 && t.Port == g.Port || t.Port == d.Port) {
			return t
		}
	}
	return nil
}

func (c *call) registerTargets(in *targetsIn) (empty, *apiError) {
	g, err := c.targetGroup(in.TargetGroupARN)
	if err != nil {
		return empty{}, err
	}
	for _, wanted := range in.Targets {
		if g.TargetType != "instance" {
			continue
		}
		i, known := c.instances.byID[wanted.ID]
		if !known || i.vpcID != g.VPCID || i.state != "running" {
			return empty{}, failf("InvalidTarget", "The following targets are not in a running state or in the target group's VPC: '%s'", wanted.ID)
		}
	}
	for _, wanted := range in.Targets {
		port := wanted.Port
		if port == 0 {
			port = g.Port
		}
		if t := g.find(wanted); t != nil {
			t.draining = false
			continue
		}
		g.targets = append(g.targets, &target{ID: wanted.ID, Port: port, registered: c.now})
	}
	return empty{}, nil
}

// deregisterTargets leaves a target draining for a while. One that is not
// registered is no error (its reference).
func (c *call) deregisterTargets(in *targetsIn) (empty, *apiError) {
	g, err := c.targetGroup(in.TargetGroupARN)
	if err != nil {
		return empty{}, err
	}
	for _, wanted := range in.Targets {
		t := g.find(wanted)
		if t == nil || t.draining {
			continue
		}
		t.draining = true
		c.later(c.now, c.srv.delays.TargetHealth, func(time.Time) {
			if t.draining {
				g.targets = slices.DeleteFunc(g.targets, func(other *target) bool { return other == t })
			}
		})
	}
	return empty{}, nil
}

type targetHealthOut struct{ TargetHealthDescriptions []targetHealthDescription }

type targetHealthDescription struct {
	Target          targetDescription
	HealthCheckPort string
	TargetHealth    targetHealth
}

type targetHealth struct{ State, Reason, Description string }

func (c *call) describeTargetHealth(in *targetsIn) (out targetHealthOut, err *apiError) {
	g, err := c.targetGroup(in.TargetGroupARN)
	if err != nil {
		return out, err
	}
	used := len(c.shownGroup(g).LoadBalancerARNs) > 0
	add := func(t *target) {
		port := g.HealthCheckPort
		if port == "traffic-port" {
			port = strconv.Itoa(t.Port)
		}
		out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, targetHealthDescription{
			targetDescription{ID: t.ID, Port: t.Port}, port, c.health(g, t, used),
		})
	}
	if len(in.Targets) == 0 {
		for _, t := range g.targets {
			add(t)
		}
		return out, nil
	}
	for _, wanted := range in.Targets {
		if t := g.find(wanted); t != nil {
			add(t)
			continue
		}
		out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, targetHealthDescription{
			wanted, g.HealthCheckPort, targetHealth{"unused", "Target.NotRegistered", "Target is not registered to the target group"},
		})
	}
	return out, nil
}

// health is of TargetHealth, v2 API reference.
func (c *call) health(g *targetGroup, t *target, used bool) targetHealth {
	i, isInstance := c.instances.byID[t.ID]
	switch {
	case t.draining:
		return targetHealth{"draining", "Target.DeregistrationInProgress", "Target deregistration is in progress"}
	case !used:
		return targetHealth{"unused", "Target.NotInUse", "Target group is not configured to receive traffic from the load balancer"}
	case g.TargetType == "instance" && (!isInstance || i.state != "running"):
		return targetHealth{"unused", "Target.InvalidState", "Target is in the stopped or terminated state"}
	case c.now.Before(t.registered.Add(c.srv.delays.TargetHealth)):
		return targetHealth{"initial", "Elb.RegistrationInProgress", "Target registration is in progress"}
	}
	return targetHealth{State: "healthy"}
}
