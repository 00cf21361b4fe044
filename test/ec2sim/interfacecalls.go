package ec2sim

import (
	"slices"
	"strconv"
)

type interfaceIn struct {
	NetworkInterfaceID string
	InstanceID         string
	DeviceIndex        *int
	AttachmentID       string
	Force              bool
}

func (c *call) deleteInterface(in *interfaceIn) (done, *apiError) {
	i, err := c.interfaces.get(c, "networkInterfaceId", in.NetworkInterfaceID)
	if err != nil {
		return done{}, err
	}
	if i.Status == "in-use" {
		return done{}, failf("InvalidNetworkInterface.InUse", "Network interface '%s' is currently in use.", i.id)
	}
	c.dropInterface(i)
	return ok()
}

type attachInterfaceOut struct{ AttachmentID string }

func (c *call) attachInterface(in *interfaceIn) (out attachInterfaceOut, err *apiError) {
	i, err := c.interfaces.get(c, "networkInterfaceId", in.NetworkInterfaceID)
	if err != nil {
		return out, err
	}
	target, err := c.instances.get(c, "instanceId", in.InstanceID)
	if err != nil {
		return out, err
	}
	switch {
	case in.DeviceIndex == nil:
		return out, missing("deviceIndex")
	case i.Status == "in-use":
		return out, failf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", i.id)
	case target.state != "running" && target.state != "stopped":
		return out, incorrectState(target)
	case slices.ContainsFunc(target.interfaces, func(other *networkInterface) bool {
		return other.Attachment.DeviceIndex == *in.DeviceIndex
	}):
		return out, failf("InvalidParameterValue", "Instance '%s' already has an interface attached at device index '%d'.", target.id, *in.DeviceIndex)
	case i.AvailabilityZone != target.zone:
		return out, failf("InvalidParameterCombination", "You may not attach a network interface to an instance if they are not in the same availability zone")
	}
	c.attach(i, target, *in.DeviceIndex, false)
	return attachInterfaceOut{i.Attachment.AttachmentID}, nil
}

func (c *call) attach(i *networkInterface, target *instance, index int, deleteOnTermination bool) {
	i.Status = "in-use"
	i.Attachment = &interfaceAttachment{
		AttachmentID: c.newID("eni-attach"), InstanceID: target.id, InstanceOwnerID: c.account.id, DeviceIndex: index,
		Status: "attached", AttachTime: c.now, DeleteOnTermination: deleteOnTermination,
	}
	target.interfaces = append(target.interfaces, i)
}

func (c *call) detachInterface(in *interfaceIn) (done, *apiError) {
	i, found := c.interfaces.first(func(i *networkInterface) bool {
		return i.Attachment != nil && i.Attachment.AttachmentID == in.AttachmentID && in.AttachmentID != ""
	})
	if !found {
		return done{}, failf("InvalidAttachmentID.NotFound", "The attachment ID '%s' does not exist", in.AttachmentID)
	}
	if i.Attachment.DeviceIndex == 0 {
		return done{}, failf("OperationNotPermitted", "The network interface at device index 0 cannot be detached.")
	}
	if target, ok := c.instances.byID[i.Attachment.InstanceID]; ok {
		target.interfaces = slices.DeleteFunc(target.interfaces, func(other *networkInterface) bool { return other == i })
	}
	i.Attachment, i.Status = nil, "available"
	return ok()
}

type modifyInterfaceIn struct {
	NetworkInterfaceID string
	SecurityGroupID    []string
	Description        *textValue
	SourceDestCheck    *boolAttribute
	Attachment         *struct {
		AttachmentID        string
		DeleteOnTermination *bool
	}
}

