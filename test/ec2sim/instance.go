package ec2sim

import "time"

// instance is a virtual machine. What DescribeInstances shows of it is made
// by view, from it and from the things that it is attached to.
type instance struct {
	meta
	reservation *reservation
	index       int
	image       *image
	kind        string
	keyName     string
	clientToken string
	launched    time.Time
	state       string
	reason      *stateReason
	transition  string
	epoch       int // counts state changes, so that outdated transitions are dropped

	subnet     *subnet
	zone       string
	vpcID      string
	interfaces []*networkInterface
	devices    []*attachment
	publicIP   string
	// wantsPublicIP is the launch's own choice; nil leaves it to the subnet.
	wantsPublicIP *bool
	profile       *profileAssociation
	events        []ScheduledEvent

	metadata            metadataOptions
	placement           placement
	cpu                 cpuOptions
	spotRequest         string
	capacityReservation string
	capacityPreference  string
	userData            string
	monitoring          bool
	ebsOptimized        bool
	keepRunning         bool // disableApiTermination
	keepStarted         bool // disableApiStop
	shutdownBehavior    string
	hostname            hostnameOptions
}

type reservation struct{ id string }

type stateReason struct{ Code, Message string }

// metadataOptions of the instance metadata service.
type metadataOptions struct {
	State                   string
	HTTPTokens              string
	HTTPPutResponseHopLimit int
	HTTPEndpoint            string
	HTTPProtocolIPv6        string
	InstanceMetadataTags    string
}

type placement struct {
	AvailabilityZone   string
	AvailabilityZoneID string
	GroupName          string
	GroupID            string
	Tenancy            string
	HostID             string
	PartitionNumber    int `wire:"partitionNumber,omitempty"`
}

type cpuOptions struct{ CoreCount, ThreadsPerCore int }

var stateCodes = map[string]int{
	"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80,
}

type instanceState struct {
	Code int
	Name string
}

func (i *instance) shownState() instanceState { return instanceState{stateCodes[i.state], i.state} }

func incorrectState(i *instance) *apiError {
	return failf("IncorrectInstanceState", "The instance '%s' is not in a valid state for this operation (it is %s).", i.id, i.state)
}

// become changes the state now, and by then changes it again after a delay,
// unless another change comes first.
func (r *region) become(i *instance, state string, now time.Time, delay time.Duration, then func(now time.Time)) {
	i.state = state
	i.epoch++
	r.notice(i, now)
	if then == nil {
		return
	}
	epoch := i.epoch
	r.later(now, delay, func(now time.Time) {
		if i.epoch == epoch {
			then(now)
		}
	})
}

func (r *region) start(i *instance, now time.Time) {
	i.launched, i.transition = now, ""
	i.reason = &stateReason{"pending", "pending"}
	r.become(i, "pending", now, r.srv.delays.Pending, func(now time.Time) {
		i.reason = nil
		r.become(i, "running", now, 0, nil)
	})
	if i.publicIP == "" && i.autoPublicIP() {
		r.givePublicIP(i)
	}
}

// autoPublicIP tells that a start gives a new public address: the launch or
// the subnet asks for it, and there is no elastic one.
func (i *instance) autoPublicIP() bool {
	if len(i.interfaces) == 0 || i.interfaces[0].Association != nil {
		return false
	}
	if i.wantsPublicIP != nil {
		return *i.wantsPublicIP
	}
	return i.interfaces[0].subnet.MapPublicIPOnLaunch
}

func (r *region) givePublicIP(i *instance) {
	i.publicIP = r.newPublicIP()
	i.interfaces[0].Association = &publicAddress{PublicIP: i.publicIP, PublicDNSName: r.publicDNSName(i.publicIP), IPOwnerID: "amazon"}
}

func userInitiated(now time.Time) string {
	return "User initiated (" + now.UTC().Format("2006-01-02 15:04:05") + " GMT)"
}

func (r *region) stop(i *instance, now time.Time, reason stateReason, transition string) {
	i.reason, i.transition = &reason, transition
	r.become(i, "stopping", now, r.srv.delays.Stopping, func(now time.Time) {
		if i.publicIP != "" && len(i.interfaces) > 0 && i.interfaces[0].Association != nil && i.interfaces[0].Association.AllocationID == "" {
			i.interfaces[0].Association = nil
		}
		i.publicIP = ""
		r.become(i, "stopped", now, 0, nil)
	})
}

// terminate ends an instance. Its volumes and interfaces go when it is
// terminated, those that are not to be deleted are detached; it is described
// for a while after that ("Terminate Amazon EC2 instances", user guide).
func (r *region) terminate(i *instance, now time.Time, reason stateReason, transition string) {
	i.reason, i.transition = &reason, transition
	r.become(i, "shutting-down", now, r.srv.delays.ShuttingDown, func(now time.Time) {
		r.release(i)
		r.become(i, "terminated", now, r.srv.delays.TerminatedVisible, func(time.Time) { r.instances.remove(i.id) })
	})
}

func (r *region) release(i *instance) {
	for _, nic := range i.interfaces {
		if nic.Attachment.DeleteOnTermination {
			r.dropInterface(nic)
			continue
		}
		nic.Attachment, nic.Status = nil, "available"
	}
	for _, d := range i.devices {
		d.volume.attachments = nil
		d.volume.status = "available"
		if d.deleteOnTermination {
			r.volumes.remove(d.volume.id)
		}
	}
	i.interfaces, i.devices, i.publicIP, i.profile = nil, nil, "", nil
}

