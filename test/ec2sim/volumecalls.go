package ec2sim

import (
	"slices"
	"time"
)

type createVolumeIn struct {
	tagSpecs
	AvailabilityZone string
	Encrypted        *bool
	IOPS             *int
	KMSKeyID         string
	Size             int
	SnapshotID       string
	Throughput       *int
	VolumeType       string
	ClientToken      string
}

func (c *call) createVolume(in *createVolumeIn) (*volumeView, *apiError) {
	tags, err := in.tagsFor("volume")
	if err != nil {
		return nil, err
	}
	if in.AvailabilityZone == "" {
		return nil, missing("availabilityZone")
	}
	zone, err := c.zone(in.AvailabilityZone, "")
	if err != nil {
		return nil, failf("InvalidZone.NotFound", "The zone '%s' does not exist.", in.AvailabilityZone)
	}
	v := &volume{zone: zone, size: in.Size, kind: in.VolumeType, iops: in.IOPS, throughput: in.Throughput, snapshot: in.SnapshotID, status: "creating"}
	if v.kind == "" {
		v.kind = "gp2"
	}
	if err := c.encrypt(v, in.Encrypted, in.KMSKeyID); err != nil {
		return nil, err
	}
	if err := v.complete(); err != nil {
		return nil, err
	}
	v.meta = c.newMeta(c.now, c.newID("vol"), tags)
	c.volumes.add(v)
	view := v.view()
	c.later(c.now, c.srv.delays.Volume, func(time.Time) {
		if v.status == "creating" {
			v.status = "available"
		}
	})
	return &view, nil
}

type volumeIn struct {
	VolumeID   string
	InstanceID string
	Device     string
	Force      bool
}

func (c *call) deleteVolume(in *volumeIn) (done, *apiError) {
	v, err := c.volumes.get(c, "volumeId", in.VolumeID)
	if err != nil {
		return done{}, err
	}
	if v.status == "in-use" {
		return done{}, failf("VolumeInUse", "Volume %s is currently attached to %s", v.id, v.attachments[0].instance.id)
	}
	c.volumes.remove(v.id)
	return ok()
}

func (c *call) attachVolume(in *volumeIn) (out attachmentView, err *apiError) {
	v, err := c.volumes.get(c, "volumeId", in.VolumeID)
	if err != nil {
		return out, err
	}
	i, err := c.instances.get(c, "instanceId", in.InstanceID)
	if err != nil {
		return out, err
	}
	switch {
	case in.Device == "":
		return out, missing("device")
	case v.status == "in-use":
		return out, failf("VolumeInUse", "%s is already attached to an instance", v.id)
	case v.status != "available":
		return out, failf("IncorrectState", "%s is not 'available'.", v.id)
	case i.state != "running" && i.state != "stopped":
		return out, incorrectState(i)
	case v.zone != i.zone:
		return out, failf("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", v.id, i.id)
	case i.device(in.Device) != nil:
		return out, failf("InvalidParameterValue", "Invalid value '%s' for unixDevice. Attachment point %s is already in use", in.Device, in.Device)
	}
	a := &attachment{i, v, in.Device, "attaching", c.now, false}
	v.status, v.attachments = "in-use", []*attachment{a}
	i.devices = append(i.devices, a)
	out = a.view()
	c.later(c.now, c.srv.delays.Volume, func(time.Time) {
		if a.status == "attaching" {
			a.status = "attached"
		}
	})
	return out, nil
}

func (c *call) detachVolume(in *volumeIn) (out attachmentView, err *apiError) {
	v, err := c.volumes.get(c, "volumeId", in.VolumeID)
	if err != nil {
		return out, err
	}
	if len(v.attachments) == 0 || in.InstanceID != "" && v.attachments[0].instance.id != in.InstanceID {
		return out, failf("IncorrectState", "Volume '%s' is in the 'available' state.", v.id)
	}
	a := v.attachments[0]
	if a.device == a.instance.image.RootDeviceName && a.instance.state != "stopped" {
		return out, failf("OperationNotPermitted", "Unable to detach root volume '%s' from instance '%s'", v.id, a.instance.id)
	}
	a.status = "detaching"
	out = a.view()
	c.later(c.now, c.srv.delays.Volume, func(time.Time) {
		a.instance.devices = slices.DeleteFunc(a.instance.devices, func(other *attachment) bool { return other == a })
		if len(v.attachments) > 0 && v.attachments[0] == a {
			v.attachments, v.status = nil, "available"
		}
	})
	return out, nil
}

