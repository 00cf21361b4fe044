package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

func instanceTampers() []Tamper {
	return []Tamper{
		{
			Name: "instance type changed", Row: "instance type", Cases: []string{"C28"},
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				const other = "m6i.xlarge"
				if err := e.resize(ctx, m.id, other); err != nil {
					return nil, err
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, changed("/instanceType", m.aws.Spec.InstanceType, other))},
					Undo:     func(ctx context.Context) error { return e.resize(ctx, m.id, m.aws.Spec.InstanceType) },
				}, nil
			}),
		},
		{
			Name: "metadata tokens made optional", Row: "metadata options", NotMendedOnMoto: motoForgets,
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				o := *m.aws.Spec.InstanceMetadataOptions
				o.HTTPTokens = infrav1.HTTPTokensStateOptional
				undo, err := e.setMetadata(ctx, m, &o)
				return damage(undo, err, machineDrift(m, changed("/metadataOptions/httpTokens", "required", "optional")))
			}),
		},
		{
			Name: "metadata hop limit raised and tags shown", Row: "metadata options", NotMendedOnMoto: motoForgets,
			Do: onMachine((*Environment).controlPlane, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				o := *m.aws.Spec.InstanceMetadataOptions
				o.HTTPPutResponseHopLimit, o.InstanceMetadataTags = 64, infrav1.InstanceMetadataEndpointStateEnabled
				undo, err := e.setMetadata(ctx, m, &o)
				return damage(undo, err, machineDrift(m,
					changed("/metadataOptions/httpPutResponseHopLimit", "2", "64"),
					changed("/metadataOptions/instanceMetadataTags", "disabled", "enabled")))
			}),
		},
		{
			Name: "metadata endpoint switched off", Row: "metadata options", NotMendedOnMoto: motoForgets,
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				o := *m.aws.Spec.InstanceMetadataOptions
				o.HTTPEndpoint = infrav1.InstanceMetadataEndpointStateDisabled
				undo, err := e.setMetadata(ctx, m, &o)
				return damage(undo, err, machineDrift(m, changed("/metadataOptions/httpEndpoint", "enabled", "disabled")))
			}),
		},
		{
			Name: "public address given to a private machine", Row: "public address",
			Do: onMachine((*Environment).storage, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				undo, err := e.giveAddress(ctx, m.id)
				if err != nil {
					return nil, err
				}
				return &Damage{Findings: []Finding{machineDrift(m, changed("/publicIp", "false", "true"))}, Undo: undo}, nil
			}),
		},
		{
			Name: "public address where the spec has no opinion", Row: "public address",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				undo, err := e.giveAddress(ctx, m.id)
				if err != nil {
					return nil, err
				}
				return noFindings(undo), nil
			}),
		},
	}
}

// resize changes the type as EC2 wants it: on a stopped instance.
func (e *Environment) resize(ctx context.Context, id, instanceType string) error {
	if err := e.stop(ctx, id); err != nil {
		return err
	}
	if _, err := e.EC2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{
		InstanceId: aws.String(id), InstanceType: &types.AttributeValue{Value: aws.String(instanceType)},
	}); err != nil {
		return fmt.Errorf("change type of %s: %w", id, err)
	}
	return e.start(ctx, id)
}

// setMetadata sets all metadata options at once, for moto forgets those that a
// call leaves out; its undo sets those of the spec.
func (e *Environment) setMetadata(ctx context.Context, m *machine, o *infrav1.InstanceMetadataOptions) (func(context.Context) error, error) {
	do := func(ctx context.Context, o *infrav1.InstanceMetadataOptions) error {
		r := metadataOptions(o)
		if _, err := e.EC2.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{
			InstanceId: aws.String(m.id), HttpEndpoint: r.HttpEndpoint, HttpProtocolIpv6: r.HttpProtocolIpv6,
			HttpPutResponseHopLimit: r.HttpPutResponseHopLimit, HttpTokens: r.HttpTokens, InstanceMetadataTags: r.InstanceMetadataTags,
		}); err != nil {
			return fmt.Errorf("change metadata options of %s: %w", m.id, err)
		}
		return nil
	}
	if err := do(ctx, o); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return do(ctx, m.aws.Spec.InstanceMetadataOptions) }, nil
}

// giveAddress associates a new elastic address.
func (e *Environment) giveAddress(ctx context.Context, id string) (undo func(context.Context) error, err error) {
	eip, err := e.EC2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc})
	if err != nil {
		return nil, fmt.Errorf("allocate address: %w", err)
	}
	association, err := e.EC2.AssociateAddress(ctx, &ec2.AssociateAddressInput{AllocationId: eip.AllocationId, InstanceId: aws.String(id)})
	if err != nil {
		return nil, fmt.Errorf("associate address with %s: %w", id, err)
	}
	return func(ctx context.Context) error {
		if _, err := e.EC2.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: association.AssociationId}); err != nil {
			return fmt.Errorf("disassociate address from %s: %w", id, err)
		}
		_, err := e.EC2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: eip.AllocationId})
		return err
	}, nil
}
