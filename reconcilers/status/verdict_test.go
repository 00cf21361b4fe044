package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestClusterTellsTheCauseOfAll: what keeps all of a cluster's objects from being
// compared is told on the Cluster, and several causes are told where they are.
func TestClusterTellsTheCauseOfAll(t *testing.T) {
	unknown := func(reason, message string) condition {
		return condition{status: metav1.ConditionUnknown, reason: reason, message: message}
	}
	refused := unknown(providers.ReasonCredentials, "Instance i-1: CredentialsUnavailable: the access key is unknown")
	for name, tc := range map[string]struct {
		machine, cluster condition
		reason, message  string
	}{
		"one cause": {refused, unknown(providers.ReasonCredentials, "VPC vpc-1: CredentialsUnavailable: the access key is unknown"), providers.ReasonCredentials,
			"AWSCluster b; AWSMachine a could not be compared: VPC vpc-1: CredentialsUnavailable: the access key is unknown"},
		"several causes":      {refused, unknown(ReasonNotChecked, "VPC vpc-1: a page failed"), ReasonUnknown, "AWSCluster b; AWSMachine a could not be compared"},
		"causes of their own": {unknown(ReasonNotChecked, "x"), unknown(ReasonNotChecked, "y"), ReasonUnknown, "AWSCluster b; AWSMachine a could not be compared"},
		"one has been compared": {refused, condition{status: metav1.ConditionFalse, reason: ReasonInSync}, providers.ReasonCredentials,
			"AWSMachine a could not be compared: Instance i-1: CredentialsUnavailable: the access key is unknown"},
	} {
		sum := summary{}
		sum.add(providers.OwnerRef{Kind: "AWSMachine", Name: "a"}, tc.machine)
		sum.add(providers.OwnerRef{Kind: "AWSCluster", Name: "b"}, tc.cluster)
		if reason, message := sum.gap(); reason != tc.reason || message != tc.message {
			t.Errorf("%s: %s, %q", name, reason, message)
		}
	}
}
