package vsphere

import (
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// guest gives the addresses that the guest's tools report. Without running
// tools there is no statement about addresses, so nothing is closed.
func (mr *machineReader) guest(o *object, r *providers.Resource) {
	status := o.str("guest.toolsRunningStatus")
	if status != "" {
		r.Set("/toolsRunningStatus", field(providers.String(status)))
	}
	nics, ok := o.props["guest.net"].(types.ArrayOfGuestNicInfo)
	running := status == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
	if !running || o.missing["guest.net"] != "" {
		return
	}
	var addresses []string
	add := func(s string) {
		if ip, err := canonical.IP(s); err == nil {
			addresses = append(addresses, ip)
		}
	}
	if ok {
		for _, nic := range nics.GuestNicInfo {
			for _, s := range nic.IpAddress {
				add(s)
			}
			if nic.IpConfig == nil {
				continue
			}
			for _, a := range nic.IpConfig.IpAddress {
				add(a.IpAddress)
			}
		}
	}
	r.Set("/addresses", field(providers.Set(addresses...)))
	adapterAddresses(o, nics.GuestNicInfo, r)
}

// adapterAddresses gives the addresses of each adapter, by its MAC address: a
// guest reports those of its bridges and tunnels too, which are no adapter's.
func adapterAddresses(o *object, nics []types.GuestNicInfo, r *providers.Resource) {
	hw, _ := o.props["config.hardware"].(types.VirtualHardware)
	for i, device := range cardsOf(&machine{hw: hw}) {
		mac := device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress
		var addresses []string
		for _, nic := range nics {
			if mac == "" || !strings.EqualFold(nic.MacAddress, mac) {
				continue
			}
			for _, s := range nic.IpAddress {
				if ip, err := canonical.IP(s); err == nil {
					addresses = append(addresses, ip)
				}
			}
		}
		if len(addresses) > 0 {
			r.Set(providers.Pointer("networks", strconv.Itoa(i), "addresses"), field(providers.Set(addresses...)))
		}
	}
}
