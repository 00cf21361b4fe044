package awscluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

const securityGroupsPath = "/securityGroups"

func attachmentTampers() []Tamper {
	return []Tamper{
		{
			Name: "security group detached from an instance", Row: "security groups on the primary interface", NotMendedOnMoto: motoHidesENI,
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				node, lb := e.group(infrav1.SecurityGroupNode), e.group(infrav1.SecurityGroupLB)
				undo, err := e.regroup(ctx, m.id, []string{node}, []string{node, lb})
				return damage(undo, err, machineDrift(m, removed(securityGroupsPath, lb)))
			}),
		},
		{
			Name: "default security group attached to an instance", Row: "foreign security group attached", Cases: []string{"C09"}, NotMendedOnMoto: motoHidesENI,
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				node, lb := e.group(infrav1.SecurityGroupNode), e.group(infrav1.SecurityGroupLB)
				other, err := e.defaultGroup(ctx)
				if err != nil {
					return nil, err
				}
				undo, err := e.regroup(ctx, m.id, []string{node, lb, other}, []string{node, lb})
				return damage(undo, err, machineDrift(m, added(securityGroupsPath, other)))
			}),
		},
		{
			Name: "interface of a CNI with groups of its own", Row: "security groups on the primary interface", Cases: []string{"C10"},
			Do: onMachine((*Environment).worker, addCNIInterface),
		},
		{
			Name: "instance profile replaced", Row: "IAM instance profile",
			NotOnMoto: "DescribeInstances goes on showing the profile of the launch",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				const other = "administrator"
				if err := e.InstanceProfile(ctx, other); err != nil {
					return nil, err
				}
				if err := e.replaceProfile(ctx, m.id, other); err != nil {
					return nil, err
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, changed("/iamInstanceProfile", m.aws.Spec.IAMInstanceProfile, other))},
					Undo:     func(ctx context.Context) error { return e.replaceProfile(ctx, m.id, m.aws.Spec.IAMInstanceProfile) },
				}, nil
			}),
		},
		{
			Name: "instance profile taken away", Row: "IAM instance profile",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				association, err := e.profileAssociation(ctx, m.id)
				if err != nil {
					return nil, err
				}
				if _, err := e.EC2.DisassociateIamInstanceProfile(ctx, &ec2.DisassociateIamInstanceProfileInput{AssociationId: aws.String(association)}); err != nil {
					return nil, fmt.Errorf("disassociate instance profile of %s: %w", m.id, err)
				}
				profile := m.aws.Spec.IAMInstanceProfile
				return &Damage{
					Findings: []Finding{machineDrift(m, removed("/iamInstanceProfile", profile))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{
							InstanceId: aws.String(m.id), IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: aws.String(profile)},
						})
						return err
					},
				}, nil
			}),
		},
		{
			Name: "control plane deregistered from its target group", Row: "load balancer registration",
			Do: onMachine((*Environment).controlPlane, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				tg := e.TargetGroups[0]
				target := []elbv2types.TargetDescription{{Id: aws.String(m.id), Port: aws.Int32(tg.Port)}}
				if _, err := e.ELBV2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{TargetGroupArn: aws.String(tg.ARN), Targets: target}); err != nil {
					return nil, fmt.Errorf("deregister %s: %w", m.id, err)
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, removed(providers.Pointer("loadBalancers", tg.Name), "registered"))},
					Undo: func(ctx context.Context) error {
						_, err := e.ELBV2.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: aws.String(tg.ARN), Targets: target})
						return err
					},
				}, nil
			}),
		},
		{
			Name: "control plane registered on another port", Row: "load balancer registration",
			NotOnMoto: "moto deregisters a target on all of its ports",
			Do: onMachine((*Environment).controlPlane, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				tg := e.TargetGroups[0]
				at := func(port int32) []elbv2types.TargetDescription {
					return []elbv2types.TargetDescription{{Id: aws.String(m.id), Port: aws.Int32(port)}}
				}
				move := func(ctx context.Context, from, to int32) error {
					if _, err := e.ELBV2.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: aws.String(tg.ARN), Targets: at(to)}); err != nil {
						return fmt.Errorf("register %s on port %d: %w", m.id, to, err)
					}
					_, err := e.ELBV2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{TargetGroupArn: aws.String(tg.ARN), Targets: at(from)})
					return err
				}
				if err := move(ctx, tg.Port, tg.Port+1); err != nil {
					return nil, err
				}
				there := fmt.Sprintf("registered on port %d", tg.Port+1)
				return &Damage{
					Findings: []Finding{machineDrift(m, changed(providers.Pointer("loadBalancers", tg.Name), "registered", there))},
					Undo:     func(ctx context.Context) error { return move(ctx, tg.Port+1, tg.Port) },
				}, nil
			}),
		},
	}
}

// subnet finds the cluster's subnet whose name ends so.
func (e *Environment) subnet(suffix string) *infrav1.SubnetSpec {
	subnets := e.AWSCluster.Spec.NetworkSpec.Subnets
	for i := range subnets {
		if strings.HasSuffix(subnets[i].ID, suffix) {
			return &subnets[i]
		}
	}
	panic("cluster " + e.Cluster.Name + " has no subnet whose name ends in " + suffix)
}

