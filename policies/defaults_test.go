package policies

import (
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// TestDefaults has every row of the catalog of drift, with the default that it
// names. The mutabilities are the catalog's.
func TestDefaults(t *testing.T) {
	const (
		inPlace    = providers.InPlace
		disruptive = providers.InPlaceDisruptive
		immutable  = providers.Immutable
		readOnly   = providers.ReadOnly
	)
	str := providers.String
	changed := func(path string, m providers.Mutability) detector.Diff {
		return detector.Diff{Path: path, Mutability: m, Type: detector.Changed, Want: str("a"), Have: str("b")}
	}
	added := func(path, have string) detector.Diff {
		return detector.Diff{Path: path, Mutability: inPlace, Type: detector.Added, Element: true, Have: str(have)}
	}
	removed := func(path, want string) detector.Diff {
		return detector.Diff{Path: path, Mutability: inPlace, Type: detector.Removed, Element: true, Want: str(want)}
	}
	route := func(want, have string) detector.Diff {
		return detector.Diff{Path: "/routes/0.0.0.0~10", Mutability: inPlace, Type: detector.Changed, Want: str(want), Have: str(have)}
	}
	adopted := func(d detector.Diff) detector.Diff { d.Adopted = true; return d }
	gone := &detector.Diff{Path: "/state", Type: detector.Removed}
	type row struct {
		provider, kind string
		status         detector.Status // Drifted if empty
		diff           detector.Diff
		reason         string // of the state
		action         Action
		severity       Severity
	}
	tests := map[string]row{
		// AWSMachine
		"instance: existence":              {"aws", "Instance", detector.Missing, *gone, "", Replace, High},
		"instance: stopped by the cloud":   {"aws", "Instance", "", changed("/state", inPlace), "Server.ScheduledStop", Replace, High},
		"instance: stopped by a person":    {"aws", "Instance", "", changed("/state", inPlace), "Client.UserInitiatedShutdown", Observe, High},
		"instance: type":                   {"aws", "Instance", "", changed("/instanceType", disruptive), "", Replace, High},
		"instance: image":                  {"aws", "Instance", "", changed("/imageId", immutable), "", Observe, Medium},
		"instance: tags":                   {"aws", "Instance", "", changed("/tags/Name", inPlace), "", Patch, Low},
		"instance: ownership tags":         {"aws", "Instance", "", changed("/tags/kubernetes.io~1cluster~1c1", inPlace), "", Patch, High},
		"instance: CAPA's ownership tag":   {"aws", "Instance", "", changed("/tags/sigs.k8s.io~1cluster-api-provider-aws~1cluster~1c1", inPlace), "", Patch, High},
		"instance: security group removed": {"aws", "Instance", "", removed("/securityGroups", "sg-1"), "", Patch, High},
		"instance: foreign security group": {"aws", "Instance", "", added("/securityGroups", "sg-1"), "", Observe, High},
		"instance: profile":                {"aws", "Instance", "", changed("/iamInstanceProfile", inPlace), "", Patch, High},
		"instance: profile's ARN":          {"aws", "Instance", "", changed("/iamInstanceProfileArn", inPlace), "", Patch, High},
		"instance: subnet":                 {"aws", "Instance", "", changed("/subnetId", immutable), "", Observe, High},
		"instance: zone":                   {"aws", "Instance", "", changed("/availabilityZone", immutable), "", Observe, High},
		"instance: public address":         {"aws", "Instance", "", changed("/publicIp", immutable), "", Observe, High},
		"instance: metadata tokens":        {"aws", "Instance", "", changed("/metadataOptions/httpTokens", inPlace), "", Patch, High},
		"instance: metadata endpoint":      {"aws", "Instance", "", changed("/metadataOptions/httpEndpoint", inPlace), "", Patch, Medium},
		"instance: root volume size":       {"aws", "Instance", "", changed("/rootVolume/size", inPlace), "", Patch, Medium},
		"instance: root volume too large":  {"aws", "Instance", "", changed("/rootVolume/size", immutable), "", Observe, Medium},
		"instance: root volume type":       {"aws", "Instance", "", changed("/rootVolume/type", inPlace), "", Patch, Medium},
		"instance: root volume iops":       {"aws", "Instance", "", changed("/rootVolume/iops", inPlace), "", Patch, Medium},
		"instance: root volume throughput": {"aws", "Instance", "", changed("/rootVolume/throughput", inPlace), "", Patch, Medium},
		"instance: root volume encryption": {"aws", "Instance", "", changed("/rootVolume/encrypted", immutable), "", Replace, High},
		"instance: root volume key":        {"aws", "Instance", "", changed("/rootVolume/kmsKeyId", immutable), "", Replace, High},
		"instance: further volumes":        {"aws", "Instance", "", changed("/nonRootVolumes/~1dev~1sdb/size", inPlace), "", Observe, Medium},
		"instance: market":                 {"aws", "Instance", "", changed("/spot", immutable), "", Observe, Medium},
		"instance: tenancy":                {"aws", "Instance", "", changed("/tenancy", immutable), "", Observe, Medium},
		"instance: placement group":        {"aws", "Instance", "", changed("/placementGroup", immutable), "", Observe, Medium},
		"instance: capacity reservation":   {"aws", "Instance", "", changed("/capacityReservationId", immutable), "", Observe, Medium},
		"instance: cpu options":            {"aws", "Instance", "", changed("/cpuOptions/coreCount", immutable), "", Observe, Medium},
		"instance: key pair":               {"aws", "Instance", "", changed("/keyName", immutable), "", Observe, Medium},
		"instance: user data":              {"aws", "Instance", "", changed("/userData", immutable), "", Ignore, Info},
		"instance: scheduled events":       {"aws", "Instance", "", changed("/scheduledEvents", readOnly), "", Observe, Medium},
		"instance: load balancer":          {"aws", "Instance", "", changed("/loadBalancers/api", inPlace), "", Patch, High},
		// AWSCluster
		"VPC: missing":                       {"aws", "VPC", detector.Missing, *gone, "", Observe, Critical},
		"VPC: CIDR":                          {"aws", "VPC", "", changed("/cidrBlock", immutable), "", Observe, High},
		"VPC: DNS":                           {"aws", "VPC", "", changed("/enableDnsSupport", inPlace), "", Observe, High},
		"subnet: missing":                    {"aws", "Subnet", detector.Missing, *gone, "", Observe, Critical},
		"subnet: CIDR":                       {"aws", "Subnet", "", changed("/cidrBlock", immutable), "", Observe, High},
		"subnet: public addresses":           {"aws", "Subnet", "", changed("/mapPublicIpOnLaunch", inPlace), "", Observe, High},
		"subnet: tags":                       {"aws", "Subnet", "", changed("/tags/kubernetes.io~1role~1elb", inPlace), "", Patch, Medium},
		"internet gateway: missing":          {"aws", "InternetGateway", detector.Missing, *gone, "", Observe, High},
		"internet gateway: detached":         {"aws", "InternetGateway", "", changed("/vpcId", inPlace), "", Patch, High},
		"NAT gateway: missing":               {"aws", "NATGateway", detector.Missing, *gone, "", Observe, High},
		"NAT gateway: state":                 {"aws", "NATGateway", "", changed("/state", inPlace), "", Patch, High},
		"route: another target":              {"aws", "RouteTable", "", route("nat-1", "i-1"), "", Patch, High},
		"route: deleted":                     {"aws", "RouteTable", "", removed("/routes/0.0.0.0~10", "nat-1"), "", Patch, High},
		"route: association":                 {"aws", "RouteTable", "", removed("/associations", "subnet-1"), "", Patch, High},
		"route: public stays public":         {"aws", "RouteTable", "", route("igw-1", "igw-2"), "", Patch, High},
		"route: private subnet made public":  {"aws", "RouteTable", "", route("nat-1", "igw-1"), "", Observe, Critical},
		"route: the same, nothing declared":  {"aws", "RouteTable", "", added("/routes/0.0.0.0~10", "igw-1"), "", Observe, Critical},
		"route: the same, adopted":           {"aws", "RouteTable", "", adopted(route("nat-1", "igw-1")), "", Observe, Critical},
		"subnet: made public, adopted":       {"aws", "Subnet", "", adopted(changed("/tags/kubernetes.io~1role~1elb", inPlace)), "", Observe, Critical},
		"group: missing":                     {"aws", "SecurityGroup", detector.Missing, *gone, "", Observe, High},
		"group: ingress removed":             {"aws", "SecurityGroup", "", removed("/ingress", "tcp 443-443 from 10.0.0.0/8"), "", Patch, High},
		"group: ingress added":               {"aws", "SecurityGroup", "", added("/ingress", "tcp 22-22 from 10.0.0.0/8"), "", Patch, High},
		"group: opened to the world":         {"aws", "SecurityGroup", "", added("/ingress", "tcp 22-22 from 0.0.0.0/0"), "", Patch, Critical},
		"group: opened to the world by IPv6": {"aws", "SecurityGroup", "", added("/ingress", "all from ::/0"), "", Patch, Critical},
		"group: opened by halves":            {"aws", "SecurityGroup", "", added("/ingress", "all from 128.0.0.0/1"), "", Patch, Critical},
		"group: all addresses of IPv6":       {"aws", "SecurityGroup", "", added("/ingress", "all from 2000::/3"), "", Patch, Critical},
		"group: opened to a network":         {"aws", "SecurityGroup", "", added("/ingress", "all from fc00::/7"), "", Patch, High},
		"group: claimed, open to the world":  {"aws", "SecurityGroup", "", claimed("/ingress", "tcp 22-22 from 0.0.0.0/0"), "", Observe, Critical},
		"group: wanted open, closed":         {"aws", "SecurityGroup", "", removed("/ingress", "tcp 443-443 from 0.0.0.0/0"), "", Patch, High},
		"group: egress":                      {"aws", "SecurityGroup", "", added("/egress", "all to 0.0.0.0/0"), "", Patch, High},
		"group: tags":                        {"aws", "SecurityGroup", "", changed("/tags/x", inPlace), "", Patch, Low},
		"network ACL":                        {"aws", "NetworkACL", "", added("/ingress", "100 allow all from 0.0.0.0/0"), "", Observe, High},
		"load balancer: missing":             {"aws", "LoadBalancer", detector.Missing, *gone, "", Observe, High},
		"load balancer: listener":            {"aws", "LoadBalancer", "", removed("/listeners", "TCP:6443 to TCP:6443"), "", Patch, High},
		"load balancer: health check":        {"aws", "LoadBalancer", "", changed("/healthCheck/target", inPlace), "", Patch, High},
		"load balancer: scheme":              {"aws", "LoadBalancer", "", changed("/scheme", immutable), "", Observe, High},
		"load balancer: tags":                {"aws", "LoadBalancer", "", changed("/tags/x", inPlace), "", Patch, Low},
		"orphan instance":                    {"aws", "Instance", detector.Unexpected, *gone, "", Observe, Medium},
		"orphan group":                       {"aws", "SecurityGroup", detector.Unexpected, *gone, "", Observe, Medium},
		// VSphereMachine, VSphereVM
		"VM: existence":        {"vsphere", "VirtualMachine", detector.Missing, *gone, "", Replace, High},
		"VM: inaccessible":     {"vsphere", "VirtualMachine", detector.Unknown, detector.Diff{}, "", Observe, Info},
		"VM: power":            {"vsphere", "VirtualMachine", "", changed("/powerState", inPlace), "", Observe, High},
		"VM: CPUs":             {"vsphere", "VirtualMachine", "", changed("/numCPUs", disruptive), "", Replace, High},
		"VM: cores":            {"vsphere", "VirtualMachine", "", changed("/coresPerSocket", disruptive), "", Replace, High},
		"VM: memory":           {"vsphere", "VirtualMachine", "", changed("/memoryMiB", disruptive), "", Replace, High},
		"VM: disk":             {"vsphere", "VirtualMachine", "", changed("/disks/2000/sizeGiB", inPlace), "", Observe, Medium},
		"VM: port group":       {"vsphere", "VirtualMachine", "", changed("/networks/0/networkName", inPlace), "", Patch, High},
		"VM: adapter":          {"vsphere", "VirtualMachine", "", changed("/networks/0/adapterType", inPlace), "", Observe, High},
		"VM: address":          {"vsphere", "VirtualMachine", "", changed("/addresses", readOnly), "", Observe, Medium},
		"VM: folder":           {"vsphere", "VirtualMachine", "", changed("/folder", inPlace), "", Observe, Medium},
		"VM: pool":             {"vsphere", "VirtualMachine", "", changed("/resourcePool", inPlace), "", Observe, Medium},
		"VM: datastore":        {"vsphere", "VirtualMachine", "", changed("/datastore", inPlace), "", Observe, Medium},
		"VM: resources":        {"vsphere", "VirtualMachine", "", changed("/resources/limits/cpu", inPlace), "", Observe, Medium},
		"VM: renamed":          {"vsphere", "VirtualMachine", "", changed("/name", inPlace), "", Observe, Low},
		"VM: datacenter":       {"vsphere", "VirtualMachine", "", changed("/datacenter", inPlace), "", Observe, Medium},
		"VM: hardware version": {"vsphere", "VirtualMachine", "", changed("/hardwareVersion", disruptive), "", Observe, Low},
		"VM: tags":             {"vsphere", "VirtualMachine", "", changed("/tags/Env:prod", inPlace), "", Patch, Low},
		"VM: extraConfig":      {"vsphere", "VirtualMachine", "", changed("/extraConfig/a", inPlace), "", Patch, Medium},
		"VM: PCI devices":      {"vsphere", "VirtualMachine", "", changed("/pciDevices", immutable), "", Observe, Medium},
		"VM: snapshots":        {"vsphere", "VirtualMachine", "", changed("/snapshots", readOnly), "", Observe, Low},
		// Cluster API and the node
		"node: missing":           {"", "Node", detector.Missing, *gone, "", Observe, High},
		"node: providerID":        {"", "Node", "", changed("/spec/providerID", immutable), "", Observe, Critical},
		"node: version":           {"", "Node", "", changed("/status/nodeInfo/kubeletVersion", immutable), "", Observe, Medium},
		"node: labels":            {"", "Node", "", changed("/metadata/labels/a", inPlace), "", Observe, Medium},
		"node: taints":            {"", "Node", "", changed("/spec/taints", inPlace), "", Observe, Medium},
		"node: anything else":     {"", "Node", "", changed("/state", immutable), "", Observe, Medium},
		"node: object without it": {"", "Node", detector.Unexpected, detector.Diff{}, "", Observe, Medium},
		// What no row names
		"something not modelled": {"aws", "Instance", detector.NotChecked, detector.Diff{}, "", Observe, Info},
		"another kind":           {"docker", "Container", "", changed("/image", immutable), "", Observe, Low},
		"foreign":                {"aws", "SecurityGroup", detector.Foreign, added("/ingress", "tcp 1-1 from sg-lb"), "", Observe, Info},
	}
	used := map[string]bool{}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			owner := workerRef(0)
			if slices.Contains(clusterKinds, tc.kind) {
				owner = infraRef
			}
			f := instanceFinding(owner, func(f *detector.Finding) {
				f.Resource.Provider, f.Resource.Kind = tc.provider, tc.kind
				if tc.status != "" {
					f.Status = tc.status
				}
				if tc.diff.Path != "" {
					f.Diffs = []detector.Diff{tc.diff}
				}
				if tc.reason != "" {
					f.Have.Fields.Set("/stateReason", providers.Field{Value: providers.String(tc.reason)})
				}
			})
			ds := Decide(makeInput(t, withFindings(f), func(in *Input) { in.Policies = nil }, seenLong))
			if len(ds) != 1 {
				t.Fatalf("%d decisions", len(ds))
			}
			d := ds[0]
			used[d.Rule.ID] = true
			if d.Action != tc.action || d.Severity != tc.severity {
				t.Errorf("%s %s by %s (%s), want %s %s", d.Action, d.Severity, d.Rule.ID, d.Reason, tc.action, tc.severity)
			}
			if d.Mode != ModeObserve || d.Executable() || acts(d.Action) && !slices.Equal(gatesOf(d), []string{GateMode}) {
				t.Errorf("mode %s, blocked by %v: nothing else than the mode holds a default back", d.Mode, d.Blocked)
			}
		})
	}
	for _, id := range []string{"aws-bastion", "aws-volume", "aws-network-interface"} {
		used[id] = true // tested with the cases
	}
	for _, p := range builtinPolicies() {
		for _, r := range p.rules {
			if !used[r.ID] && !slices.Contains([]string{"any-missing"}, r.ID) {
				t.Errorf("rule %s decides no row", r.ID)
			}
		}
	}
}

// TestDefaultsCompile loads the built-in policies against a catalog of all the
// fields that they name.
func TestDefaultsCompile(t *testing.T) {
	if ps, problems := compileBuiltin(newCatalog(nil)); len(problems) > 0 || len(ps) != 4 {
		t.Errorf("%d policies: %v", len(ps), problems)
	}
}
