// Package providertest is the contract suite that every provider passes. A
// provider's own tests hand [Run] a [Harness], which makes environments in a
// simulator or an emulator of its cloud.
//
// It is test support, and so the one package below providers that may import
// the detector: an environment that nobody touched has to compare in sync.
package providertest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/providers"
)

// Harness makes environments of one provider.
type Harness struct {
	// Registration is what the provider folder offers.
	Registration providers.Registration
	// New makes an environment that nobody has drifted. It is called for each
	// check that bends its environment, and cleans up with t.Cleanup.
	New func(t *testing.T) *Environment
	// MinCoverage is the share of wanted fields that a fresh environment must
	// have compared, 0 to 1. A provider states it as high as its simulator
	// lets it; zero means 1.
	MinCoverage float64
	// NotOrphans are seen resources that carry a cluster's ownership tag and
	// that the environment's objects do not name, with the reason. Any other
	// orphan in a fresh environment fails the suite.
	NotOrphans map[providers.ID]string
	// NotTampered are rows of the catalog, as KIND/PATH, that can be changed in
	// place and that no tamper makes drift, with the reason. Any other row that
	// does not drift in one of the tampers fails the suite.
	NotTampered map[string]string
	// Volatile are seen fields, as KIND/PATH, that no repair brings back, such as
	// the time of the last start, with the reason.
	Volatile map[string]string
}

// Tamper is one way of drifting an environment. All of what it does to wanted
// resources is for Apply to repair; what it makes besides, such as a group to
// attach, may stay.
type Tamper struct {
	// Name is short, lower case and unique.
	Name string
	// Do changes the cloud behind the provider's back.
	Do func(t *testing.T)
}

// Environment is a cloud that holds exactly what its owners want.
type Environment struct {
	// Provider under test, with credentials for the cloud.
	Provider providers.Provider
	// Owners in one scope; at least one, and best every kind of owner.
	Owners []*providers.Owner
	// Mutations counts the mutating calls that the cloud has received so far,
	// from whomever. It is how the suite knows that reading writes nothing.
	Mutations func() int
	// Absent are well-formed ids that do not exist in the cloud.
	Absent []providers.ID
	// Now is a time at which everything is past its creation grace; zero means
	// a day after the snapshot.
	Now time.Time
	// FailKinds are kinds, or parts of one, whose reading FailKind can make
	// fail. Leave both empty only where the cloud takes no injected faults.
	FailKinds []string
	// FailKind makes the cloud refuse to read one of FailKinds until the
	// returned function is called.
	FailKind func(t *testing.T, kind string) (restore func())
	// Remove makes the cloud lose a resource that is wanted, behind the
	// provider's back, and says which. Nil leaves that check out.
	Remove func(t *testing.T) providers.ID
	// SeenAs gives the id under which what Remove has removed was seen before,
	// where its owner knows it by another one once it is gone. Nil leaves it the
	// same.
	SeenAs func(removed providers.ID) providers.ID
	// Tampers are what Apply is to repair. A provider that is a
	// [providers.Applier] needs at least one.
	Tampers []Tamper
	// Settle is called after each [providers.ErrPending], before Apply is
	// called again: it lets the cloud go on. Nil calls again at once.
	Settle func(t *testing.T)
}

// problems are what a check found wrong, one sentence each.
type problems []string

// check is one obligation. Those that bend the environment get their own.
type check struct {
	name  string
	bends bool
	run   func(ctx context.Context, h Harness, env *Environment, t *testing.T) problems
}

// checks are all obligations, the cheap ones first.
func checks() []check {
	return []check{
		{"registration is complete", false, checkRegistration},
		{"scope is stable", false, checkScope},
		{"reading writes nothing", false, checkReadOnly},
		{"observe is deterministic", false, checkObserveDeterministic},
		{"what is seen is well-formed", false, checkSeen},
		{"desired is pure", false, checkDesiredPure},
		{"what is wanted is well-formed", false, checkWanted},
		{"a fresh environment is in sync", false, checkFresh},
		{"confirm agrees with observe", false, checkConfirm},
		{"a cancelled read is an error", false, checkCancelled},
		{"an empty snapshot is survived", false, checkEmptySnapshot},
		{"calls may be concurrent", false, checkConcurrent},
		{"a kind that fails hides nothing else", true, checkFailingKinds},
		{"what is removed is missing", true, checkRemoved},
		{"apply refuses what it must not write", false, checkApplyRefuses},
		{"apply makes nothing that is gone", true, checkApplyGone},
		{"apply repairs what drifted", true, checkApplyRepairs},
	}
}

// Run runs the suite. Each check is a subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.New == nil {
		t.Fatal("harness has no New: it makes the environment that the suite checks")
	}
	shared := h.New(t)
	requireUsable(t, shared)
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			env := shared
			if c.bends {
				env = h.New(t)
				requireUsable(t, env)
			}
			for _, p := range c.run(t.Context(), h, env, t) {
				t.Error(p)
			}
		})
	}
}

func requireUsable(t *testing.T, env *Environment) {
	t.Helper()
	switch {
	case env == nil || env.Provider == nil:
		t.Fatal("environment has no provider")
	case len(env.Owners) == 0:
		t.Fatal("environment has no owners: the suite would check nothing")
	case env.Mutations == nil:
		t.Fatal("environment counts no mutating calls: reading could write unseen")
	case len(env.Absent) == 0:
		t.Fatal("environment names no absent ids: Confirm could call everything present")
	case len(env.FailKinds) > 0 && env.FailKind == nil:
		t.Fatal("environment names kinds to fail and has no FailKind")
	}
}
