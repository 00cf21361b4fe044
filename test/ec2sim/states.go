package ec2sim

import (
	"maps"
	"slices"
)

// InstanceStates gives the state of every instance that is still described, by
// id: what runs on an instance knows it without a request, and so the look
// leaves no trace in the call log and no fault strikes it.
func (s *Server) InstanceStates(scope Scope) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.region(scope)
	if err != nil {
		return nil, err
	}
	r.settle(s.clock.Now())
	states := make(map[string]string, len(r.instances.byID))
	for id, i := range r.instances.byID {
		states[id] = i.state
	}
	return states, nil
}

// Resources gives the ids of all that is there in a region, in order: what shows
// for a while although it is gone is not among them. Images and key pairs, which
// no cluster makes, are not either.
func (s *Server) Resources(scope Scope) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.region(scope)
	if err != nil {
		return nil, err
	}
	r.settle(s.clock.Now())
	var out []string
	add := func(names ...string) { out = append(out, names...) }
	add(keys(r.vpcs)...)
	add(keys(r.subnets)...)
	add(keys(r.gateways)...)
	add(keys(r.egressGateways)...)
	add(keys(r.addresses)...)
	add(keys(r.routeTables)...)
	add(keys(r.acls)...)
	add(keys(r.groups)...)
	add(keys(r.interfaces)...)
	add(keys(r.volumes)...)
	add(keys(r.classic)...)
	add(keys(r.balancers)...)
	add(keys(r.listeners)...)
	add(keys(r.targetGroups)...)
	add(slices.Collect(maps.Keys(r.secrets))...)
	for id, n := range r.nats.byID {
		if n.State != "deleted" {
			add(id)
		}
	}
	for id, i := range r.instances.byID {
		if i.state != "terminated" {
			add(id)
		}
	}
	slices.Sort(out)
	return out, nil
}

func keys[T resource](t table[T]) []string { return slices.Collect(maps.Keys(t.byID)) }

// balancerHost is the name of a load balancer in DNS.
func (r *region) balancerHost(name, otherwise string) string {
	if f := r.srv.options.BalancerHost; f != nil {
		return f(name)
	}
	return otherwise
}
