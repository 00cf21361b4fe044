package remediator

// Reasons of a record's phase, besides the names of gates.
const (
	// Before anything is done.
	ReasonReady       = "Ready"     // Pending: every gate is open
	ReasonRetried     = "Retried"   // Pending: a person wants it tried again
	ReasonCoolDown    = "CoolDown"  // Blocked: the last attempt was a short while ago
	ReasonProtected   = "Protected" // Blocked: the cloud protects the resource
	ReasonMoved       = "Moved"     // Blocked: the resource changed while it was acted on
	ReasonNoPath      = "NoPath"    // Blocked: nothing would replace the Machine
	ReasonNoSurge     = "SurgeNotPossible"
	ReasonNeedsStop   = "NeedsDisruption" // Blocked: the cloud wants it stopped
	ReasonNotExecuted = "NotExecuted"     // Blocked: the provider cannot write

	// In flight.
	ReasonActing             = "Acting"
	ReasonSettling           = "Settling" // the cloud has taken it and is not done
	ReasonDraining           = "Draining"
	ReasonRetrying           = "Retrying" // a call failed and is tried again
	ReasonWaiting            = "Waiting"  // a gate closed after it began
	ReasonAltered            = "Altered"  // also Blocked: the spec is not what Holdfast wrote
	ReasonWaitingForRead     = "WaitingForRead"
	ReasonWaitingForHealth   = "WaitingForHealthCheck"
	ReasonWaitingForOwner    = "WaitingForOwner"
	ReasonWaitingForSurge    = "WaitingForSurge"
	ReasonWaitingForDeletion = "WaitingForDeletion"
	ReasonBlockedOnDrain     = "BlockedOnDrain"
	ReasonWaitingForReady    = "WaitingForReplacement"

	// Ends.
	ReasonVerified      = "Verified"
	ReasonDriftGone     = "DriftGone"
	ReasonOwnerGone     = "OwnerGone"
	ReasonPolicyChanged = "PolicyChanged"
	ReasonDenied        = "Denied"
	ReasonNoEffect      = "NoEffect"       // Latched or Blocked: the drift was still there
	ReasonReverted      = "Reverted"       // Latched: somebody sets it back
	ReasonAttemptsUsed  = "AttemptsUsed"   // Latched
	ReasonSameDrift     = "SameDrift"      // Latched: the new machine drifts in the same way
	ReasonNotTaken      = "NotTaken"       // Failed: nobody took up the request to replace
	ReasonNotReady      = "NotReady"       // Failed: the new machine never became ready
	ReasonNotVerified   = "NotVerified"    // Failed: no read could tell
	ReasonDrainFailed   = "DrainFailed"    // Failed
	ReasonError         = "Error"          // Failed: calls kept failing
	ReasonTakenBack     = "TakenBack"      // Cancelled after it began: it was not needed any more
	ReasonRecovered     = "RecoveredLater" // of the condition Verified, on a Failed replacement
)
