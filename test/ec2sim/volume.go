package ec2sim

import (
	"reflect"
	"slices"
	"strconv"
	"time"
)

// volume is an EBS volume.
type volume struct {
	meta
	zone                string
	size                int
	kind                string
	iops, throughput    *int
	encrypted           bool
	kmsKey              string
	snapshot            string
	status              string
	attachments         []*attachment
	deleteOnTermination bool   // of a launch's template
	device              string // of a launch's template
	modification        *volumeModification
}

// attachment ties a volume to an instance.
type attachment struct {
	instance            *instance
	volume              *volume
	device              string
	status              string
	attached            time.Time
	deleteOnTermination bool
}

func (i *instance) device(name string) *attachment {
	for _, d := range i.devices {
		if d.device == name {
			return d
		}
	}
	return nil
}

type volumeView struct {
	VolumeID           string
	Size               int
	SnapshotID         string
	AvailabilityZone   string
	Status             string
	CreateTime         time.Time
	AttachmentSet      []attachmentView
	TagSet             *tagSet
	VolumeType         string
	IOPS               *int
	Throughput         *int
	Encrypted          bool
	KMSKeyID           string
	MultiAttachEnabled bool
}

type attachmentView struct {
	VolumeID            string
	InstanceID          string
	Device              string
	Status              string
	AttachTime          time.Time
	DeleteOnTermination bool
}

func (a *attachment) view() attachmentView {
	return attachmentView{a.volume.id, a.instance.id, a.device, a.status, a.attached, a.deleteOnTermination}
}

func (v *volume) view() volumeView {
	out := volumeView{
		VolumeID: v.id, Size: v.size, SnapshotID: v.snapshot, AvailabilityZone: v.zone, Status: v.status, CreateTime: v.created,
		TagSet: &v.TagSet, VolumeType: v.kind, IOPS: v.iops, Throughput: v.throughput, Encrypted: v.encrypted, KMSKeyID: v.kmsKey,
	}
	for _, a := range v.attachments {
		out.AttachmentSet = append(out.AttachmentSet, a.view())
	}
	return out
}

