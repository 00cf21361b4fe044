package ec2sim

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
