package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// checkVolumes refuses what ModifyVolume cannot do: shrink.
func checkVolumes(c *providers.Change, fields []providers.FieldChange) error {
	for _, f := range fields {
		want, wanted := f.Want.Number()
		have, seen := f.Have.Number()
		switch {
		case f.Want.IsAbsent() || f.Element:
			return unsupported("%s of %s: a volume's field can be changed and not taken away", f.Path, c.Resource)
		case lastSegment(f.Path) == "size" && wanted && seen && want < have:
			return shrinks(c.Resource, f.Path, want, have)
		}
	}
	return nil
}

func shrinks(id providers.ID, path string, want, have int64) error {
	return unsupported("%s of %s is %d GiB and wanted with %d: EC2 cannot shrink a volume", path, id, have, want)
}

// modifyVolumes changes volume by volume; all that is due of one goes into one
// call, because the next one is refused for six hours.
func (w *writing) modifyVolumes(ctx context.Context, fields []providers.FieldChange) error {
	byVolume := map[string][]providers.FieldChange{}
	for _, f := range fields {
		id, err := w.volumeOf(f.Path)
		if err != nil {
			return err
		}
		byVolume[id] = append(byVolume[id], f)
	}
	for _, id := range sorted(byVolume) {
		if err := w.modifyVolume(ctx, id, byVolume[id]); err != nil {
			return err
		}
	}
	return nil
}

// volumeOf finds the volume of a path by its device.
func (w *writing) volumeOf(path string) (string, error) {
	device := canonical.DeviceName(deref(w.rawInstance.RootDeviceName))
	if s := providers.Segments(path); s[0] != "rootVolume" {
		device = s[1]
	}
	for i := range w.rawInstance.BlockDeviceMappings {
		m := &w.rawInstance.BlockDeviceMappings[i]
		if m.Ebs != nil && canonical.DeviceName(deref(m.DeviceName)) == device {
			return deref(m.Ebs.VolumeId), nil
		}
	}
	return "", unsupported("%s has no volume at %s, and attaching one is not a change in place", w.Resource, device)
}

func (w *writing) modifyVolume(ctx context.Context, id string, fields []providers.FieldChange) error {
	in, err := w.modification(ctx, id, fields)
	if in == nil || err != nil {
		return err
	}
	_, err = w.ec2.ModifyVolume(ctx, in)
	err = w.called(err, "modify volume %s of %s (EC2 takes one modification of a volume in six hours)", id, w.Resource.Name)
	if refusal := (*providers.ApplyError)(nil); errors.As(err, &refusal) {
		// The first answer may have been lost, and this be the second one.
		if left, again := w.modification(ctx, id, fields); again == nil && left == nil {
			return nil
		}
	}
	return err
}

// modification is what is left to ask for; nil if nothing is.
func (w *writing) modification(ctx context.Context, id string, fields []providers.FieldChange) (*ec2.ModifyVolumeInput, error) {
	list, err := w.volumes(ctx, &choice{ids: []string{id}})
	if err != nil {
		return nil, applyError(err, "read volume "+id)
	}
	if len(list) != 1 {
		return nil, moved("volume %s of %s does not exist any more", id, w.Resource)
	}
	volume := list[0]
	if volume.ForeignTo != "" {
		return nil, &providers.ApplyError{Reason: providers.ReasonForeign, Err: fmt.Errorf("volume %s belongs to %s", id, volume.ForeignTo)}
	}
	in := &ec2.ModifyVolumeInput{VolumeId: &id}
	due := false
	for _, f := range fields {
		name := "/" + lastSegment(f.Path)
		if volume.Fields.Get(name).Value.Equal(f.Want) {
			continue
		}
		due = true
		n, _ := f.Want.Number()
		switch name {
		case "/size":
			if have, ok := volume.Fields.Get(name).Value.Number(); ok && n < have {
				return nil, shrinks(w.Resource, f.Path, n, have)
			}
			in.Size = ptr(int32(n)) //nolint:gosec // GiB, at most 65,536
		case "/iops":
			in.Iops = ptr(int32(n)) //nolint:gosec // at most 256,000
		case "/throughput":
			in.Throughput = ptr(int32(n)) //nolint:gosec // MiB/s, at most 2,000
		case "/type":
			in.VolumeType = ec2types.VolumeType(f.Want.Text())
			w.withType(in, f.Path)
		}
	}
	if !due {
		return nil, nil
	}
	under, err := w.underModification(ctx, id, in)
	if err != nil || under {
		return nil, err
	}
	return in, nil
}

// withType sends what else is wanted of the volume along with a new type,
// which may be impossible without it: io1 needs a number of IOPS.
func (w *writing) withType(in *ec2.ModifyVolumeInput, typePath string) {
	s := providers.Segments(typePath)
	at := func(name string) (int64, bool) {
		return w.Want.Fields.Get(providers.Pointer(append(slices.Clone(s[:len(s)-1]), name)...)).Value.Number()
	}
	if n, ok := at("iops"); ok {
		in.Iops = ptr(int32(n)) //nolint:gosec // at most 256,000
	}
	if n, ok := at("throughput"); ok {
		in.Throughput = ptr(int32(n)) //nolint:gosec // MiB/s, at most 2,000
	}
}

// underModification reports that EC2 has taken the very change and shows it
// later, as DescribeVolumes does while a modification is in its first state
// (DescribeVolumesModifications).
func (w *writing) underModification(ctx context.Context, id string, in *ec2.ModifyVolumeInput) (bool, error) {
	out, err := w.ec2.DescribeVolumesModifications(ctx, &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{id}})
	if err != nil {
		if isNotFound(err) { // never modified
			return false, nil
		}
		return false, applyError(err, "read the modifications of volume "+id)
	}
	for i := range out.VolumesModifications {
		m := &out.VolumesModifications[i]
		if m.ModificationState != ec2types.VolumeModificationStateModifying {
			continue
		}
		same := func(want, target *int32) bool { return want == nil || deref(target) == *want }
		if same(in.Size, m.TargetSize) && same(in.Iops, m.TargetIops) && same(in.Throughput, m.TargetThroughput) &&
			(in.VolumeType == "" || in.VolumeType == m.TargetVolumeType) {
			return true, nil
		}
	}
	return false, nil
}
