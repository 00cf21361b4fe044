package ec2sim

type runIn struct {
	tagSpecs
	ImageID                           string `wire:",required"`
	MinCount                          int    `wire:",required"`
	MaxCount                          int    `wire:",required"`
	InstanceType                      string
	KeyName                           string
	SubnetID                          string
	SecurityGroupID                   []string
	PrivateIPAddress                  string
	UserData                          string
	ClientToken                       string
	BlockDeviceMapping                []deviceIn
	NetworkInterface                  []nicIn
	IAMInstanceProfile                profileIn
	MetadataOptions                   metadataIn
	Placement                         placementIn
	CPUOptions                        *cpuOptions
	InstanceMarketOptions             marketIn
	CapacityReservationSpecification  capacityIn
	Monitoring                        struct{ Enabled bool }
	EBSOptimized                      bool
	DisableAPITermination             bool `wire:"DisableApiTermination"`
	DisableAPIStop                    bool `wire:"DisableApiStop"`
	InstanceInitiatedShutdownBehavior string
	PrivateDNSNameOptions             *hostnameIn
}

type deviceIn struct {
	DeviceName string
	NoDevice   *string
	EBS        *struct {
		DeleteOnTermination *bool
		Encrypted           *bool
		IOPS                *int
		KMSKeyID            string
		SnapshotID          string
		Throughput          *int
		VolumeSize          *int
		VolumeType          string
	}
}

type nicIn struct {
	DeviceIndex              int
	NetworkInterfaceID       string
	SubnetID                 string
	Description              string
	SecurityGroupID          []string
	AssociatePublicIPAddress *bool
	DeleteOnTermination      *bool
	PrivateIPAddress         string
	InterfaceType            string
	NetworkCardIndex         int
}

type profileIn struct{ ARN, Name string }

type metadataIn struct {
	HTTPTokens              string
	HTTPPutResponseHopLimit *int
	HTTPEndpoint            string
	HTTPProtocolIPv6        string
	InstanceMetadataTags    string
}

type placementIn struct {
	AvailabilityZone string
	GroupName        string
	HostID           string
	Affinity         string
	PartitionNumber  int
	Tenancy          string
}

type marketIn struct {
	MarketType  string
	SpotOptions struct {
		MaxPrice, SpotInstanceType, InstanceInterruptionBehavior string
	}
}

type capacityIn struct {
	CapacityReservationPreference string
	CapacityReservationTarget     struct{ CapacityReservationID string }
}

type hostnameIn struct {
	HostnameType                    string
	EnableResourceNameDNSARecord    bool
	EnableResourceNameDNSAAAARecord bool
}