// group gives the id of a role's security group.
func (e *Environment) group(role infrav1.SecurityGroupRole) string {
	return e.AWSCluster.Status.Network.SecurityGroups[role].ID
}

// defaultGroup finds the VPC's default security group.
func (e *Environment) defaultGroup(ctx context.Context) (string, error) {
	out, err := e.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{
		{Name: aws.String("vpc-id"), Values: []string{e.AWSCluster.Spec.NetworkSpec.VPC.ID}},
		{Name: aws.String("group-name"), Values: []string{"default"}},
	}})
	if err != nil || len(out.SecurityGroups) != 1 {
		return "", fmt.Errorf("find default security group: %d found: %w", len(out.SecurityGroups), err)
	}
	return aws.ToString(out.SecurityGroups[0].GroupId), nil
}

// regroup sets an instance's security groups; its undo sets others. To EC2 the
// instance's groups are its primary interface's; moto shows both together, so
// both are set.
func (e *Environment) regroup(ctx context.Context, id string, groups, back []string) (func(context.Context) error, error) {
	instance, err := e.describe(ctx, id)
	if err != nil {
		return nil, err
	}
	do := func(ctx context.Context, groups []string) error {
		if _, err := e.EC2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: aws.String(id), Groups: groups}); err != nil {
			return fmt.Errorf("set security groups of %s: %w", id, err)
		}
		eni := instance.NetworkInterfaces[0].NetworkInterfaceId
		if _, err := e.EC2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: eni, Groups: groups}); err != nil {
			return fmt.Errorf("set security groups of %s: %w", *eni, err)
		}
		return nil
	}
	if err := do(ctx, groups); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return do(ctx, back) }, nil
}

func (e *Environment) profileAssociation(ctx context.Context, id string) (string, error) {
	out, err := e.EC2.DescribeIamInstanceProfileAssociations(ctx, &ec2.DescribeIamInstanceProfileAssociationsInput{
		Filters: []types.Filter{{Name: aws.String("instance-id"), Values: []string{id}}},
	})
	if err != nil {
		return "", fmt.Errorf("find instance profile association of %s: %w", id, err)
	}
	for _, a := range out.IamInstanceProfileAssociations {
		if a.State == types.IamInstanceProfileAssociationStateAssociated || a.State == types.IamInstanceProfileAssociationStateAssociating {
			return aws.ToString(a.AssociationId), nil
		}
	}
	return "", fmt.Errorf("instance %s has no instance profile", id)
}

func (e *Environment) replaceProfile(ctx context.Context, id, profile string) error {
	association, err := e.profileAssociation(ctx, id)
	if err != nil {
		return err
	}
	if _, err := e.EC2.ReplaceIamInstanceProfileAssociation(ctx, &ec2.ReplaceIamInstanceProfileAssociationInput{
		AssociationId: aws.String(association), IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: aws.String(profile)},
	}); err != nil {
		return fmt.Errorf("replace instance profile of %s: %w", id, err)
	}
	return nil
}

// addCNIInterface attaches an interface as the VPC CNI does: with its own tags
// and other groups. The machine's spec says nothing of it.
func addCNIInterface(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
	other, err := e.defaultGroup(ctx)
	if err != nil {
		return nil, err
	}
	instance, err := e.describe(ctx, m.id)
	if err != nil {
		return nil, err
	}
	made, err := e.EC2.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{
		SubnetId: instance.SubnetId, Groups: []string{other}, Description: aws.String("aws-K8S-" + m.id),
		TagSpecifications: tagSpec(types.ResourceTypeNetworkInterface, map[string]string{
			"node.k8s.amazonaws.com/instance_id":                  m.id,
			"cluster.k8s.amazonaws.com/name":                      e.Cluster.Name,
			infrav1.ClusterAWSCloudProviderTagKey(e.Cluster.Name): "owned",
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("create interface: %w", err)
	}
	id := made.NetworkInterface.NetworkInterfaceId
	attached, err := e.EC2.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
		DeviceIndex: aws.Int32(1), InstanceId: aws.String(m.id), NetworkInterfaceId: id,
	})
	if err != nil {
		return nil, fmt.Errorf("attach interface %s: %w", *id, err)
	}
	return noFindings(func(ctx context.Context) error {
		if _, err := e.EC2.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: attached.AttachmentId, Force: aws.Bool(true)}); err != nil {
			return fmt.Errorf("detach interface %s: %w", *id, err)
		}
		if err := ec2.NewNetworkInterfaceAvailableWaiter(e.EC2, func(o *ec2.NetworkInterfaceAvailableWaiterOptions) {
			o.MinDelay, o.MaxDelay = tamperPoll, tamperPoll
		}).Wait(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*id}}, tamperPatience); err != nil {
			return fmt.Errorf("wait for interface %s to detach: %w", *id, err)
		}
		_, err := e.EC2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: id})
		return err
	}), nil
}
