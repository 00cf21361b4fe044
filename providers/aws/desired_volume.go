package aws

import (
	"fmt"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// volumes wants what the spec sets of the root volume and of further ones.
// Which device is the root is the instance's own to say: images differ in it.
// Volumes that the spec does not list are someone else's.
func (i *instanceWants) volumes() {
	if v := i.m.Spec.RootVolume; v != nil {
		i.volume("rootVolume", "spec.rootVolume", v)
	}
	root := textOf(i.seen, pathRootDevice)
	for n := range i.m.Spec.NonRootVolumes {
		v := &i.m.Spec.NonRootVolumes[n]
		field := fmt.Sprintf("spec.nonRootVolumes[%d]", n)
		device := canonical.DeviceName(v.DeviceName)
		switch device {
		case "":
			i.unchecked(providers.KindVolume, field, field+" has no deviceName, so no volume can be told to be it")
		case root:
			i.volume("rootVolume", field, v)
		default:
			i.volume("nonRootVolumes", field, v, device)
		}
	}
}

// volume wants the set fields of one volume.
//
// Encryption is compared when wanted only: with EBS encryption by default EC2
// encrypts a volume that asked not to be.
func (i *instanceWants) volume(list, field string, v *infrav1.Volume, device ...string) {
	path := func(name string) string {
		return providers.Pointer(append(append([]string{list}, device...), name)...)
	}
	if v.Size > 0 {
		want(i.r, path("size"), providers.Int(v.Size), providers.InPlace)
	}
	wantString(i.r, path("type"), v.Type, providers.InPlace)
	if v.IOPS > 0 && provisionsIOPS(v.Type) {
		want(i.r, path("iops"), providers.Int(v.IOPS), providers.InPlace)
	}
	if t := deref(v.Throughput); t > 0 && provisionsThroughput(v.Type) {
		want(i.r, path("throughput"), providers.Int(t), providers.InPlace)
	}
	if deref(v.Encrypted) || v.EncryptionKey != "" {
		want(i.r, path("encrypted"), providers.Bool(true), providers.Immutable)
	}
	i.encryptionKey(path("kmsKeyId"), field, v)
}

// encryptionKey wants the key. What an alias means is the key that it points at
// now.
func (i *instanceWants) encryptionKey(path, field string, v *infrav1.Volume) {
	key := canonical.KMSKey(v.EncryptionKey)
	if !strings.HasPrefix(key, aliasPrefix) || i.seen == nil {
		wantString(i.r, path, key, providers.Immutable)
		return
	}
	if seen := textOf(i.seen, path); strings.HasPrefix(seen, aliasPrefix) {
		want(i.r, path, providers.String(key), providers.Immutable)
		return
	}
	id, why := i.cluster.keyOfAlias(v.EncryptionKey)
	if id == "" {
		i.unchecked(providers.KindVolume, field+".encryptionKey", field+".encryptionKey: "+why)
		return
	}
	want(i.r, path, providers.String(id), providers.Immutable)
}

// provisionsIOPS reports volume types whose IOPS are the caller's to set. For
// the others EC2 reports a figure that follows from the size (CreateVolume,
// Iops).
func provisionsIOPS(t infrav1.VolumeType) bool {
	switch t {
	case "", infrav1.VolumeTypeIO1, infrav1.VolumeTypeIO2, infrav1.VolumeTypeGP3:
		return true
	default:
		return false
	}
}

// provisionsThroughput reports volume types whose throughput can be set
// (CreateVolume, Throughput: gp3 only).
func provisionsThroughput(t infrav1.VolumeType) bool {
	return t == "" || t == infrav1.VolumeTypeGP3
}