// instanceView is an instance as DescribeInstances shows it.
type instanceView struct {
	InstanceID                       string
	ImageID                          string
	InstanceState                    instanceState
	PrivateDNSName                   string `wire:"privateDnsName,keep"`
	DNSName                          string `wire:"dnsName,keep"`
	Reason                           string `wire:"reason,keep"`
	KeyName                          string
	AMILaunchIndex                   int `wire:"amiLaunchIndex"`
	InstanceType                     string
	LaunchTime                       time.Time
	Placement                        placement
	Monitoring                       stateItem
	SubnetID                         string
	VPCID                            string
	PrivateIPAddress                 string
	IPAddress                        string
	SourceDestCheck                  *bool
	GroupSet                         []groupRef
	StateReason                      *stateReason
	Architecture                     string
	RootDeviceType                   string
	RootDeviceName                   string
	BlockDeviceMapping               []deviceView
	VirtualizationType               string
	ClientToken                      string
	TagSet                           *tagSet
	Hypervisor                       string
	NetworkInterfaceSet              []interfaceView
	EBSOptimized                     bool
	ENASupport                       bool `wire:"enaSupport"`
	IAMInstanceProfile               *profileRef
	InstanceLifecycle                string
	SpotInstanceRequestID            string
	CPUOptions                       cpuOptions
	CapacityReservationID            string
	CapacityReservationSpecification capacityView
	MetadataOptions                  metadataOptions
	PrivateDNSNameOptions            *hostnameOptions
	PlatformDetails                  string
	CurrentInstanceBootMode          string
}

type capacityView struct {
	CapacityReservationPreference string
	CapacityReservationTarget     *capacityTarget
}

type capacityTarget struct{ CapacityReservationID string }

type profileRef struct{ ARN, ID string }

type deviceView struct {
	DeviceName string
	EBS        deviceEBS
}

type deviceEBS struct {
	VolumeID            string
	Status              string
	AttachTime          time.Time
	DeleteOnTermination bool
}

// interfaceView is an interface as its instance shows it.
type interfaceView struct {
	NetworkInterfaceID    string
	SubnetID              string
	VPCID                 string
	Description           string
	OwnerID               string
	Status                string
	MACAddress            string
	PrivateIPAddress      string
	PrivateDNSName        string
	SourceDestCheck       bool
	GroupSet              []groupRef
	Attachment            *interfaceAttachment
	Association           *publicAddress
	PrivateIPAddressesSet []privateAddress
	InterfaceType         string
}

func (i *instance) view() *instanceView {
	v := &instanceView{
		InstanceID: i.id, ImageID: i.image.id, InstanceState: i.shownState(), Reason: i.transition, KeyName: i.keyName,
		AMILaunchIndex: i.index, InstanceType: i.kind, LaunchTime: i.launched, Placement: i.placement,
		Monitoring: stateItem{"disabled"}, StateReason: i.reason, Architecture: i.image.Architecture, RootDeviceType: "ebs",
		RootDeviceName: i.image.RootDeviceName, VirtualizationType: "hvm", ClientToken: i.clientToken, TagSet: &i.TagSet,
		Hypervisor: "xen", EBSOptimized: i.ebsOptimized, ENASupport: true, SpotInstanceRequestID: i.spotRequest,
		CPUOptions: i.cpu, CapacityReservationID: i.capacityReservation, MetadataOptions: i.metadata,
		CapacityReservationSpecification: capacityView{CapacityReservationPreference: i.capacityPreference},
		PlatformDetails:                  "Linux/UNIX", CurrentInstanceBootMode: "legacy-bios",
	}
	if i.monitoring {
		v.Monitoring.State = "enabled"
	}
	if i.spotRequest != "" {
		v.InstanceLifecycle = "spot"
	}
	if i.capacityReservation != "" {
		v.CapacityReservationSpecification = capacityView{CapacityReservationTarget: &capacityTarget{i.capacityReservation}}
	}
	if i.profile != nil {
		v.IAMInstanceProfile = &profileRef{i.profile.profile.ARN, i.profile.profile.InstanceProfileID}
	}
	for _, d := range i.devices {
		v.BlockDeviceMapping = append(v.BlockDeviceMapping, deviceView{d.device, deviceEBS{
			d.volume.id, d.status, d.attached, d.deleteOnTermination,
		}})
	}
	if i.state == "terminated" {
		return v
	}
	v.SubnetID, v.VPCID, v.PrivateDNSNameOptions = i.subnet.id, i.vpcID, &i.hostname
	for n, nic := range i.interfaces {
		if nic.Attachment.DeviceIndex == 0 {
			v.PrivateIPAddress, v.PrivateDNSName, v.GroupSet = nic.PrivateIPAddress, nic.PrivateDNSName, nic.GroupSet
			v.SourceDestCheck = &i.interfaces[n].SourceDestCheck
			if nic.Association != nil {
				v.IPAddress, v.DNSName = nic.Association.PublicIP, nic.Association.PublicDNSName
			}
		}
		v.NetworkInterfaceSet = append(v.NetworkInterfaceSet, interfaceView{
			nic.id, nic.SubnetID, nic.VPCID, nic.Description, nic.OwnerID, nic.Status, nic.MACAddress, nic.PrivateIPAddress,
			nic.PrivateDNSName, nic.SourceDestCheck, nic.GroupSet, nic.Attachment, nic.Association,
			[]privateAddress{{nic.PrivateIPAddress, nic.PrivateDNSName, true, nic.Association}}, nic.InterfaceType,
		})
	}
	return v
}
