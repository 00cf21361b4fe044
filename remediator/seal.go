package remediator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// Seal is a digest of all in a record that says what is done to what. It is
// stored when an attempt begins: a record may be edited by whoever may approve
// it, and must not lead an attempt that was decided on one thing to another.
func Seal(s *v1alpha1.RemediationSpec) string {
	sealed := *s
	sealed.Severity, sealed.Attempts, sealed.ChangedBy, sealed.FirstSeen, sealed.PriorAttempts = "", nil, "", nil, nil
	sealed.Approved, sealed.ApprovedBy, sealed.RetriedAt = nil, "", nil
	sealed.Resource.Name = ""
	data, err := json.Marshal(&sealed)
	if err != nil {
		return "" // strings, numbers and pointers to them: it never fails
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Altered says in what a record is not as Holdfast wrote it, empty if it is: it
// was made by hand, or changed after its attempt began. Nothing is done on it.
func Altered(r *v1alpha1.Remediation) string {
	switch {
	case r.Name != Name(OwnerOf(r), r.Spec.Fingerprint):
		return "it is not the record of its owner and fingerprint: spec was changed, or it was made by hand"
	case r.Status.Phase.InFlight() && r.Status.Seal != Seal(&r.Spec):
		return "spec was changed after the attempt began: set it back, or delete the record"
	default:
		return ""
	}
}

// Barred gives the status of an altered record: what has begun waits, anything
// else does not begin.
func Barred(r *v1alpha1.Remediation, why string) v1alpha1.RemediationStatus {
	if r.Status.Phase.InFlight() {
		return Wait(r, ReasonAltered, why)
	}
	s := *r.Status.DeepCopy()
	s.ObservedGeneration = r.Generation
	open(&s, v1alpha1.PhaseBlocked, ReasonAltered, why, []v1alpha1.GateBlock{{By: ReasonAltered, Detail: why}})
	return s
}
