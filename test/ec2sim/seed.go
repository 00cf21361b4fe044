package ec2sim

import (
	"errors"
	"fmt"
	"time"
)

// InstanceSpec is many equal instances to seed.
type InstanceSpec struct {
	Count int
	// ImageID and SubnetIDs must exist; instances go round the subnets.
	ImageID          string
	SubnetIDs        []string
	SecurityGroupIDs []string
	InstanceType     string
	Profile, KeyName string
	HTTPTokens       string
	// RootSize in GiB and RootType override the image's.
	RootSize int
	RootType string
	// Launched is when they were launched; zero is an hour ago.
	Launched time.Time
	// Tags, if set, gives the tags of the nth instance; VolumeTags those of
	// its volumes.
	Tags, VolumeTags func(n int) []Tag
}

// SeedInstances makes running instances without requests and without a trace
// in the call log or an event, and gives their ids in order.
func (s *Server) SeedInstances(scope Scope, spec InstanceSpec) ([]string, error) {
	if spec.Count < 1 || len(spec.SubnetIDs) == 0 {
		return nil, errors.New("seed instances: a count and at least one subnet are needed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.region(scope)
	if err != nil {
		return nil, fmt.Errorf("seed instances: %w", err)
	}
	now := s.clock.Now()
	r.settle(now)
	told := len(s.events)
	defer func() { s.events = s.events[:told] }()
	launched := spec.Launched
	if launched.IsZero() {
		launched = now.Add(-time.Hour)
	}
	c := &call{region: r, now: launched, service: serviceEC2, action: &action{name: "RunInstances"}}
	requests := make([]*runIn, len(spec.SubnetIDs))
	plans := make([]*launchPlan, len(spec.SubnetIDs))
	for n, subnetID := range spec.SubnetIDs {
		requests[n] = spec.request(subnetID)
		plan, err := c.planLaunch(requests[n])
		if err != nil {
			return nil, fmt.Errorf("seed instances: %w", err)
		}
		if err := plan.overrideRoot(spec); err != nil {
			return nil, fmt.Errorf("seed instances: root volume: %w", err)
		}
		plans[n] = plan
	}
	made := make([]string, 0, spec.Count)
	for n := range spec.Count {
		plan := plans[n%len(plans)]
		if spec.Tags != nil {
			plan.tags["instance"] = spec.Tags(n)
		}
		if spec.VolumeTags != nil {
			plan.tags["volume"] = spec.VolumeTags(n)
		}
		i, err := c.launch(requests[n%len(plans)], plan, &reservation{r.newID("r")}, 0)
		if err != nil {
			return made, fmt.Errorf("seed instance %d of %d: %w", n+1, spec.Count, err)
		}
		made = append(made, i.id)
	}
	r.settle(now)
	return made, nil
}

func (spec InstanceSpec) request(subnetID string) *runIn {
	in := &runIn{
		ImageID: spec.ImageID, MinCount: 1, MaxCount: 1, InstanceType: spec.InstanceType, KeyName: spec.KeyName,
		SubnetID: subnetID, SecurityGroupID: spec.SecurityGroupIDs,
	}
	in.IAMInstanceProfile.Name = spec.Profile
	in.MetadataOptions.HTTPTokens = spec.HTTPTokens
	return in
}

func (p *launchPlan) overrideRoot(spec InstanceSpec) *apiError {
	for _, d := range p.devices {
		if d.device != p.image.RootDeviceName {
			continue
		}
		if spec.RootSize > 0 {
			d.size = spec.RootSize
		}
		if spec.RootType != "" {
			d.kind = spec.RootType
		}
		d.iops, d.throughput = nil, nil
		return d.complete()
	}
	return nil
}
