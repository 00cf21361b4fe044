package ec2sim

import (
	"slices"
	"time"
)

// Call is one request in the server's log.
type Call struct {
	Time            time.Time
	Service, Action string
	Account, Region string
	AccessKeyID     string
	// Digest is of all parameters; they themselves are not kept.
	Digest string
	// Page is the page of a paged action, from 1.
	Page int
	// Mutating tells that the action can change something. It is true of
	// every action that is not known to be a read, of refused calls and of
	// dry runs too: a caller that claims to write nothing makes none.
	Mutating bool
	DryRun   bool
	// Status and Code are the answer's HTTP status and error code.
	Status int
	Code   string
	// Fate is "answered", "dropped" or "hung".
	Fate string
}

func (f fate) String() string { return [...]string{"answered", "dropped", "hung"}[f] }

// Calls is the log of all requests so far, in order.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Mutations are the calls of the log that are Mutating.
func (s *Server) Mutations() []Call {
	return slices.DeleteFunc(s.Calls(), func(c Call) bool { return !c.Mutating })
}

// CallCounts counts the log by "service:Action".
func (s *Server) CallCounts() map[string]int {
	counts := map[string]int{}
	for _, c := range s.Calls() {
		counts[c.Service+":"+c.Action]++
	}
	return counts
}

// ResetCalls empties the log.
func (s *Server) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}
