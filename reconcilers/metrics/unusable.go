package metrics

import (
	"errors"
	"maps"

	"github.com/holdfast-io/holdfast/providers"
)

// unusable says of a cluster's places in clouds why the last try to read them
// came to nothing. A place without an account stands for owners of which it is
// not known where they are.
type unusable map[providers.Scope]string

// reasonOf is a word of a closed list.
func reasonOf(err error) string {
	var at *providers.ScopeError
	if errors.As(err, &at) {
		return at.Reason
	}
	return other
}

func (u unusable) because(scope providers.Scope, reason string) { u[scope] = reason }

// used takes down that a place was read: the owners that had none are in it.
func (u unusable) used(scope providers.Scope) {
	maps.DeleteFunc(u, func(other providers.Scope, _ string) bool { return other == scope || other.Account == "" })
}

func (u unusable) collect(at sender) {
	type key struct{ provider, reason string }
	sent := map[key]bool{}
	for scope, reason := range u {
		k := key{scope.Provider, reason}
		if !sent[k] {
			at.gauge(cloudUnusable, 1, k.provider, k.reason)
		}
		sent[k] = true
	}
}
