package v1alpha1

// Conditions that Holdfast sets on infrastructure objects and Machines, with
// the field manager [FieldManager].
const (
	// ConditionDriftDetected is True while anything about the object drifts,
	// False while all of it is in sync, and Unknown while it could not be
	// compared.
	ConditionDriftDetected = "DriftDetected"
	// ConditionInfrastructureDrifted, on Machines, is True only while drift is
	// there that a policy in mode enforce answers with a replacement, and that
	// nothing but the replacement's own path holds back. A MachineHealthCheck
	// may name it in unhealthyMachineConditions.
	ConditionInfrastructureDrifted = "InfrastructureDrifted"
)

// FieldManager is Holdfast's name in managed fields.
const FieldManager = "holdfast"

// AnnotationSweepNow asks for a sweep of a Cluster, once for each new value.
const AnnotationSweepNow = Group + "/sweep-now"

// AnnotationSwept answers it: the value of the request that was swept for.
const AnnotationSwept = Group + "/swept"

// Labels of Remediations.
const (
	// LabelOwnerUID is the UID of the owner.
	LabelOwnerUID = Group + "/owner-uid"
	// LabelFingerprint is the finding's fingerprint.
	LabelFingerprint = Group + "/fingerprint"
)
