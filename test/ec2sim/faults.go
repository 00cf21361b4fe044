package ec2sim

import (
	"net/http"
	"slices"
)

// FaultKind is how a call goes wrong.
type FaultKind int

// The kinds of faults. Those on pages apply to paged reads only and leave
// other calls as they are.
const (
	// FaultError answers with Code, Message and Status.
	FaultError FaultKind = iota
	// FaultDrop closes the connection without an answer.
	FaultDrop
	// FaultHang gives no answer until the caller gives up.
	FaultHang
	// FaultMalformed cuts the answer off in the middle of its text.
	FaultMalformed
	// FaultEmptyPage gives a page of nothing with a token for the rest, which
	// DescribeInstances' reference allows.
	FaultEmptyPage
	// FaultShortPage gives at most Items entries and a token for the rest.
	FaultShortPage
	// FaultRepeatToken gives the page's own token as the next one, so that a
	// trusting reader never ends.
	FaultRepeatToken
)

// Fault makes calls go wrong. Empty conditions match every call.
type Fault struct {
	// Service is ec2, elb, elbv2, sts, iam, kms or secretsmanager.
	Service string
	// Action may hold * and ?.
	Action string
	// Account and Region limit the fault to one scope.
	Account, Region string
	// Page limits it to that page of paged reads, from 1.
	Page int
	// From is the first matching call that goes wrong, from 1; Times is how
	// many do. Zero means the first, and all of them.
	From, Times int

	Kind FaultKind
	// AfterSuccess performs the call first, for FaultError, FaultDrop and
	// FaultHang: what a time-out after success looks like.
	AfterSuccess bool
	// Code, Message and Status of a FaultError; Status zero is the code's own.
	Code, Message string
	Status        int
	// Items of a FaultShortPage.
	Items int
}

type faultState struct {
	Fault
	matched int
}

// InjectFault adds a fault. Of several that match a call the first added one
// strikes. The returned function removes it.
func (s *Server) InjectFault(f Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := &faultState{Fault: f}
	s.faults = append(s.faults, state)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(other *faultState) bool { return other == state })
	}
}

// ClearFaults removes all faults.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Server) nextFault(c *call, actionName string) *Fault {
	var struck *Fault
	for _, f := range s.faults {
		if f.matches(c, actionName) {
			f.matched++
			from := max(f.From, 1)
			if struck == nil && f.matched >= from && (f.Times == 0 || f.matched < from+f.Times) {
				struck = &f.Fault
			}
		}
	}
	return struck
}

func (f *Fault) matches(c *call, actionName string) bool {
	return (f.Service == "" || f.Service == c.service) &&
		(f.Action == "" || wildcard(f.Action, actionName)) &&
		(f.Account == "" || f.Account == c.credential.Account) &&
		(f.Region == "" || f.Region == c.name) &&
		(f.Page == 0 || f.Page == c.page)
}

// before tells that the call is not performed at all.
func (f *Fault) before() bool {
	return f != nil && !f.AfterSuccess && (f.Kind == FaultError || f.Kind == FaultDrop || f.Kind == FaultHang)
}

// strike turns a call's outcome into the fault's.
func (f *Fault) strike(outcome *apiError, result *answer) *apiError {
	switch f.Kind {
	case FaultError:
		if outcome != nil {
			return outcome
		}
		code := f.Code
		if code == "" {
			code = "InternalError"
		}
		message := f.Message
		if message == "" {
			message = "An injected fault"
		}
		failure := failf(code, "%s", message)
		if f.Status != 0 {
			failure.Status = f.Status
		}
		return failure
	case FaultDrop:
		result.fate = fateDrop
	case FaultHang:
		result.fate = fateHang
	}
	if result.fate != fateAnswer {
		return &apiError{Code: "", Status: http.StatusOK}
	}
	return outcome
}
