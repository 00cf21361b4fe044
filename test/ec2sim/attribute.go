package ec2sim

import (
	"slices"
	"strconv"
)

var attributeActions = []*action{
	write("ModifyInstanceAttribute", (*call).modifyInstance),
	read("DescribeInstanceAttribute", (*call).describeInstanceAttribute),
	write("ModifyInstanceMetadataOptions", (*call).modifyMetadata),
	write("ModifyInstancePlacement", (*call).modifyPlacement),
}

// defaultMetadata is what an instance has whose launch says nothing
// ("Instance metadata options", EC2 user guide).
var defaultMetadata = metadataOptions{
	State: "applied", HTTPTokens: "optional", HTTPPutResponseHopLimit: 1, HTTPEndpoint: "enabled",
	HTTPProtocolIPv6: "disabled", InstanceMetadataTags: "disabled",
}

// with sets the given options and checks them.
func (m metadataOptions) with(in metadataIn) (metadataOptions, *apiError) {
	for _, option := range []struct {
		name, value string
		target      *string
		allowed     []string
	}{
		{"HttpTokens", in.HTTPTokens, &m.HTTPTokens, []string{"optional", "required"}},
		{"HttpEndpoint", in.HTTPEndpoint, &m.HTTPEndpoint, []string{"enabled", "disabled"}},
		{"HttpProtocolIpv6", in.HTTPProtocolIPv6, &m.HTTPProtocolIPv6, []string{"enabled", "disabled"}},
		{"InstanceMetadataTags", in.InstanceMetadataTags, &m.InstanceMetadataTags, []string{"enabled", "disabled"}},
	} {
		if option.value == "" {
			continue
		}
		if !slices.Contains(option.allowed, option.value) {
			return m, invalid(option.name, option.value, "Expecting "+quoted(option.allowed))
		}
		*option.target = option.value
	}
	if n := in.HTTPPutResponseHopLimit; n != nil {
		if *n < 1 || *n > 64 {
			return m, invalid("HttpPutResponseHopLimit", strconv.Itoa(*n), "Expecting 1 to 64")
		}
		m.HTTPPutResponseHopLimit = *n
	}
	return m, nil
}

type modifyMetadataIn struct {
	InstanceID string
	metadataIn
}

type modifyMetadataOut struct {
	InstanceID              string
	InstanceMetadataOptions metadataOptions
}

func (c *call) modifyMetadata(in *modifyMetadataIn) (out modifyMetadataOut, err *apiError) {
	i, err := c.instances.get(c, "instanceId", in.InstanceID)
	if err != nil {
		return out, err
	}
	if i.state != "running" && i.state != "stopped" {
		return out, incorrectState(i)
	}
	options, err := i.metadata.with(in.metadataIn)
	if err != nil {
		return out, err
	}
	i.metadata = options
	options.State = "pending" // what the reference's example shows; applied at the next read
	return modifyMetadataOut{i.id, options}, nil
}

type modifyPlacementIn struct {
	InstanceID string
	placementIn
}

func (c *call) modifyPlacement(in *modifyPlacementIn) (done, *apiError) {
	i, err := c.instances.get(c, "instanceId", in.InstanceID)
	if err != nil {
		return done{}, err
	}
	if i.state != "stopped" {
		return done{}, incorrectState(i)
	}
	if in.Tenancy != "" {
		i.placement.Tenancy = in.Tenancy
	}
	if in.GroupName != "" {
		g := c.placementGroups[in.GroupName]
		if g == nil {
			return done{}, failf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", in.GroupName)
		}
		i.placement.GroupName, i.placement.GroupID = g.GroupName, g.GroupID
	}
	if in.PartitionNumber != 0 {
		i.placement.PartitionNumber = in.PartitionNumber
	}
	return ok()
}

type modifyInstanceIn struct {
	InstanceID                        string
	Attribute, Value                  string
	InstanceType                      *textValue
	UserData                          *textValue
	DisableAPITermination             *boolAttribute `wire:"DisableApiTermination"`
	DisableAPIStop                    *boolAttribute `wire:"DisableApiStop"`
	EBSOptimized                      *boolAttribute
	SourceDestCheck                   *boolAttribute
	InstanceInitiatedShutdownBehavior *textValue
	GroupID                           []string
	BlockDeviceMapping                []struct {
		DeviceName string
		EBS        struct {
			DeleteOnTermination *bool
			VolumeID            string
		}
	}
}

