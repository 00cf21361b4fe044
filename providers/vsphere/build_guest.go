package vsphere

import (
	"encoding/base64"
	"fmt"
	"net/netip"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/providers"
)

// Options that a guest reads when it boots (cloud-init, DataSource VMware;
// Ignition, platform vmware).
const (
	userDataKey = "guestinfo.userdata"
	metadataKey = "guestinfo.metadata"
	ignitionKey = "guestinfo.ignition.config.data"
	encodingKey = ".encoding"
	base64Word  = "base64"
)

// Formats of bootstrap data (Cluster API, contract of bootstrap providers).
const (
	cloudConfig = "cloud-config"
	ignition    = "ignition"
)

// bootOptions gives the options with the bootstrap data. It is secret: it goes
// into the clone and nowhere else, errors least of all.
func bootOptions(data *providers.BootstrapData) ([]types.BaseOptionValue, error) {
	if data == nil || len(data.Value) == 0 {
		return nil, refusal(providers.ReasonRefused, "there is no bootstrap data, and without it the machine would never become a node")
	}
	switch data.Format {
	case "", cloudConfig:
		return encoded(userDataKey, data.Value), nil
	case ignition:
		return encoded(ignitionKey, data.Value), nil
	default:
		return nil, refusal(providers.ReasonUnsupported, "the bootstrap data has format %q: only %s and %s can be given to a virtual machine", data.Format, cloudConfig, ignition)
	}
}

func encoded(key string, value []byte) []types.BaseOptionValue {
	return []types.BaseOptionValue{
		&types.OptionValue{Key: key, Value: base64.StdEncoding.EncodeToString(value)},
		&types.OptionValue{Key: key + encodingKey, Value: base64Word},
	}
}

// lacking gives the options that a machine has not, or has another value of.
func lacking(m *machine, options []types.BaseOptionValue) []types.BaseOptionValue {
	have := map[string]string{}
	all, _ := m.props["config.extraConfig"].(types.ArrayOfOptionValue)
	for _, o := range all.OptionValue {
		if o != nil {
			have[o.GetOptionValue().Key] = optionText(o.GetOptionValue().Value)
		}
	}
	var out []types.BaseOptionValue
	for _, o := range options {
		v := o.GetOptionValue()
		if now, ok := have[v.Key]; !ok || now != v.Value {
			out = append(out, o)
		}
	}
	return out
}

// metadata gives what cloud-init needs beside user data: the machine's name and
// its adapters by their addresses, as network configuration version 2
// (cloud-init, DataSource VMware; CAPV writes the same).
func (m *maker) metadata(now *machine) ([]types.BaseOptionValue, error) {
	addresses, ok := macs(now)
	devices := m.w.spec.Network.Devices
	if !ok || len(addresses) != len(devices) {
		return nil, fmt.Errorf("it has %d adapters with an address, and %d are wanted: %w", len(addresses), len(devices), providers.ErrPending)
	}
	wait4, wait6 := false, false
	ethernets := map[string]any{}
	for i := range devices {
		four, six := families(&devices[i])
		wait4, wait6 = wait4 || four, wait6 || six
		ethernets[fmt.Sprintf("id%d", i)] = ethernet(&devices[i], i, addresses[i])
	}
	network := map[string]any{"version": 2, "ethernets": ethernets}
	if r := routes(m.w.spec.Network.Routes); r != nil {
		network["routes"] = r
	}
	data, err := yaml.Marshal(map[string]any{
		"instance-id": m.name, "local-hostname": m.name,
		"wait-on-network": map[string]any{"ipv4": wait4, "ipv6": wait6},
		"network":         network,
	})
	if err != nil {
		return nil, fmt.Errorf("write the metadata: %w", err)
	}
	return encoded(metadataKey, data), nil
}

// families says which addresses a device gets, so that the guest waits for them.
func families(d *infrav1.NetworkDeviceSpec) (four, six bool) {
	four, six = ptr.Deref(d.DHCP4, false), ptr.Deref(d.DHCP6, false)
	for _, a := range d.IPAddrs {
		ip, err := netip.ParsePrefix(a)
		addr := ip.Addr()
		if err != nil {
			if addr, err = netip.ParseAddr(a); err != nil {
				continue
			}
		}
		four, six = four || addr.Is4(), six || addr.Is6()
	}
	return four, six
}

func ethernet(d *infrav1.NetworkDeviceSpec, i int, mac string) map[string]any {
	six := ptr.Deref(d.DHCP6, false)
	out := map[string]any{
		"match": map[string]any{"macaddress": mac}, "set-name": d.DeviceName, "wakeonlan": true,
		"dhcp4": ptr.Deref(d.DHCP4, false), "dhcp6": six, "accept-ra": six,
	}
	if d.DeviceName == "" {
		out["set-name"] = fmt.Sprintf("eth%d", i)
	}
	add := func(key string, value any, there bool) {
		if there {
			out[key] = value
		}
	}
	add("addresses", d.IPAddrs, len(d.IPAddrs) > 0)
	add("gateway4", d.Gateway4, d.Gateway4 != "")
	add("gateway6", d.Gateway6, d.Gateway6 != "")
	add("mtu", ptr.Deref(d.MTU, 0), ptr.Deref(d.MTU, 0) != 0)
	add("routes", routes(d.Routes), len(d.Routes) > 0)
	add("dhcp4-overrides", overrides(d.DHCP4Overrides), d.DHCP4Overrides != nil)
	add("dhcp6-overrides", overrides(d.DHCP6Overrides), d.DHCP6Overrides != nil)
	names := map[string]any{}
	if len(d.Nameservers) > 0 {
		names["addresses"] = d.Nameservers
	}
	if len(d.SearchDomains) > 0 {
		names["search"] = d.SearchDomains
	}
	add("nameservers", names, len(names) > 0)
	return out
}

func routes(all []infrav1.NetworkRouteSpec) []map[string]any {
	var out []map[string]any
	for _, r := range all {
		one := map[string]any{"to": r.To, "via": r.Via}
		if r.Metric != nil {
			one["metric"] = *r.Metric
		}
		out = append(out, one)
	}
	return out
}

func overrides(o *infrav1.DHCPOverrides) map[string]any {
	if o == nil {
		return nil
	}
	out := map[string]any{}
	set(out, "hostname", o.Hostname)
	set(out, "route-metric", o.RouteMetric)
	set(out, "send-hostname", o.SendHostname)
	set(out, "use-dns", o.UseDNS)
	set(out, "use-domains", o.UseDomains)
	set(out, "use-hostname", o.UseHostname)
	set(out, "use-mtu", o.UseMTU)
	set(out, "use-ntp", o.UseNTP)
	set(out, "use-routes", o.UseRoutes)
	return out
}

func set[T any](to map[string]any, key string, value *T) {
	if value != nil {
		to[key] = *value
	}
}
