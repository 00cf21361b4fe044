package remediator

import (
	"testing"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// A process died between setting what a machine was stopped for and starting it
// again: all that drifts is that it is off, and the record is not done.
func TestChangeOfStoppedMachine(t *testing.T) {
	for _, path := range []string{"/state", "/powerState"} {
		r := &v1alpha1.Remediation{}
		r.Spec.Owner.UID, r.Spec.Fingerprint, r.Spec.Disruptive = "u1", "cpus", true
		r.Spec.Resource.Kind, r.Spec.Resource.ID = "VirtualMachine", "vm-1"
		f := detector.Finding{
			Fingerprint: "off", Status: detector.Drifted, Owner: providers.OwnerRef{UID: "u1"},
			Resource: detector.ResourceRef{Kind: "VirtualMachine", ID: "vm-1"},
			Diffs:    []detector.Diff{{Path: path, Want: providers.String("on"), Have: providers.String("off")}},
		}
		change, any := ChangeOf(r, Read{Decisions: []policies.Decision{{Finding: f}}}, true)
		if !any || len(change.Fields) != 1 || change.Fields[0].Path != path || !change.Disruptive {
			t.Errorf("%s: change %+v", path, change)
		}
		r.Spec.Disruptive = false
		if _, any := ChangeOf(r, Read{Decisions: []policies.Decision{{Finding: f}}}, true); any {
			t.Errorf("%s: a record that stops nothing starts what somebody else has stopped", path)
		}
	}
}
