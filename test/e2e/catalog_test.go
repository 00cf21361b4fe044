package e2e

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/vsphere"
)

// The tests that play rows of the catalog, and which of them have rows set back.
const (
	inSetBack        = "TestAWSRowsAreSetBack"
	inReplaced       = "TestAWSMachinesAreReplaced"
	inLosses         = "TestAWSLossesAreTold"
	inMoto           = "TestMotoRowsAreSetBack"
	inVSphereSetBack = "TestVSphereRowsAreSetBack"
	inNodesSetBack   = "TestNodeRowsAreSetBack"
	inNodesReplaced  = "TestMachinesAreReplacedForTheirNodes"
)

var rowTests = map[string]struct {
	test     func(*testing.T)
	setsBack bool
}{
	inSetBack: {TestAWSRowsAreSetBack, true}, inReplaced: {TestAWSMachinesAreReplaced, false}, inLosses: {TestAWSLossesAreTold, false},
	inMoto: {TestMotoRowsAreSetBack, true}, inVSphereSetBack: {TestVSphereRowsAreSetBack, true},
	inNodesSetBack: {TestNodeRowsAreSetBack, true}, inNodesReplaced: {TestMachinesAreReplacedForTheirNodes, false},
}

const (
	elsewhere  = "immutable, and an id in the spec names it: with another id it is another resource that is wanted"
	unreported = "immutable, and EC2 reports it for some instance types only, which the simulator has not: it is not checked then"
	twoKinds   = "immutable: the two kinds of gateway have ids of their own"
	targets    = "immutable: a target group of another port or protocol is another target group"
)

// awsPlayed says for each row of the catalog of AWS by which test the real
// program is made to see it drift, or why none does.
var awsPlayed = map[string]string{
	"Instance/state": inSetBack, "Instance/instanceType": inSetBack, "Instance/tags/KEY": inSetBack, "Instance/securityGroups": inSetBack,
	"Instance/iamInstanceProfile": inSetBack, "Instance/iamInstanceProfileArn": inSetBack,
	"Instance/metadataOptions/httpTokens": inSetBack, "Instance/metadataOptions/httpEndpoint": inSetBack,
	"Instance/metadataOptions/httpPutResponseHopLimit": inSetBack, "Instance/metadataOptions/instanceMetadataTags": inSetBack,
	"Instance/rootVolume/size": inSetBack, "Instance/rootVolume/type": inSetBack, "Instance/rootVolume/iops": inSetBack, "Instance/rootVolume/throughput": inSetBack,
	"Instance/nonRootVolumes/DEVICE/size": inSetBack, "Instance/nonRootVolumes/DEVICE/type": inSetBack,
	"Instance/nonRootVolumes/DEVICE/iops": inSetBack, "Instance/nonRootVolumes/DEVICE/throughput": inSetBack,
	"Instance/scheduledEvents": inSetBack, "Instance/loadBalancers/NAME": inSetBack,
	"Instance/imageId": inReplaced, "Instance/subnetId": inReplaced, "Instance/availabilityZone": inReplaced, "Instance/publicIp": inReplaced,
	"Instance/rootVolume/encrypted": inReplaced, "Instance/rootVolume/kmsKeyId": inReplaced,
	"Instance/nonRootVolumes/DEVICE/encrypted": inReplaced, "Instance/nonRootVolumes/DEVICE/kmsKeyId": inReplaced,
	"Instance/keyName": inReplaced, "Instance/spot": inReplaced, "Instance/tenancy": inReplaced, "Instance/hostId": inReplaced,
	"Instance/placementGroup": inReplaced, "Instance/placementGroupPartition": inReplaced, "Instance/capacityReservationId": inReplaced,
	"Instance/cpuOptions/amdSevSnp": unreported, "Instance/cpuOptions/nestedVirtualization": unreported,
	"Instance/userData": "not compared: informational after boot",

	"NetworkInterface/state": inReplaced, "NetworkInterface/instanceId": inSetBack, "NetworkInterface/deviceIndex": inSetBack,

	"VPC/state": "EC2 refuses to delete a VPC with a cluster in it", "VPC/cidrBlock": inLosses, "VPC/cidrBlocks": inSetBack,
	"VPC/enableDnsSupport": inSetBack, "VPC/enableDnsHostnames": inSetBack, "VPC/tags/KEY": inSetBack,

	"Subnet/state": inLosses, "Subnet/vpcId": elsewhere, "Subnet/availabilityZone": elsewhere, "Subnet/cidrBlock": inLosses, "Subnet/ipv6CidrBlock": inLosses,
	"Subnet/mapPublicIpOnLaunch": inSetBack, "Subnet/routeTableId": inSetBack, "Subnet/tags/KEY": inSetBack,

	"InternetGateway/state": inLosses, "InternetGateway/vpcId": inMoto, "InternetGateway/egressOnly": twoKinds, "InternetGateway/tags/KEY": inSetBack,

	"NATGateway/state": inLosses, "NATGateway/vpcId": elsewhere, "NATGateway/subnetId": elsewhere, "NATGateway/tags/KEY": inSetBack,

	"RouteTable/state": inLosses, "RouteTable/vpcId": elsewhere, "RouteTable/associations": inSetBack,
	"RouteTable/routes/DESTINATION": inSetBack, "RouteTable/tags/KEY": inSetBack,

	"NetworkACL/state": "EC2 refuses to delete a default network ACL", "NetworkACL/associations": inSetBack,
	"NetworkACL/ingress": inSetBack, "NetworkACL/egress": inSetBack,

	"SecurityGroup/state": inMoto, "SecurityGroup/vpcId": elsewhere, "SecurityGroup/ingress": inSetBack, "SecurityGroup/egress": inSetBack,
	"SecurityGroup/tags/KEY": inSetBack,

	"LoadBalancer/state": inLosses, "LoadBalancer/type": "immutable: another type is another load balancer", "LoadBalancer/scheme": inLosses,
	"LoadBalancer/vpcId": elsewhere, "LoadBalancer/subnets": inSetBack, "LoadBalancer/securityGroups": inSetBack, "LoadBalancer/listeners": inSetBack,
	"LoadBalancer/healthCheck/target": inSetBack, "LoadBalancer/healthCheck/interval": inSetBack, "LoadBalancer/healthCheck/timeout": inSetBack,
	"LoadBalancer/healthCheck/healthyThreshold": inSetBack, "LoadBalancer/healthCheck/unhealthyThreshold": inSetBack,
	"LoadBalancer/targetGroups/NAME/protocol": targets, "LoadBalancer/targetGroups/NAME/port": targets,
	"LoadBalancer/targetGroups/NAME/healthCheck/protocol": inSetBack, "LoadBalancer/targetGroups/NAME/healthCheck/port": inSetBack,
	"LoadBalancer/targetGroups/NAME/healthCheck/path": inSetBack, "LoadBalancer/targetGroups/NAME/healthCheck/interval": inSetBack,
	"LoadBalancer/targetGroups/NAME/healthCheck/timeout": inSetBack, "LoadBalancer/targetGroups/NAME/healthCheck/healthyThreshold": inSetBack,
	"LoadBalancer/targetGroups/NAME/healthCheck/unhealthyThreshold": inSetBack,
	"LoadBalancer/attributes/crossZone":                             inSetBack, "LoadBalancer/attributes/idleTimeout": inSetBack, "LoadBalancer/tags/KEY": inSetBack,

	"Volume/state": inMoto,
}