type volumeModification struct {
	VolumeID           string
	ModificationState  string
	TargetSize         int
	TargetIOPS         *int
	TargetThroughput   *int
	TargetVolumeType   string
	OriginalSize       int
	OriginalIOPS       *int
	OriginalThroughput *int
	OriginalVolumeType string
	Progress           int
	StartTime          time.Time
	EndTime            time.Time
}

type modifyVolumeIn struct {
	VolumeID   string
	Size       *int
	IOPS       *int
	Throughput *int
	VolumeType string
}

type modifyVolumeOut struct{ VolumeModification volumeModification }

// modificationGap is how long a volume must rest between modifications
// ("Requirements for Amazon EBS volume modifications", EBS user guide).
const modificationGap = 6 * time.Hour

func (c *call) modifyVolume(in *modifyVolumeIn) (out modifyVolumeOut, err *apiError) {
	v, err := c.volumes.get(c, "volumeId", in.VolumeID)
	if err != nil {
		return out, err
	}
	if m := v.modification; m != nil {
		if m.ModificationState != "completed" {
			return out, failf("IncorrectModificationState", "Cannot modify volume %s in modification state %s", v.id, m.ModificationState)
		}
		if c.now.Before(m.StartTime.Add(modificationGap)) {
			return out, failf("VolumeModificationRateExceeded", "You've reached the maximum modification rate per volume limit. "+
				"Wait at least 6 hours between modifications per EBS volume.")
		}
	}
	target := &volume{size: v.size, kind: v.kind, iops: in.IOPS, throughput: in.Throughput}
	if in.VolumeType != "" {
		target.kind = in.VolumeType
	}
	if in.Size != nil {
		target.size = *in.Size
	}
	if target.kind == v.kind && target.kind != "gp2" {
		if target.iops == nil {
			target.iops = v.iops
		}
		if target.throughput == nil {
			target.throughput = v.throughput
		}
	}
	if target.size < v.size {
		return out, failf("InvalidParameterValue", "New size cannot be smaller than existing size")
	}
	if err := target.complete(); err != nil {
		return out, err
	}
	v.modification = &volumeModification{
		VolumeID: v.id, ModificationState: "modifying", StartTime: c.now,
		TargetSize: target.size, TargetIOPS: target.iops, TargetThroughput: target.throughput, TargetVolumeType: target.kind,
		OriginalSize: v.size, OriginalIOPS: v.iops, OriginalThroughput: v.throughput, OriginalVolumeType: v.kind,
	}
	out.VolumeModification = *v.modification
	c.progress(v, target)
	return out, nil
}

// progress takes a modification through its states; the volume shows the new
// values once it is optimizing.
func (c *call) progress(v, target *volume) {
	r, m := c.region, v.modification
	r.later(c.now, r.srv.delays.VolumeModifying, func(now time.Time) {
		v.size, v.kind, v.iops, v.throughput = target.size, target.kind, target.iops, target.throughput
		m.ModificationState = "optimizing"
		r.later(now, r.srv.delays.VolumeOptimizing, func(now time.Time) {
			m.ModificationState, m.Progress, m.EndTime = "completed", 100, now
		})
	})
}

type describeModificationsOut struct {
	VolumeModificationSet []*volumeModification
	NextToken             string
}

func (c *call) describeModifications(in *describeVolumesIn) (out describeModificationsOut, err *apiError) {
	keep, err := condition(c, in.filterIns, filters[*volume]{
		"volume-id":          func(v *volume) []string { return []string{v.id} },
		"modification-state": func(v *volume) []string { return []string{v.modification.ModificationState} },
	})
	if err != nil {
		return out, err
	}
	for _, id := range in.VolumeID {
		if v, ok := c.volumes.byID[id]; ok && v.modification == nil {
			return out, failf("InvalidVolumeModification.NotFound", "Modification for volume '%s' does not exist.", id)
		}
	}
	found, next, err := list(c, &c.volumes, in.VolumeID, func(v *volume) bool { return v.modification != nil && keep(v) }, in.pageIn, usualLimits)
	for _, v := range found {
		out.VolumeModificationSet = append(out.VolumeModificationSet, v.modification)
	}
	out.NextToken = next
	return out, err
}
