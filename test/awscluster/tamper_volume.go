package awscluster

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// motoNoPerformance says why volume performance cannot drift on moto.
const motoNoPerformance = "ModifyVolume takes a size and a type alone, and throughput always reads 0"

// A modified volume cannot be modified again for six hours and never shrinks
// (EC2 API reference, ModifyVolume), so these have no undo.
func volumeTampers() []Tamper {
	return []Tamper{
		{
			Name: "root volume grown", Row: "root volume size, type, iops, throughput",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				err := e.modifyRoot(ctx, m, &ec2.ModifyVolumeInput{Size: aws.Int32(100)})
				return damage(nil, err, machineDrift(m, changed("/rootVolume/size", strconv.FormatInt(m.aws.Spec.RootVolume.Size, 10), "100")))
			}),
		},
		{
			Name: "root volume of another type", Row: "root volume size, type, iops, throughput",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				err := e.modifyRoot(ctx, m, &ec2.ModifyVolumeInput{VolumeType: types.VolumeTypeGp2})
				return damage(nil, err, machineDrift(m, changed("/rootVolume/type", "gp3", "gp2")))
			}),
		},
		{
			Name: "root volume slowed down", Row: "root volume size, type, iops, throughput", Cases: []string{"C21"},
			NotOnMoto: motoNoPerformance,
			Do: onMachine((*Environment).controlPlane, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				err := e.modifyRoot(ctx, m, &ec2.ModifyVolumeInput{Iops: aws.Int32(3000), Throughput: aws.Int32(125)})
				return damage(nil, err, machineDrift(m,
					changed("/rootVolume/iops", "4000", "3000"), changed("/rootVolume/throughput", "250", "125")))
			}),
		},
		{
			Name: "further volume grown", Row: "further volumes",
			Do: onMachine((*Environment).storage, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				device := m.aws.Spec.NonRootVolumes[0].DeviceName
				id, err := e.volumeAt(ctx, m.id, device)
				if err != nil {
					return nil, err
				}
				err = e.modifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: aws.String(id), Size: aws.Int32(500)})
				return damage(nil, err, machineDrift(m, changed(providers.Pointer("nonRootVolumes", device, "size"), "200", "500")))
			}),
		},
		{
			Name: "further volume of another type and slower", Row: "further volumes", NotOnMoto: motoNoPerformance,
			Do: onMachine((*Environment).storage, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				device := m.aws.Spec.NonRootVolumes[0].DeviceName
				id, err := e.volumeAt(ctx, m.id, device)
				if err != nil {
					return nil, err
				}
				path := func(name string) string { return providers.Pointer("nonRootVolumes", device, name) }
				err = e.modifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: aws.String(id), VolumeType: types.VolumeTypeIo2, Iops: aws.Int32(1000)})
				return damage(nil, err, machineDrift(m, changed(path("type"), "gp3", "io2"), changed(path("iops"), "6000", "1000"), removed(path("throughput"), "250")))
			}),
		},
		{
			Name: "further volume detached", Row: "further volumes",
			Do: onMachine((*Environment).storage, detachVolume),
		},
		{
			Name: "volume of the CSI driver attached", Row: "further volumes",
			Do: onMachine((*Environment).worker, attachCSIVolume),
		},
	}
}

func (e *Environment) modifyRoot(ctx context.Context, m *machine, in *ec2.ModifyVolumeInput) error {
	instance, err := e.describe(ctx, m.id)
	if err != nil {
		return err
	}
	id, err := e.volumeAt(ctx, m.id, aws.ToString(instance.RootDeviceName))
	if err != nil {
		return err
	}
	in.VolumeId = aws.String(id)
	return e.modifyVolume(ctx, in)
}

func (e *Environment) modifyVolume(ctx context.Context, in *ec2.ModifyVolumeInput) error {
	if _, err := e.EC2.ModifyVolume(ctx, in); err != nil {
		return fmt.Errorf("modify volume %s: %w", *in.VolumeId, err)
	}
	return nil
}

func (e *Environment) volumeAt(ctx context.Context, instance, device string) (string, error) {
	i, err := e.describe(ctx, instance)
	if err != nil {
		return "", err
	}
	for _, d := range i.BlockDeviceMappings {
		if aws.ToString(d.DeviceName) == device && d.Ebs != nil {
			return aws.ToString(d.Ebs.VolumeId), nil
		}
	}
	return "", fmt.Errorf("instance %s has no volume at %s", instance, device)
}

