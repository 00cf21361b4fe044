package aws

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// closedVolume says that a key or a number of IOPS which is not there does not
// exist: only some types have them.
var closedVolume = []string{"/tags", "/kmsKeyId", "/iops"}

// volume converts one volume (EC2, Volume).
func (c converter) volume(in *ec2types.Volume) *providers.Resource {
	r := c.resource(providers.KindVolume, in.VolumeId, 16)
	r.Closed = closedVolume
	c.tags(r, in.Tags)
	c.disk(r, "", in)
	word(c, r, "/state", in.State)
	var instances []string
	for i := range in.Attachments {
		if id := deref(in.Attachments[i].InstanceId); id != "" && in.Attachments[i].State != ec2types.VolumeAttachmentStateDetached {
			instances = append(instances, id)
		}
	}
	c.set(r, "/attachments", instances)
	if len(instances) > 0 {
		partOfInstance(r)
	}
	return r
}

// partOfInstance takes the ownership tags off what is attached to an instance:
// CAPA tags an instance's volumes and interfaces like the instance, and it is
// the instance that an object wants, or that is an orphan.
func partOfInstance(r *providers.Resource) { r.ClusterTags = nil }

// disk sets the fields that a volume has for itself and for its instance. EC2
// gives every gp3 volume a throughput; an endpoint that gives none or zero has
// not said, so the field is left open.
func (c converter) disk(r *providers.Resource, prefix string, in *ec2types.Volume) {
	c.number(r, prefix+"/size", in.Size)
	word(c, r, prefix+"/type", in.VolumeType)
	c.number(r, prefix+"/iops", in.Iops)
	if deref(in.Throughput) > 0 {
		c.number(r, prefix+"/throughput", in.Throughput)
	}
	c.truth(r, prefix+"/encrypted", in.Encrypted)
	word(c, r, prefix+"/kmsKeyId", c.names.kmsKey(deref(in.KmsKeyId)))
}

// diskFields are the fields that a volume lends to its instance.
var diskFields = []string{"/size", "/type", "/iops", "/throughput", "/encrypted", "/kmsKeyId"}

// rootPaths are the instance's paths of diskFields, made once.
var rootPaths = func() map[string]string {
	out := map[string]string{}
	for _, f := range diskFields {
		out[f] = "/rootVolume" + f
	}
	return out
}()

// closedDisks is closedInstance with what a complete set of volumes adds.
var closedDisks = append(closedInstance[:len(closedInstance):len(closedInstance)],
	"/rootVolume/size", "/rootVolume/type", "/rootVolume/iops", "/rootVolume/encrypted", "/rootVolume/kmsKeyId", "/nonRootVolumes")

// closedFurther is the same for an instance whose root is no volume but an
// instance store, of which EC2 tells nothing.
var closedFurther = append(closedInstance[:len(closedInstance):len(closedInstance)], "/nonRootVolumes")

// joinVolumes gives instances the fields of their volumes. A volume that the
// other read did not have, because it was attached or deleted in between,
// leaves the instance's disks open: not read is not absent.
func (c converter) joinVolumes(instances []seenInstance, volumes map[string]*providers.Resource) {
	for i := range instances {
		s := &instances[i]
		if s.Gone != "" || s.Unknown != "" {
			continue
		}
		complete := true
		for _, d := range s.devices {
			v := volumes[d.volume]
			if v == nil {
				complete = false
			}
			if v != nil && v.ForeignTo != "" {
				continue // a CSI volume stands for no disk of the spec's, whatever device it has
			}
			if d.name == s.root {
				s.Fields.Set("/rootVolume/volumeId", providers.Field{Value: providers.String(d.volume)})
				lend(s.Resource, v, func(f string) string { return rootPaths[f] })
				continue
			}
			prefix := providers.Pointer("nonRootVolumes", d.name)
			s.Fields.Set(c.names.text(prefix+"/volumeId"), providers.Field{Value: providers.String(d.volume)})
			lend(s.Resource, v, func(f string) string { return c.names.text(prefix + f) })
		}
		switch {
		case complete && s.ebsRoot:
			s.disks, s.Closed = allDisks, closedDisks
		case complete:
			s.disks, s.Closed = furtherDisks, closedFurther
		}
	}
}

func lend(instance, volume *providers.Resource, path func(field string) string) {
	if volume == nil {
		return
	}
	for _, f := range diskFields {
		if v, ok := volume.Fields.Lookup(f); ok {
			instance.Fields.Set(path(f), v)
		}
	}
}

// networkInterface converts one interface (EC2, NetworkInterface).
func (c converter) networkInterface(in *ec2types.NetworkInterface) *providers.Resource {
	r := c.resource(providers.KindNetworkInterface, in.NetworkInterfaceId, 14)
	r.Closed = closedInterface
	c.tags(r, in.TagSet)
	c.text(r, "/vpcId", in.VpcId)
	c.text(r, "/subnetId", in.SubnetId)
	c.set(r, "/securityGroups", groupIDs(in.Groups))
	word(c, r, "/interfaceType", in.InterfaceType)
	if a := in.Attachment; a != nil && a.Status != ec2types.AttachmentStatusDetached {
		word(c, r, "/instanceId", deref(a.InstanceId))
		if deref(a.InstanceId) != "" {
			c.number(r, "/deviceIndex", a.DeviceIndex)
			partOfInstance(r)
		}
	}
	if r.ForeignTo == "" && deref(in.RequesterManaged) {
		r.ForeignTo = "AWS, for " + serviceName(in)
	}
	return r
}

var closedInterface = []string{"/tags", "/instanceId", "/deviceIndex", "/securityGroups"}

func serviceName(in *ec2types.NetworkInterface) string {
	switch {
	case in.InterfaceType != "" && in.InterfaceType != ec2types.NetworkInterfaceTypeInterface:
		return string(in.InterfaceType)
	case deref(in.RequesterId) != "":
		return *in.RequesterId
	default:
		return "one of its services"
	}
}
