package vsphere

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/pbm"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// grow makes one disk bigger. A disk never shrinks, one of the CSI driver's is
// not touched, and a missing one is not made anew: what was on it would not be.
func (r *reconfiguration) grow(f *providers.FieldChange) error {
	segments := providers.Segments(f.Path) // disks, KEY, sizeGiB
	gib, err := number(f)
	if err != nil || len(segments) != 3 || segments[2] != "sizeGiB" {
		return wrongUnless(false, f)
	}
	key, err := strconv.ParseInt(segments[1], 10, 32)
	if err != nil {
		return refusal(providers.ReasonUnsupported, "disk %s is lost: an empty one in its place would not bring back what was on it", segments[1])
	}
	d := r.disk(int32(key))
	if d == nil {
		return refusal(providers.ReasonMoved, "the machine has no disk with device key %d any more", key)
	}
	file := ""
	if backing, ok := d.Backing.(types.BaseVirtualDeviceFileBackingInfo); ok {
		file = backing.GetVirtualDeviceFileBackingInfo().FileName
	}
	if owner := diskOwner(d, file); owner != "" {
		return refusal(providers.ReasonForeign, "disk %d is a %s", key, owner)
	}
	if _, delta := backingOf(d.Backing); delta {
		return refusal(providers.ReasonRefused, "disk %d has a snapshot or a parent: vSphere grows neither", key)
	}
	grown := *d
	grown.CapacityInBytes, grown.CapacityInKB = int64(gib)<<30, int64(gib)<<20
	r.device(types.VirtualDeviceConfigSpecOperationEdit, &grown)
	return nil
}

func (r *reconfiguration) disk(key int32) *types.VirtualDisk {
	for _, device := range r.m.hw.Device {
		if d, ok := device.(*types.VirtualDisk); ok && d.Key == key {
			return d
		}
	}
	return nil
}

func (r *reconfiguration) device(op types.VirtualDeviceConfigSpecOperation, d types.BaseVirtualDevice) {
	r.any = true
	r.spec.DeviceChange = append(r.spec.DeviceChange, &types.VirtualDeviceConfigSpec{Operation: op, Device: d})
}

// policy gives the machine's home a storage policy; the disks keep theirs.
func (r *reconfiguration) policy(ctx context.Context, f *providers.FieldChange) error {
	c, err := pbm.NewClient(ctx, r.w.live.vim)
	if err != nil {
		return fmt.Errorf("reach the storage policy API: %w", err)
	}
	known, err := policyIDs(ctx, c)
	if err != nil {
		return fmt.Errorf("read storage policies: %w", err)
	}
	id, ok := known[f.Want.Text()]
	if !ok {
		return refusal(providers.ReasonRefused, "vCenter has no storage policy %q", f.Want.Text())
	}
	r.spec.VmProfile = []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: id}}
	return nil
}

// pci adds passed-through devices that the machine lacks, in the words of
// pciDevices. It takes none away.
func (r *reconfiguration) pci(f *providers.FieldChange) error {
	for _, word := range f.Want.Elements() {
		if r.m.now.Fields.Get(pciPath).Value.Has(word) {
			continue
		}
		backing, ok := pciBacking(word)
		if !ok {
			return wrongUnless(false, f)
		}
		d := &types.VirtualPCIPassthrough{}
		d.Key, d.Backing = -int32(200+len(r.spec.DeviceChange)), backing //nolint:gosec // a handful of devices
		r.device(types.VirtualDeviceConfigSpecOperationAdd, d)
	}
	return nil
}

func pciBacking(word string) (types.BaseVirtualDeviceBackingInfo, bool) {
	if profile, ok := strings.CutPrefix(word, vgpuWord("")); ok {
		profile, _, _ = strings.Cut(profile, " (") // the second of its kind
		return &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: profile}, profile != ""
	}
	word, _, _ = strings.Cut(word, " (")
	vendor, device, _ := strings.Cut(word, ":")
	v, err := strconv.ParseInt(vendor, 16, 32)
	d, deviceErr := strconv.ParseInt(device, 16, 32)
	return &types.VirtualPCIPassthroughDynamicBackingInfo{
		AllowedDevice: []types.VirtualPCIPassthroughAllowedDevice{{VendorId: int32(v), DeviceId: int32(d)}},
	}, err == nil && deviceErr == nil
}