// vspherePlayed says the same of vSphere.
var vspherePlayed = map[string]string{
	"VirtualMachine/datacenter": "immutable: a machine of another datacenter is another machine, and with another datacenter declared its folder, pool and network are wanted there",
}

// nodePlayed says the same of the Nodes of machines on any cloud.
var nodePlayed = map[string]string{
	"Node/metadata/labels/KEY": inNodesSetBack, "Node/spec/taints": inNodesSetBack,
	"Node/state": inNodesReplaced, "Node/spec/providerID": inNodesReplaced, "Node/status/nodeInfo/kubeletVersion": inNodesReplaced,
}

func init() {
	for _, path := range []string{
		"/powerState", "/numCPUs", "/coresPerSocket", "/memoryMiB", "/hardwareVersion", "/nestedHV", "/ftEncryptionMode", "/migrateEncryption",
		"/resources/requests/cpu", "/resources/requests/memory", "/resources/limits/cpu", "/resources/limits/memory", "/resources/shares/cpu", "/resources/shares/memory",
		"/disks/KEY/sizeGiB", "/pciDevices", "/networkCount", "/networks/INDEX/networkName", "/networks/INDEX/adapterType", "/networks/INDEX/macAddress",
		"/addresses", "/folder", "/resourcePool", "/datastore", "/storagePolicy", "/vmGroups", "/name", "/tags/TAG", "/extraConfig/KEY", "/snapshots",
	} {
		vspherePlayed["VirtualMachine"+path] = inVSphereSetBack
	}
}

// No row of a catalog is without a test that has it drift before the real
// program, or a written reason; what can be set back in place is set back.
func TestEveryCatalogRowIsPlayed(t *testing.T) {
	for name, c := range map[string]struct {
		catalog []providers.CatalogRow
		played  map[string]string
	}{
		"aws": {aws.Registration().Catalog, awsPlayed}, "vsphere": {vsphere.Registration().Catalog, vspherePlayed},
		"Nodes on aws": {nodeCatalog(aws.Registration()), nodePlayed}, "Nodes on vsphere": {nodeCatalog(vsphere.Registration()), nodePlayed},
	} {
		t.Run(name, func(t *testing.T) {
			rows := map[string]bool{}
			for _, row := range c.catalog {
				key := row.Kind + row.Path
				rows[key] = true
				by, ok := c.played[key]
				if !ok || by == "" {
					t.Errorf("row %s: nothing plays it, and no reason is given", key)
					continue
				}
				test, ok := rowTests[by]
				if strings.HasPrefix(by, "Test") != ok {
					t.Errorf("row %s: there is no test %s", key, by)
				}
				patchable := row.Mutability == providers.InPlace || row.Mutability == providers.InPlaceDisruptive
				if patchable && !test.setsBack {
					t.Errorf("row %s can be set back in place, and nothing plays that: %s", key, by)
				}
			}
			for key := range c.played {
				if !rows[key] {
					t.Errorf("there is no row %s", key)
				}
			}
		})
	}
}

// check fails for rows that a table says the test has drift, and that did not.
func (c *coverage) check(t *testing.T, played map[string]string) {
	t.Helper()
	for row, by := range played {
		if by == t.Name() && !c.seen[row] {
			t.Errorf("row %s never drifted here", row)
		}
	}
}
