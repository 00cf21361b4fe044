package status

import (
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// A cloud that is away leaves the last verdict until that is stale. Credentials
// that are refused are told at once: nobody is to read InSync meanwhile.
func TestRefusedCredentialsAreNoLapse(t *testing.T) {
	for reason, lapse := range map[string]bool{
		"aws/1/eu could not be read: timeout":                          true,
		providers.ReasonUnreachable + ": no route to host":             true,
		providers.ReasonCredentials + ": InvalidClientTokenId":         false,
		providers.ReasonForbidden + ": identity not for namespace":     false,
		providers.ReasonWrongAccount + ": 1 is not the account 2":      false,
		providers.ReasonInvalidSpec + ": the AWSCluster has no region": false,
	} {
		t.Run(reason, func(t *testing.T) {
			d := &policies.Decision{Action: policies.Observe, Mode: policies.ModeObserve,
				Finding: detector.Finding{Status: detector.NotChecked, Reason: reason}}
			v := judge([]*policies.Decision{d}, func(*detector.Finding) bool { return true })
			if v.unread != lapse {
				t.Errorf("unread is %v, want %v (%+v)", v.unread, lapse, v)
			}
		})
	}
}