// detachVolume takes the declared data volume away. The volume itself is not
// the cluster's lost property: it still belongs to the machine that declared it
// and stands about with the cluster's tags, which makes it an orphan.
func detachVolume(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
	spec := m.aws.Spec.NonRootVolumes[0]
	id, err := e.volumeAt(ctx, m.id, spec.DeviceName)
	if err != nil {
		return nil, err
	}
	if err := e.detach(ctx, id, m.id, spec.DeviceName); err != nil {
		return nil, err
	}
	path := func(name string) string { return providers.Pointer("nonRootVolumes", spec.DeviceName, name) }
	lost := []Diff{removed(path("size"), "200"), removed(path("type"), "gp3"), removed(path("encrypted"), "true")}
	if !e.OnMoto {
		lost = append(lost, removed(path("iops"), "6000"), removed(path("throughput"), "250"))
	}
	return &Damage{
		Findings: []Finding{machineDrift(m, lost...), e.orphan(providers.KindVolume, id, "available")},
		Undo:     func(ctx context.Context) error { return e.attach(ctx, id, m.id, spec.DeviceName) },
	}, nil
}

func (e *Environment) detach(ctx context.Context, volume, instance, device string) error {
	if _, err := e.EC2.DetachVolume(ctx, &ec2.DetachVolumeInput{
		VolumeId: aws.String(volume), InstanceId: aws.String(instance), Device: aws.String(device),
	}); err != nil {
		return fmt.Errorf("detach volume %s: %w", volume, err)
	}
	return e.volumeAvailable(ctx, volume)
}

func (e *Environment) volumeAvailable(ctx context.Context, volume string) error {
	return ec2.NewVolumeAvailableWaiter(e.EC2, func(o *ec2.VolumeAvailableWaiterOptions) {
		o.MinDelay, o.MaxDelay = tamperPoll, tamperPoll
	}).Wait(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{volume}}, tamperPatience)
}

func (e *Environment) attach(ctx context.Context, volume, instance, device string) error {
	if _, err := e.EC2.AttachVolume(ctx, &ec2.AttachVolumeInput{
		VolumeId: aws.String(volume), InstanceId: aws.String(instance), Device: aws.String(device),
	}); err != nil {
		return fmt.Errorf("attach volume %s to %s: %w", volume, instance, err)
	}
	return ec2.NewVolumeInUseWaiter(e.EC2, func(o *ec2.VolumeInUseWaiterOptions) {
		o.MinDelay, o.MaxDelay = tamperPoll, tamperPoll
	}).Wait(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{volume}}, tamperPatience)
}

// attachCSIVolume attaches a volume as the EBS CSI driver does for a pod. It is
// the driver's, not the machine's.
func attachCSIVolume(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
	instance, err := e.describe(ctx, m.id)
	if err != nil {
		return nil, err
	}
	id, err := e.createVolume(ctx, aws.ToString(instance.Placement.AvailabilityZone), csiTags(e.Cluster.Name))
	if err != nil {
		return nil, err
	}
	const device = "/dev/sdz"
	if err := e.attach(ctx, id, m.id, device); err != nil {
		return nil, err
	}
	return noFindings(func(ctx context.Context) error {
		if err := e.detach(ctx, id, m.id, device); err != nil {
			return err
		}
		return e.deleteVolume(ctx, id)
	}), nil
}

func (e *Environment) createVolume(ctx context.Context, zone string, tags map[string]string) (string, error) {
	out, err := e.EC2.CreateVolume(ctx, &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String(zone), Size: aws.Int32(10), VolumeType: types.VolumeTypeGp3,
		TagSpecifications: tagSpec(types.ResourceTypeVolume, tags),
	})
	if err != nil {
		return "", fmt.Errorf("create volume: %w", err)
	}
	id := aws.ToString(out.VolumeId)
	return id, e.volumeAvailable(ctx, id)
}

func (e *Environment) deleteVolume(ctx context.Context, id string) error {
	_, err := e.EC2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String(id)})
	return err
}
