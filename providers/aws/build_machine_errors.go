package aws

import (
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// launchHints are what to do about what EC2 says to launches (EC2 API reference,
// "Error codes").
var launchHints = map[string]string{
	"InvalidAMIID.NotFound":                "the image does not exist in this region, or is not shared with the account: correct spec.ami.id of the AWSMachine's template",
	"InvalidAMIID.Malformed":               "spec.ami.id is no image's id: correct it in the AWSMachine's template",
	"InvalidAMIID.Unavailable":             "the image is not available any more: name another in spec.ami.id",
	"InstanceLimitExceeded":                "the account's quota of instances is used up: have it raised (Service Quotas, EC2), or delete other instances",
	"VcpuLimitExceeded":                    "the account's quota of vCPUs for this kind of instance is used up: have it raised (Service Quotas, EC2), or delete other instances",
	"MaxSpotInstanceCountExceeded":         "the account's quota of spot instances is used up: have it raised (Service Quotas, EC2)",
	"SpotMaxPriceTooLow":                   "raise spec.spotMarketOptions.maxPrice, or leave it out",
	"InsufficientInstanceCapacity":         "AWS has no more instances of this type there at the moment. This passes by itself; another instance type or failure domain may be faster",
	"InsufficientHostCapacity":             "the dedicated host is full at the moment. This passes when it has room again",
	"InsufficientReservedInstanceCapacity": "the reservation has no room at the moment. This passes when it has again",
	"ReservationCapacityExceeded":          "the capacity reservation has no room: enlarge it, or change spec.capacityReservationId",
	"InvalidSubnetID.NotFound":             "the subnet does not exist any more: correct spec.subnet, or the AWSCluster's subnets",
	"InsufficientFreeAddressesInSubnet":    "the subnet has no free address: delete what is not needed in it, or use another subnet or failure domain",
	"UnauthorizedOperation":                "Holdfast's credentials may not do this: grant it as docs/permissions.md says",
	"AccessDenied":                         "Holdfast's credentials may not do this: grant it as docs/permissions.md says",
	"AccessDeniedException":                "Holdfast's credentials may not do this: grant it as docs/permissions.md says",
	"Unsupported":                          "EC2 does not offer this there, mostly an instance type in a zone: choose another type, subnet or failure domain",
	"InvalidKeyPair.NotFound":              "import the key pair into this region, or name another in spec.sshKeyName (empty is none; CAPA's default is \"default\")",
	"InvalidSecurityGroupID.NotFound":      "a security group does not exist any more: correct spec.additionalSecurityGroups, or wait for the cluster's to be made anew",
	"InvalidGroup.NotFound":                "a security group does not exist any more: correct spec.additionalSecurityGroups, or wait for the cluster's to be made anew",
	"InvalidNetworkInterfaceID.NotFound":   "correct spec.networkInterfaces",
	"InvalidNetworkInterface.InUse":        "another instance has the interface: correct spec.networkInterfaces",
	"InvalidPlacementGroup.Unknown":        "make the placement group, or correct spec.placementGroupName",
	"IdempotentInstanceTerminated":         "the instance that was launched for this machine has been terminated: delete the Machine, so that it is replaced",
	"IdempotentParameterMismatch":          "an instance was launched for this machine already, and EC2 does not show it yet. This passes by itself",
	hintProfile:                            "the instance profile does not exist. One that was made just now is known to EC2 after some seconds; else correct spec.iamInstanceProfile, or make it (clusterawsadm bootstrap iam)",
}

// hintProfile stands for InvalidParameterValue about an instance profile.
const hintProfile = "profile"

// passes are codes of what passes by itself, whatever the status of the answer.
// EC2 knows an instance profile only some seconds after IAM does, and a secret's
// name is not free at once when it has been deleted (InvalidRequestException).
var passes = map[string]bool{
	"InsufficientInstanceCapacity": true, "InsufficientHostCapacity": true, "InsufficientReservedInstanceCapacity": true,
	"InsufficientFreeAddressesInSubnet": true, "IdempotentParameterMismatch": true, hintProfile: true,
	"InvalidRequestException": true,
}

// launchError sorts what AWS said to making a machine as applyError does, with
// what to do about it before AWS's own words.
func launchError(err error, what string) error {
	code := apiCode(err)
	if code == "" {
		return applyError(err, what)
	}
	key := code
	if code == "InvalidParameterValue" && strings.Contains(strings.ToLower(err.Error()), "instance profile") {
		key = hintProfile
	}
	said := error(&answer{what, code, err})
	if hint := launchHints[key]; hint != "" {
		said = withHint(said, hint)
	}
	switch {
	case passes[key] || isThrottle(err) || refusesCaller(err) || isPassing(err, code):
		return said
	case applyReasons[code] != "":
		return &providers.ApplyError{Reason: applyReasons[code], Err: said}
	default:
		return &providers.ApplyError{Reason: providers.ReasonRefused, Err: said}
	}
}
