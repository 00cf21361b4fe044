package vsphere

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// explained gives an error in vCenter's own words, and what can be done about it.
func explained(err error) string {
	text := strings.TrimSuffix(err.Error(), ".")
	if h := hint(err); h != "" {
		text += ". " + h
	}
	return oneLine(text)
}

// hint says what can be done about an error of vCenter's; empty where the error
// says it itself or nothing is known.
func hint(err error) string {
	var scope *providers.ScopeError
	if errors.As(err, &scope) {
		return scopeHint(scope.Reason)
	}
	switch {
	case hasFault[*types.NoDiskSpace](err), hasFault[*types.InsufficientStorageSpace](err):
		return "The datastore is full: free space on it, or name another in spec.datastore or spec.storagePolicyName"
	case hasFault[types.BaseNoPermission](err):
		return permissionHint(err)
	case hasFault[*types.DuplicateName](err):
		return "The folder has something of that name already: rename or remove it, or set another spec.folder"
	case hasFault[types.BaseInsufficientResourcesFault](err):
		return "Neither the resource pool nor its hosts have room for the machine: ask for less, or name another spec.resourcePool"
	case hasFault[types.BaseNotEnoughLicenses](err):
		return "vSphere's licence does not cover it"
	case hasFault[types.BaseInvalidDatastore](err):
		return "The datastore cannot be used: look at its state, and whether the pool's hosts have it"
	case hasFault[types.BaseFileFault](err):
		return "A file on the datastore cannot be used: look at the template's disks and at what an earlier machine of this name has left"
	case hasFault[types.BaseInvalidDeviceSpec](err):
		return "A device is wrong for this template: look at spec.network.devices, spec.dataDisks and spec.pciDevices"
	case hasFault[*types.ManagedObjectNotFound](err):
		return "Something went while it was being used: this is tried again"
	default:
		return ""
	}
}

func scopeHint(reason string) string {
	switch reason {
	case providers.ReasonCredentials, providers.ReasonForbidden:
		return "Look at spec.identityRef of the VSphereCluster and at the Secret behind it"
	case providers.ReasonUnreachable:
		return "Look at spec.server and spec.thumbprint of the VSphereCluster, and at the way there"
	default:
		return ""
	}
}

// permissionHint names the privilege, which vCenter's text leaves out.
func permissionHint(err error) string {
	privilege, on := "", ""
	fault.In(err, func(f types.BaseMethodFault, _ string, _ []types.LocalizableMessage) bool {
		base, ok := f.(types.BaseNoPermission)
		if !ok {
			return false
		}
		no := base.GetNoPermission()
		privilege = no.PrivilegeId
		if no.Object != nil {
			on = " on " + no.Object.String()
		}
		return true
	})
	if privilege == "" {
		return "The account lacks a privilege: docs/permissions.md lists those that making and deleting machines need"
	}
	return fmt.Sprintf("Grant the account the privilege %s%s (docs/permissions.md lists all that are needed)", privilege, on)
}
