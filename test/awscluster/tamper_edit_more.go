package awscluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	rowEncryption = "root volume encryption, key"
	otherKey      = "11112222-3333-4444-5555-666677778888"
)

// neverTampers are edits of what EC2 never changes and no other tamper drifts.
func neverTampers() []Tamper {
	return []Tamper{
		{
			Name: "zone declared anew", Row: "subnet, zone",
			Do: onMachine((*Environment).worker, func(_ context.Context, _ *Environment, m *machine) (*Damage, error) {
				const other = "eu-central-1c"
				own := m.core.Spec.FailureDomain
				m.core.Spec.FailureDomain = other
				return &Damage{
					Findings: []Finding{machineDrift(m, changed("/availabilityZone", other, own))},
					Undo: func(context.Context) error {
						m.core.Spec.FailureDomain = own
						return nil
					},
				}, nil
			}),
		},
		{
			Name: "key of the root volume declared anew", Row: rowEncryption,
			Do: onMachine((*Environment).controlPlane, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				return e.otherKey(ctx, m, "", m.aws.Spec.RootVolume, "/rootVolume/kmsKeyId")
			}),
		},
		{
			Name: "key of a further volume declared anew", Row: "further volumes",
			Do: onMachine((*Environment).storage, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				v := &m.aws.Spec.NonRootVolumes[0]
				return e.otherKey(ctx, m, v.DeviceName, v, providers.Pointer("nonRootVolumes", v.DeviceName, "kmsKeyId"))
			}),
		},
		{
			Name: "block of the VPC declared anew", Row: "VPC",
			Do: func(_ context.Context, e *Environment) (*Damage, error) {
				vpc := &e.AWSCluster.Spec.NetworkSpec.VPC
				own := vpc.CidrBlock
				vpc.CidrBlock = "10.44.0.0/16"
				return &Damage{
					Findings: []Finding{
						e.clusterDrift(providers.KindVPC, vpc.ID, changed("/cidrBlock", "10.44.0.0/16", own)),
						// A network load balancer keeps the address of who calls.
						e.clusterDrift(providers.KindSecurityGroup, e.group(infrav1.SecurityGroupLB), removed(ingressPath, "tcp 6443-6443 from 10.44.0.0/16")),
					},
					Undo: func(context.Context) error {
						vpc.CidrBlock = own
						return nil
					},
				}, nil
			},
		},
	}
}

// otherKey declares another key for an encrypted volume; an empty device is the
// root's.
func (e *Environment) otherKey(ctx context.Context, m *machine, device string, v *infrav1.Volume, path string) (*Damage, error) {
	if device == "" {
		i, err := e.describe(ctx, m.id)
		if err != nil {
			return nil, err
		}
		device = aws.ToString(i.RootDeviceName)
	}
	id, err := e.volumeAt(ctx, m.id, device)
	if err != nil {
		return nil, err
	}
	out, err := e.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil || len(out.Volumes) == 0 {
		return nil, fmt.Errorf("describe volume %s: %w", id, err)
	}
	arn := aws.ToString(out.Volumes[0].KmsKeyId)
	own := v.EncryptionKey
	v.EncryptionKey = "arn:aws:kms:eu-central-1:123456789012:key/" + otherKey
	return &Damage{
		Findings: []Finding{machineDrift(m, changed(path, otherKey, arn[strings.LastIndexByte(arn, '/')+1:]))},
		Undo: func(context.Context) error {
			v.EncryptionKey = own
			return nil
		},
	}, nil
}

// moreTampers declare more than there is, which EC2 can make of what there is.
func moreTampers() []Tamper {
	return []Tamper{
		editTamper("root volume declared larger", "root volume size, type, iops, throughput", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.RootVolume.Size += 20 },
			func(_ *Environment, before *infrav1.AWSMachineSpec) []Diff {
				return []Diff{changed("/rootVolume/size", strconv.FormatInt(before.RootVolume.Size+20, 10), strconv.FormatInt(before.RootVolume.Size, 10))}
			}),
		editTamper("further volume declared larger", "further volumes", nil, (*Environment).storage,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.NonRootVolumes[0].Size += 50 },
			func(_ *Environment, before *infrav1.AWSMachineSpec) []Diff {
				v := before.NonRootVolumes[0]
				return []Diff{changed(providers.Pointer("nonRootVolumes", v.DeviceName, "size"), strconv.FormatInt(v.Size+50, 10), strconv.FormatInt(v.Size, 10))}
			}),
		{
			Name: "profile of another role declared by its ARN", Row: "IAM instance profile", NotMendedOnMoto: motoProfile,
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				const other = "others"
				if err := e.InstanceProfile(ctx, other); err != nil {
					return nil, err
				}
				const begin = "arn:aws:iam::123456789012:instance-profile/"
				own := m.aws.Spec.IAMInstanceProfile
				m.aws.Spec.IAMInstanceProfile = begin + other
				return &Damage{
					Findings: []Finding{machineDrift(m, changed("/iamInstanceProfileArn", begin+other, begin+own))},
					Undo: func(context.Context) error {
						m.aws.Spec.IAMInstanceProfile = own
						return nil
					},
				}, nil
			}),
		},
		{
			Name: "second interface declared", Row: "security groups on the primary interface",
			Do: onMachine((*Environment).storage, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				i, err := e.describe(ctx, m.id)
				if err != nil {
					return nil, err
				}
				made, err := e.EC2.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{SubnetId: i.SubnetId})
				if err != nil {
					return nil, fmt.Errorf("create interface: %w", err)
				}
				id := aws.ToString(made.NetworkInterface.NetworkInterfaceId)
				m.aws.Spec.NetworkInterfaces = []string{aws.ToString(i.NetworkInterfaces[0].NetworkInterfaceId), id}
				f := machineDrift(m, removed("/deviceIndex", "1"), removed("/instanceId", m.id))
				f.Kind, f.ID = providers.KindNetworkInterface, id
				return &Damage{
					Findings: []Finding{f},
					Undo: func(ctx context.Context) error {
						m.aws.Spec.NetworkInterfaces = nil
						return e.deleteInterface(ctx, id)
					},
				}, nil
			}),
		},
	}
}