// modifyInstance: type, user data and EBS optimization change only while the
// instance is stopped (ModifyInstanceAttribute reference).
func (c *call) modifyInstance(in *modifyInstanceIn) (done, *apiError) {
	i, err := c.instances.get(c, "instanceId", in.InstanceID)
	if err != nil {
		return done{}, err
	}
	if err := in.spread(); err != nil {
		return done{}, err
	}
	if (in.InstanceType != nil || in.UserData != nil || in.EBSOptimized != nil) && i.state != "stopped" {
		return done{}, failf("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.", i.id)
	}
	switch {
	case in.InstanceType != nil:
		if !instanceTypeName.MatchString(in.InstanceType.Value) {
			return done{}, failf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", in.InstanceType.Value)
		}
		i.kind, i.cpu = in.InstanceType.Value, cpuOf(in.InstanceType.Value)
	case in.UserData != nil:
		i.userData = in.UserData.Value
	case in.DisableAPITermination != nil:
		i.keepRunning = in.DisableAPITermination.Value
	case in.DisableAPIStop != nil:
		i.keepStarted = in.DisableAPIStop.Value
	case in.EBSOptimized != nil:
		i.ebsOptimized = in.EBSOptimized.Value
	case in.InstanceInitiatedShutdownBehavior != nil:
		i.shutdownBehavior = in.InstanceInitiatedShutdownBehavior.Value
	case in.SourceDestCheck != nil || in.GroupID != nil:
		return c.modifyPrimaryInterface(i, in)
	case in.BlockDeviceMapping != nil:
		return c.modifyDevices(i, in)
	default:
		return done{}, failf("InvalidParameterCombination", "No attributes specified.")
	}
	return ok()
}

// spread turns the older form, Attribute and Value, into the newer one.
func (in *modifyInstanceIn) spread() *apiError {
	if in.Attribute == "" {
		return nil
	}
	text, flag := &textValue{in.Value}, &boolAttribute{in.Value == "true"}
	switch in.Attribute {
	case "instanceType":
		in.InstanceType = text
	case "userData":
		in.UserData = text
	case "disableApiTermination":
		in.DisableAPITermination = flag
	case "sourceDestCheck":
		in.SourceDestCheck = flag
	case "ebsOptimized":
		in.EBSOptimized = flag
	case "instanceInitiatedShutdownBehavior":
		in.InstanceInitiatedShutdownBehavior = text
	case "blockDeviceMapping":
	default:
		return invalid("attribute", in.Attribute, "Unknown attribute.")
	}
	return nil
}

func (c *call) modifyPrimaryInterface(i *instance, in *modifyInstanceIn) (done, *apiError) {
	if len(i.interfaces) != 1 {
		return done{}, failf("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.id)
	}
	nic := i.interfaces[0]
	if in.SourceDestCheck != nil {
		nic.SourceDestCheck = in.SourceDestCheck.Value
	}
	if in.GroupID != nil {
		groups, err := c.groupsIn(i.vpcID, in.GroupID)
		if err != nil {
			return done{}, err
		}
		nic.GroupSet = refs(groups)
	}
	return ok()
}

func (c *call) modifyDevices(i *instance, in *modifyInstanceIn) (done, *apiError) {
	for _, wanted := range in.BlockDeviceMapping {
		d := i.device(wanted.DeviceName)
		if d == nil {
			return done{}, failf("InvalidInstanceAttributeValue", "No device is currently mapped at %s", wanted.DeviceName)
		}
		if wanted.EBS.DeleteOnTermination != nil {
			d.deleteOnTermination = *wanted.EBS.DeleteOnTermination
		}
	}
	return ok()
}

type describeInstanceAttributeIn struct{ InstanceID, Attribute string }

type describeInstanceAttributeOut struct {
	InstanceID                        string
	InstanceType                      *textValue
	UserData                          *textValue
	DisableAPITermination             *boolAttribute `wire:"disableApiTermination"`
	DisableAPIStop                    *boolAttribute `wire:"disableApiStop"`
	EBSOptimized                      *boolAttribute
	SourceDestCheck                   *boolAttribute
	InstanceInitiatedShutdownBehavior *textValue
	RootDeviceName                    *textValue
	GroupSet                          []groupRef `wire:"groupSet,omitempty"`
}

func (c *call) describeInstanceAttribute(in *describeInstanceAttributeIn) (out describeInstanceAttributeOut, err *apiError) {
	i, err := c.instances.get(c, "instanceId", in.InstanceID)
	if err != nil {
		return out, err
	}
	out.InstanceID = i.id
	view := i.view()
	switch in.Attribute {
	case "instanceType":
		out.InstanceType = &textValue{i.kind}
	case "userData":
		out.UserData = &textValue{i.userData}
	case "disableApiTermination":
		out.DisableAPITermination = &boolAttribute{i.keepRunning}
	case "disableApiStop":
		out.DisableAPIStop = &boolAttribute{i.keepStarted}
	case "ebsOptimized":
		out.EBSOptimized = &boolAttribute{i.ebsOptimized}
	case "rootDeviceName":
		out.RootDeviceName = &textValue{i.image.RootDeviceName}
	case "groupSet":
		out.GroupSet = view.GroupSet
	case "sourceDestCheck":
		out.SourceDestCheck = &boolAttribute{view.SourceDestCheck != nil && *view.SourceDestCheck}
	case "instanceInitiatedShutdownBehavior":
		out.InstanceInitiatedShutdownBehavior = &textValue{i.shutdownBehavior}
		if i.shutdownBehavior == "" {
			out.InstanceInitiatedShutdownBehavior.Value = "stop"
		}
	default:
		return out, invalid("attribute", in.Attribute, "Unknown attribute.")
	}
	return out, nil
}