func (c *call) modifyInterface(in *modifyInterfaceIn) (done, *apiError) {
	i, err := c.interfaces.get(c, "networkInterfaceId", in.NetworkInterfaceID)
	if err != nil {
		return done{}, err
	}
	if in.SecurityGroupID != nil {
		groups, err := c.groupsIn(i.VPCID, in.SecurityGroupID)
		if err != nil {
			return done{}, err
		}
		i.GroupSet = refs(groups)
	}
	if in.Description != nil {
		i.Description = in.Description.Value
	}
	if in.SourceDestCheck != nil {
		i.SourceDestCheck = in.SourceDestCheck.Value
	}
	if in.Attachment != nil {
		if i.Attachment == nil || i.Attachment.AttachmentID != in.Attachment.AttachmentID {
			return done{}, failf("InvalidAttachmentID.NotFound", "The attachment ID '%s' does not exist", in.Attachment.AttachmentID)
		}
		if in.Attachment.DeleteOnTermination != nil {
			i.Attachment.DeleteOnTermination = *in.Attachment.DeleteOnTermination
		}
	}
	return ok()
}

type describeInterfacesIn struct {
	filterIns
	pageIn
	NetworkInterfaceID []string
}

type describeInterfacesOut struct {
	NetworkInterfaceSet []*networkInterface
	NextToken           string
}

func attached(value func(*interfaceAttachment) string) func(*networkInterface) []string {
	return func(i *networkInterface) []string {
		if i.Attachment == nil {
			return nil
		}
		return one(value(i.Attachment))
	}
}

var interfaceFilters = filters[*networkInterface]{
	"network-interface-id":             func(i *networkInterface) []string { return []string{i.id} },
	"vpc-id":                           func(i *networkInterface) []string { return []string{i.VPCID} },
	"subnet-id":                        func(i *networkInterface) []string { return []string{i.SubnetID} },
	"group-id":                         func(i *networkInterface) []string { return ids(i.GroupSet) },
	"group-name":                       func(i *networkInterface) []string { return names(i.GroupSet) },
	"status":                           func(i *networkInterface) []string { return []string{i.Status} },
	"description":                      func(i *networkInterface) []string { return []string{i.Description} },
	"interface-type":                   func(i *networkInterface) []string { return []string{i.InterfaceType} },
	"availability-zone":                func(i *networkInterface) []string { return []string{i.AvailabilityZone} },
	"private-ip-address":               func(i *networkInterface) []string { return []string{i.PrivateIPAddress} },
	"mac-address":                      func(i *networkInterface) []string { return []string{i.MACAddress} },
	"requester-managed":                func(i *networkInterface) []string { return yesNo(i.RequesterManaged) },
	"owner-id":                         func(i *networkInterface) []string { return []string{i.OwnerID} },
	"attachment.instance-id":           attached(func(a *interfaceAttachment) string { return a.InstanceID }),
	"attachment.attachment-id":         attached(func(a *interfaceAttachment) string { return a.AttachmentID }),
	"attachment.status":                attached(func(a *interfaceAttachment) string { return a.Status }),
	"attachment.instance-owner-id":     attached(func(a *interfaceAttachment) string { return a.InstanceOwnerID }),
	"attachment.device-index":          attached(func(a *interfaceAttachment) string { return strconv.Itoa(a.DeviceIndex) }),
	"attachment.delete-on-termination": attached(func(a *interfaceAttachment) string { return yesNo(a.DeleteOnTermination)[0] }),
}

func (c *call) describeInterfaces(in *describeInterfacesIn) (out describeInterfacesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, interfaceFilters)
	if err != nil {
		return out, err
	}
	found, next, err := list(c, &c.interfaces, in.NetworkInterfaceID, keep, in.pageIn, usualLimits)
	for _, i := range found {
		out.NetworkInterfaceSet = append(out.NetworkInterfaceSet, i.shown())
	}
	out.NextToken = next
	return out, err
}

// shown adds the list of private addresses, which is not stored.
func (i *networkInterface) shown() *networkInterface {
	view := *i
	view.PrivateIPAddressesSet = []privateAddress{{i.PrivateIPAddress, i.PrivateDNSName, true, i.Association}}
	return &view
}
