package ec2sim

import (
	"slices"
	"strings"
)

// catalogActions are on things that are named, not numbered.
var catalogActions = []*action{
	read("DescribeRegions", (*call).describeRegions),
	read("DescribeAvailabilityZones", (*call).describeZones),
	read("DescribeInstanceTypes", (*call).describeInstanceTypes),
	read("DescribeInstanceTypeOfferings", (*call).describeOfferings),
	write("ImportKeyPair", (*call).importKeyPair),
	write("DeleteKeyPair", (*call).deleteKeyPair),
	read("DescribeKeyPairs", (*call).describeKeyPairs),
	write("CreatePlacementGroup", (*call).createPlacementGroup),
	write("DeletePlacementGroup", (*call).deletePlacementGroup),
	read("DescribePlacementGroups", (*call).describePlacementGroups),
}

type regionsIn struct {
	filterIns
	RegionName []string
	AllRegions bool
}

type regionsOut struct{ RegionInfo []regionItem }

type regionItem struct{ RegionName, RegionEndpoint, OptInStatus string }

func (c *call) describeRegions(in *regionsIn) (out regionsOut, err *apiError) {
	for _, name := range c.srv.options.Regions {
		if len(in.RegionName) == 0 || slices.Contains(in.RegionName, name) {
			out.RegionInfo = append(out.RegionInfo, regionItem{name, "ec2." + name + ".amazonaws.com", "opt-in-not-required"})
		}
	}
	return out, nil
}

type zonesIn struct {
	filterIns
	ZoneName             []string
	ZoneID               []string
	AllAvailabilityZones bool
}

type zonesOut struct{ AvailabilityZoneInfo []*zoneItem }

type zoneItem struct {
	meta               `wire:"-"`
	ZoneName           string
	ZoneID             string
	ZoneState          string
	ZoneType           string
	RegionName         string
	GroupName          string
	NetworkBorderGroup string
	OptInStatus        string
}

func (c *call) describeZones(in *zonesIn) (out zonesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, filters[*zoneItem]{
		"zone-name":   func(z *zoneItem) []string { return []string{z.ZoneName} },
		"zone-id":     func(z *zoneItem) []string { return []string{z.ZoneID} },
		"zone-type":   func(z *zoneItem) []string { return []string{z.ZoneType} },
		"region-name": func(z *zoneItem) []string { return []string{z.RegionName} },
		"state":       func(z *zoneItem) []string { return []string{z.ZoneState} },
		"opt-in-status": func(z *zoneItem) []string {
			return []string{z.OptInStatus}
		},
	})
	if err != nil {
		return out, err
	}
	for _, name := range c.zones() {
		z := &zoneItem{
			ZoneName: name, ZoneID: c.zoneID(name), ZoneState: "available", ZoneType: "availability-zone", RegionName: c.name,
			GroupName: c.name, NetworkBorderGroup: c.name, OptInStatus: "opt-in-not-required",
		}
		if keep(z) && (len(in.ZoneName) == 0 || slices.Contains(in.ZoneName, name)) {
			out.AvailabilityZoneInfo = append(out.AvailabilityZoneInfo, z)
		}
	}
	return out, nil
}

// sizes tell vCPUs by the part of an instance type after the dot.
var sizes = map[string]int{
	"nano": 2, "micro": 2, "small": 2, "medium": 2, "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32,
	"9xlarge": 36, "12xlarge": 48, "16xlarge": 64, "18xlarge": 72, "24xlarge": 96, "32xlarge": 128, "48xlarge": 192,
}

var memoryMiB = map[string]int{"nano": 512, "micro": 1024, "small": 2048, "medium": 4096, "large": 8192}

// cpuOf is an instance type's default CPU options; older small types and
// Arm's have one thread a core.
func cpuOf(instanceType string) cpuOptions {
	family, size, _ := strings.Cut(instanceType, ".")
	vcpus := max(sizes[size], 1)
	if armFamily(family) {
		return cpuOptions{vcpus, 1}
	}
	return cpuOptions{max(vcpus/2, 1), 2}
}

// armFamily tells families of Graviton processors: m6g, c7gn, t4g, a1.
func armFamily(family string) bool {
	digit := strings.IndexAny(family, "123456789")
	return family == "a1" || digit >= 0 && strings.Contains(family[digit:], "g")
}

type instanceTypesIn struct {
	filterIns
	pageIn
	InstanceType []string
}

type instanceTypesOut struct{ InstanceTypeSet []instanceTypeItem }

type instanceTypeItem struct {
	InstanceType      string
	CurrentGeneration bool
	BareMetal         bool
	Hypervisor        string
	ProcessorInfo     struct{ SupportedArchitectures []string }
	VCPUInfo          struct {
		DefaultVCPUs          int `wire:"defaultVCpus"`
		DefaultCores          int
		DefaultThreadsPerCore int
	} `wire:"vCpuInfo"`
	MemoryInfo struct {
		SizeInMiB int `wire:"sizeInMiB"`
	}
	SupportedRootDeviceTypes []string
}

// describeInstanceTypes makes each named type up from its name; there is no
// list of all of them.
func (c *call) describeInstanceTypes(in *instanceTypesIn) (out instanceTypesOut, err *apiError) {
	if len(in.InstanceType) == 0 {
		in.InstanceType = []string{"t3.medium", "t3.large", "m5.large", "m5.xlarge", "m5.2xlarge", "c5.large", "m6g.large"}
	}
	for _, name := range in.InstanceType {
		family, size, found := strings.Cut(name, ".")
		if !found || sizes[size] == 0 {
			return out, failf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
		cpu := cpuOf(name)
		item := instanceTypeItem{InstanceType: name, CurrentGeneration: true, Hypervisor: "nitro", SupportedRootDeviceTypes: []string{"ebs"}}
		item.ProcessorInfo.SupportedArchitectures = []string{"x86_64"}
		if armFamily(family) {
			item.ProcessorInfo.SupportedArchitectures[0] = "arm64"
		}
		item.VCPUInfo.DefaultVCPUs, item.VCPUInfo.DefaultCores, item.VCPUInfo.DefaultThreadsPerCore = cpu.CoreCount*cpu.ThreadsPerCore, cpu.CoreCount, cpu.ThreadsPerCore
		item.MemoryInfo.SizeInMiB = memoryMiB[size]
		if item.MemoryInfo.SizeInMiB == 0 {
			item.MemoryInfo.SizeInMiB = sizes[size] * 4096
		}
		out.InstanceTypeSet = append(out.InstanceTypeSet, item)
	}
	return out, nil
}

type offeringsIn struct {
	filterIns
	pageIn
	LocationType string
}

type offeringsOut struct{ InstanceTypeOfferingSet []offering }

type offering struct{ InstanceType, LocationType, Location string }

// describeOfferings offers every type that an instance-type filter names, in
// every zone.
func (c *call) describeOfferings(in *offeringsIn) (out offeringsOut, err *apiError) {
	locations, locationType := []string{c.name}, "region"
	if in.LocationType == "availability-zone" {
		locations, locationType = c.zones(), in.LocationType
	}
	for _, f := range in.Filter {
		if f.Name != "instance-type" {
			return out, failf("InvalidParameterValue", "The filter '%s' is invalid", f.Name)
		}
		for _, name := range f.Value {
			for _, location := range locations {
				out.InstanceTypeOfferingSet = append(out.InstanceTypeOfferingSet, offering{name, locationType, location})
			}
		}
	}
	return out, nil
}