// planDevices joins an image's devices with those of a launch, by device name.
func (c *call) planDevices(im *image, wanted []deviceIn) ([]*volume, *apiError) {
	var devices []*volume
	for _, d := range im.BlockDeviceMapping {
		if d.EBS == nil {
			continue
		}
		devices = append(devices, &volume{
			device: d.DeviceName, size: d.EBS.VolumeSize, kind: d.EBS.VolumeType, snapshot: d.EBS.SnapshotID,
			deleteOnTermination: d.EBS.DeleteOnTermination, encrypted: d.EBS.Encrypted,
		})
	}
	for _, w := range wanted {
		at := slices.IndexFunc(devices, func(d *volume) bool { return d.device == w.DeviceName })
		if w.NoDevice != nil {
			devices = slices.DeleteFunc(devices, func(d *volume) bool { return d.device == w.DeviceName })
			continue
		}
		if w.EBS == nil {
			continue
		}
		if at < 0 {
			devices = append(devices, &volume{device: w.DeviceName, kind: "gp2"})
			at = len(devices) - 1
		}
		if err := c.overlay(devices[at], w); err != nil {
			return nil, err
		}
	}
	for _, d := range devices {
		if err := d.complete(); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

func (c *call) overlay(d *volume, w deviceIn) *apiError {
	e := w.EBS
	d.deleteOnTermination = e.DeleteOnTermination == nil || *e.DeleteOnTermination
	if e.VolumeType != "" {
		d.kind = e.VolumeType
	}
	if e.VolumeSize != nil {
		if *e.VolumeSize < d.size {
			return failf("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size>= %dGB", *e.VolumeSize, d.snapshot, d.size)
		}
		d.size = *e.VolumeSize
	}
	d.iops, d.throughput = e.IOPS, e.Throughput
	if e.SnapshotID != "" {
		d.snapshot = e.SnapshotID
	}
	return c.encrypt(d, e.Encrypted, e.KMSKeyID)
}

func (c *call) encrypt(d *volume, encrypted *bool, key string) *apiError {
	if encrypted != nil {
		d.encrypted = *encrypted
	}
	if key != "" && !d.encrypted {
		return failf("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	if d.encrypted {
		arn, err := c.resolveKey(key)
		if err != nil {
			return err
		}
		d.kmsKey = arn
	}
	return nil
}

// complete sets what depends on the type ("Amazon EBS volume types") and
// refuses what the type has not.
func (v *volume) complete() *apiError {
	if v.size == 0 {
		return failf("MissingParameter", "The request must contain the parameter size or snapshotId")
	}
	set := func(p **int, value int) {
		if *p == nil {
			*p = &value
		}
	}
	switch v.kind {
	case "gp2":
		if v.iops != nil {
			return failf("InvalidParameterCombination", "The parameter iops is not supported for gp2 volumes.")
		}
		set(&v.iops, max(100, min(16000, 3*v.size)))
	case "gp3":
		set(&v.iops, 3000)
		set(&v.throughput, 125)
		if *v.iops < 3000 || *v.iops > 80000 {
			return failf("InvalidParameterValue", "Volume iops of %d is out of range; 3000 to 80000 for gp3.", *v.iops)
		}
		return nil
	case "io1", "io2":
		if v.iops == nil {
			return failf("MissingParameter", "The parameter iops must be specified for %s volumes.", v.kind)
		}
	case "st1", "sc1", "standard":
		if v.iops != nil {
			return failf("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", v.kind)
		}
	default:
		return invalid("volumeType", v.kind, "Unknown volume type.")
	}
	if v.throughput != nil {
		return failf("InvalidParameterCombination", "The parameter throughput is not supported for %s volumes.", v.kind)
	}
	return nil
}

// attachNew makes a volume from a launch's template and attaches it.
func (c *call) attachNew(i *instance, template *volume, tags []Tag) {
	v := *template
	v.meta = c.newMeta(c.now, c.newID("vol"), tags)
	v.zone, v.status = i.zone, "in-use"
	c.volumes.add(&v)
	a := &attachment{i, &v, v.device, "attached", c.now, v.deleteOnTermination}
	v.attachments = []*attachment{a}
	i.devices = append(i.devices, a)
}

var volumeActions = []*action{
	create("CreateVolume", (*call).createVolume),
	write("DeleteVolume", (*call).deleteVolume),
	read("DescribeVolumes", (*call).describeVolumes),
	write("AttachVolume", (*call).attachVolume),
	write("DetachVolume", (*call).detachVolume),
	write("ModifyVolume", (*call).modifyVolume),
	read("DescribeVolumesModifications", (*call).describeModifications),
}

type describeVolumesIn struct {
	filterIns
	pageIn
	VolumeID []string
}

type describeVolumesOut struct {
	VolumeSet []volumeItem
	NextToken string
}

// volumeItem renders its view only while the page is written.
type volumeItem struct{ *volume }

func (item *volumeItem) appendWire(b []byte, e *encoder) []byte {
	view := item.view()
	return e.content(b, reflect.ValueOf(&view))
}

func onAttachments(value func(*attachment) string) func(*volume) []string {
	return func(v *volume) []string {
		var values []string
		for _, a := range v.attachments {
			values = append(values, value(a))
		}
		return values
	}
}

var volumeFilters = filters[*volume]{
	"volume-id":              func(v *volume) []string { return []string{v.id} },
	"volume-type":            func(v *volume) []string { return []string{v.kind} },
	"size":                   func(v *volume) []string { return []string{strconv.Itoa(v.size)} },
	"status":                 func(v *volume) []string { return []string{v.status} },
	"encrypted":              func(v *volume) []string { return yesNo(v.encrypted) },
	"availability-zone":      func(v *volume) []string { return []string{v.zone} },
	"snapshot-id":            func(v *volume) []string { return one(v.snapshot) },
	"attachment.instance-id": onAttachments(func(a *attachment) string { return a.instance.id }),
	"attachment.device":      onAttachments(func(a *attachment) string { return a.device }),
	"attachment.status":      onAttachments(func(a *attachment) string { return a.status }),
	"attachment.delete-on-termination": onAttachments(func(a *attachment) string {
		return yesNo(a.deleteOnTermination)[0]
	}),
}

func (c *call) describeVolumes(in *describeVolumesIn) (out describeVolumesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, volumeFilters)
	if err != nil {
		return out, err
	}
	found, next, err := list(c, &c.volumes, in.VolumeID, keep, in.pageIn, volumeLimits)
	for _, v := range found {
		out.VolumeSet = append(out.VolumeSet, volumeItem{v})
	}
	out.NextToken = next
	return out, err
}
