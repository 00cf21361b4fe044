package vsphere

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// refusal is an error that trying again soon will not help.
func refusal(reason, format string, args ...any) error {
	return &providers.ApplyError{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// faulted says what a fault means for a change. Faults that pass by themselves
// (TaskInProgress, ConcurrentAccess, HostCommunication, Timedout, an
// InvalidState) stay errors that may be tried again (vSphere API, the faults of
// each method).
func faulted(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *providers.ApplyError
	if errors.As(err, &known) || errors.Is(err, providers.ErrPending) {
		return err
	}
	err = fmt.Errorf("%s: %w", doing, err)
	var way *providers.ScopeError
	if sessionLost(err) || errors.As(err, &way) {
		return err // nobody has looked at the change yet; NotAuthenticated is a NoPermission
	}
	if reason := reasonOf(err); reason != "" {
		return &providers.ApplyError{Reason: reason, Err: err}
	}
	return err
}

func reasonOf(err error) string {
	switch {
	case hasFault[types.BaseNoPermission](err), isStatus(err, http.StatusForbidden):
		return providers.ReasonNotPermitted
	case hasFault[*types.MethodDisabled](err), hasFault[*types.RestrictedByAdministrator](err), hasFault[*types.DisallowedOperationOnFailoverHost](err):
		// An extension or an administrator has switched the method off for
		// this machine, as backups do while they run.
		return providers.ReasonProtected
	case hasFault[*types.ManagedObjectNotFound](err):
		return providers.ReasonMoved
	case refused(err), isStatus(err, http.StatusBadRequest), isStatus(err, http.StatusNotFound):
		return providers.ReasonRefused
	default:
		return ""
	}
}

// refused reports whether vCenter says that the value or the machine is wrong
// for it.
func refused(err error) bool {
	return hasFault[types.BaseVmConfigFault](err) ||
		hasFault[types.BaseInsufficientResourcesFault](err) ||
		hasFault[types.BaseInvalidArgument](err) ||
		hasFault[types.BaseInvalidDatastore](err) ||
		hasFault[types.BaseNotSupported](err) ||
		hasFault[types.BaseNotEnoughLicenses](err) ||
		hasFault[types.BaseMigrationFault](err) ||
		hasFault[types.BaseSnapshotFault](err) ||
		hasFault[types.BaseFileFault](err) ||
		hasFault[*types.NotImplemented](err) ||
		hasFault[*types.RestrictedVersion](err) ||
		hasFault[*types.DuplicateName](err) ||
		hasFault[*types.InvalidName](err) ||
		hasFault[*types.InvalidFolder](err) ||
		hasFault[*types.NotFound](err)
}

// hasFault reports whether a fault of the type is anywhere behind an error: as
// what a call or a task ended with, or as its cause.
func hasFault[T any](err error) bool {
	found := false
	if err == nil {
		return false
	}
	fault.In(err, func(f types.BaseMethodFault, _ string, _ []types.LocalizableMessage) bool {
		_, found = any(f).(T)
		return found
	})
	return found
}

// isStatus reports whether the REST API answered with the code.
func isStatus(err error, code int) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if rest.IsStatusError(err, code) {
			return true
		}
	}
	return false
}
