package ec2sim

import (
	"slices"
	"time"
)

// image is an AMI.
type image struct {
	meta
	ImageID            string
	ImageLocation      string
	ImageState         string
	ImageOwnerID       string
	ImageOwnerAlias    string
	IsPublic           bool
	Architecture       string
	ImageType          string
	Name               string
	Description        string
	CreationDate       string
	RootDeviceType     string
	RootDeviceName     string
	VirtualizationType string
	Hypervisor         string
	ENASupport         bool `wire:"enaSupport"`
	PlatformDetails    string
	BlockDeviceMapping []imageDevice
}

type imageDevice struct {
	DeviceName string
	EBS        *imageEBS
}

type imageEBS struct {
	SnapshotID          string
	VolumeSize          int
	VolumeType          string
	DeleteOnTermination bool
	Encrypted           bool
	IOPS                *int
}

// Image describes an image to add.
type Image struct {
	Name, Description string
	// Owner's account; empty is the scope's own. Images of others are public.
	Owner string
	// Architecture is x86_64 where empty.
	Architecture string
	// RootDevice is /dev/sda1 where empty, RootSize 8 GiB where zero, RootType gp2.
	RootDevice string
	RootSize   int
	RootType   string
	Created    time.Time
	Tags       []Tag
}

// AddImage adds an image, of any owner, and gives its id. It is not in the
// call log.
func (s *Server) AddImage(scope Scope, in Image) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.region(scope)
	if err != nil {
		return "", err
	}
	return r.addImage(s.clock.Now(), in).id, nil
}

func (r *region) addImage(now time.Time, in Image) *image {
	setDefault := func(p *string, value string) {
		if *p == "" {
			*p = value
		}
	}
	setDefault(&in.Owner, r.account.id)
	setDefault(&in.Architecture, "x86_64")
	setDefault(&in.RootDevice, "/dev/sda1")
	setDefault(&in.RootType, "gp2")
	if in.RootSize == 0 {
		in.RootSize = 8
	}
	if in.Created.IsZero() {
		in.Created = now
	}
	id := r.newID("ami")
	im := &image{
		meta: r.newMeta(now, id, in.Tags), ImageID: id, ImageLocation: in.Owner + "/" + in.Name, ImageState: "available",
		ImageOwnerID: in.Owner, IsPublic: in.Owner != r.account.id, Architecture: in.Architecture, ImageType: "machine",
		Name: in.Name, Description: in.Description, CreationDate: in.Created.UTC().Format(wireTime), RootDeviceType: "ebs",
		RootDeviceName: in.RootDevice, VirtualizationType: "hvm", Hypervisor: "xen", ENASupport: true, PlatformDetails: "Linux/UNIX",
		BlockDeviceMapping: []imageDevice{{in.RootDevice, &imageEBS{r.newID("snap"), in.RootSize, in.RootType, true, false, nil}}},
	}
	r.images.add(im)
	return im
}

var imageActions = []*action{
	write("RegisterImage", (*call).registerImage),
	write("DeregisterImage", (*call).deregisterImage),
	read("DescribeImages", (*call).describeImages),
}

type registerImageIn struct {
	tagSpecs
	Name               string `wire:",required"`
	Description        string
	Architecture       string
	RootDeviceName     string
	VirtualizationType string
	ENASupport         bool `wire:"EnaSupport"`
	BlockDeviceMapping []deviceIn
}

type imageIDOut struct{ ImageID string }

func (c *call) registerImage(in *registerImageIn) (out imageIDOut, err *apiError) {
	tags, err := in.tagsFor("image", "snapshot")
	if err != nil {
		return out, err
	}
	if c.images.any(func(im *image) bool { return im.Name == in.Name && im.ImageOwnerID == c.account.id }) {
		return out, failf("InvalidAMIName.Duplicate", "AMI name %s is already in use", in.Name)
	}
	im := c.addImage(c.now, Image{Name: in.Name, Description: in.Description, Architecture: in.Architecture, RootDevice: in.RootDeviceName, Tags: tags})
	for _, d := range in.BlockDeviceMapping {
		if d.EBS == nil {
			continue
		}
		device := imageDevice{d.DeviceName, &imageEBS{SnapshotID: d.EBS.SnapshotID, VolumeSize: 8, VolumeType: "gp2", DeleteOnTermination: true}}
		if d.EBS.VolumeSize != nil {
			device.EBS.VolumeSize = *d.EBS.VolumeSize
		}
		if d.EBS.VolumeType != "" {
			device.EBS.VolumeType = d.EBS.VolumeType
		}
		if d.EBS.DeleteOnTermination != nil {
			device.EBS.DeleteOnTermination = *d.EBS.DeleteOnTermination
		}
		im.BlockDeviceMapping = append(slices.DeleteFunc(im.BlockDeviceMapping, func(old imageDevice) bool {
			return old.DeviceName == d.DeviceName
		}), device)
	}
	return imageIDOut{im.id}, nil
}

type deregisterImageIn struct{ ImageID string }

func (c *call) deregisterImage(in *deregisterImageIn) (done, *apiError) {
	im, err := c.images.get(c, "imageId", in.ImageID)
	if err != nil {
		return done{}, err
	}
	c.images.remove(im.id) // instances of it keep their own pointer
	return ok()
}

type describeImagesIn struct {
	filterIns
	pageIn
	ImageID           []string
	Owner             []string
	ExecutableBy      []string
	IncludeDeprecated bool
	IncludeDisabled   bool
}

type describeImagesOut struct {
	ImagesSet []*image
	NextToken string
}

var imageFilters = filters[*image]{
	"image-id":            func(im *image) []string { return []string{im.id} },
	"name":                func(im *image) []string { return []string{im.Name} },
	"description":         func(im *image) []string { return []string{im.Description} },
	"owner-id":            func(im *image) []string { return []string{im.ImageOwnerID} },
	"architecture":        func(im *image) []string { return []string{im.Architecture} },
	"state":               func(im *image) []string { return []string{im.ImageState} },
	"is-public":           func(im *image) []string { return yesNo(im.IsPublic) },
	"virtualization-type": func(im *image) []string { return []string{im.VirtualizationType} },
	"root-device-type":    func(im *image) []string { return []string{im.RootDeviceType} },
	"image-type":          func(im *image) []string { return []string{im.ImageType} },
}

func (c *call) describeImages(in *describeImagesIn) (out describeImagesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, imageFilters)
	if err != nil {
		return out, err
	}
	owned := func(im *image) bool {
		return keep(im) && (len(in.Owner) == 0 || slices.Contains(in.Owner, im.ImageOwnerID) ||
			slices.Contains(in.Owner, "self") && im.ImageOwnerID == c.account.id)
	}
	out.ImagesSet, out.NextToken, err = list(c, &c.images, in.ImageID, owned, in.pageIn, usualLimits)
	return out, err
}
