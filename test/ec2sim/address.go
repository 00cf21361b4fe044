package ec2sim

import "slices"

var addressActions = []*action{
	write("AllocateAddress", (*call).allocateAddress),
	write("ReleaseAddress", (*call).releaseAddress),
	write("AssociateAddress", (*call).associateAddress),
	write("DisassociateAddress", (*call).disassociateAddress),
	read("DescribeAddresses", (*call).describeAddresses),
}

// address is an Elastic IP address.
type address struct {
	meta
	AllocationID            string
	PublicIP                string
	Domain                  string
	AssociationID           string
	InstanceID              string
	NetworkInterfaceID      string
	NetworkInterfaceOwnerID string
	PrivateIPAddress        string
	PublicIPv4Pool          string `wire:"publicIpv4Pool"`
	NetworkBorderGroup      string
}

type allocateAddressIn struct {
	tagSpecs
	Domain string
}

func (c *call) allocateAddress(in *allocateAddressIn) (*address, *apiError) {
	tags, err := in.tagsFor("elastic-ip")
	if err != nil {
		return nil, err
	}
	id := c.newID("eipalloc")
	a := &address{
		meta: c.newMeta(c.now, id, tags), AllocationID: id, PublicIP: c.newPublicIP(), Domain: "vpc",
		PublicIPv4Pool: "amazon", NetworkBorderGroup: c.name,
	}
	c.addresses.add(a)
	return a, nil
}

// bindAddress shows an Elastic IP on an interface.
func (c *call) bindAddress(a *address, i *networkInterface) {
	a.AssociationID, a.NetworkInterfaceID, a.PrivateIPAddress = c.newID("eipassoc"), i.id, i.PrivateIPAddress
	a.NetworkInterfaceOwnerID = c.account.id
	if i.Attachment != nil {
		a.InstanceID = i.Attachment.InstanceID
	}
	i.Association = &publicAddress{
		PublicIP: a.PublicIP, PublicDNSName: c.publicDNSName(a.PublicIP), IPOwnerID: c.account.id,
		AllocationID: a.id, AssociationID: a.AssociationID,
	}
}

func (r *region) unbindAddress(a *address) {
	if i, ok := r.interfaces.byID[a.NetworkInterfaceID]; ok {
		i.Association = nil
	}
	a.AssociationID, a.NetworkInterfaceID, a.PrivateIPAddress, a.InstanceID, a.NetworkInterfaceOwnerID = "", "", "", "", ""
}

type addressIn struct {
	AllocationID       string
	AssociationID      string
	InstanceID         string
	NetworkInterfaceID string
	AllowReassociation bool
}

func (c *call) releaseAddress(in *addressIn) (done, *apiError) {
	a, err := c.addresses.get(c, "allocationId", in.AllocationID)
	if err != nil {
		return done{}, err
	}
	if a.AssociationID != "" {
		return done{}, failf("InvalidIPAddress.InUse", "Address %s is in use.", a.PublicIP)
	}
	c.addresses.remove(a.id)
	return ok()
}

type associateAddressOut struct {
	Return        bool
	AssociationID string
}

func (c *call) associateAddress(in *addressIn) (out associateAddressOut, err *apiError) {
	a, err := c.addresses.get(c, "allocationId", in.AllocationID)
	if err != nil {
		return out, err
	}
	interfaceID := in.NetworkInterfaceID
	if interfaceID == "" {
		target, err := c.instances.get(c, "instanceId", in.InstanceID)
		if err != nil {
			return out, err
		}
		if len(target.interfaces) == 0 {
			return out, incorrectState(target)
		}
		interfaceID = target.interfaces[0].id
	}
	i, err := c.interfaces.get(c, "networkInterfaceId", interfaceID)
	if err != nil {
		return out, err
	}
	if a.AssociationID != "" && a.NetworkInterfaceID != i.id && !in.AllowReassociation {
		return out, failf("Resource.AlreadyAssociated", "resource %s is already associated with associate-id %s", a.id, a.AssociationID)
	}
	c.unbindAddress(a)
	c.bindAddress(a, i)
	return associateAddressOut{true, a.AssociationID}, nil
}

func (c *call) disassociateAddress(in *addressIn) (done, *apiError) {
	a, found := c.addresses.first(func(a *address) bool { return a.AssociationID == in.AssociationID && in.AssociationID != "" })
	if !found {
		return done{}, failf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", in.AssociationID)
	}
	c.unbindAddress(a)
	return ok()
}

type describeAddressesIn struct {
	filterIns
	AllocationID []string
	PublicIP     []string
}

type describeAddressesOut struct{ AddressesSet []*address }

var addressFilters = filters[*address]{
	"allocation-id":        func(a *address) []string { return []string{a.id} },
	"association-id":       func(a *address) []string { return one(a.AssociationID) },
	"instance-id":          func(a *address) []string { return one(a.InstanceID) },
	"network-interface-id": func(a *address) []string { return one(a.NetworkInterfaceID) },
	"public-ip":            func(a *address) []string { return []string{a.PublicIP} },
	"private-ip-address":   func(a *address) []string { return one(a.PrivateIPAddress) },
	"domain":               func(a *address) []string { return []string{a.Domain} },
}

func (c *call) describeAddresses(in *describeAddressesIn) (out describeAddressesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, addressFilters)
	if err != nil {
		return out, err
	}
	for _, ip := range in.PublicIP {
		if !c.addresses.any(func(a *address) bool { return a.PublicIP == ip }) {
			return out, failf("InvalidAddress.NotFound", "Address '%s' not found.", ip)
		}
	}
	both := func(a *address) bool {
		return keep(a) && (len(in.PublicIP) == 0 || slices.Contains(in.PublicIP, a.PublicIP))
	}
	out.AddressesSet, _, err = list(c, &c.addresses, in.AllocationID, both, pageIn{}, usualLimits)
	return out, err
}
