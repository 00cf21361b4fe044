package awscluster

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// orphan is a resource with the cluster's ownership tag that no object wants.
func (e *Environment) orphan(kind, id, state string) Finding {
	return Finding{
		Owner: "Cluster/" + e.Cluster.Name, Kind: kind, ID: id, Status: detector.Unexpected,
		Diffs: []Diff{added("/state", state)},
	}
}

// ownedTags are CAPA's tags of a resource of the cluster.
func (e *Environment) ownedTags(name string) map[string]string {
	return map[string]string{"Name": name, infrav1.ClusterTagKey(e.Cluster.Name): "owned"}
}

func orphanTampers() []Tamper {
	return []Tamper{
		{
			Name: "instance that no object wants", Row: "orphans",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				return e.launchOrphan(ctx, m, "leftover")
			}),
		},
		{
			Name: "second instance with a machine's name", Row: "orphans", Cases: []string{"C65"},
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				return e.launchOrphan(ctx, m, m.aws.Name)
			}),
		},
		{
			Name: "volume that no object wants", Row: "orphans",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id, err := e.createVolume(ctx, e.subnet("-private-a").AvailabilityZone, e.ownedTags("leftover"))
				return damage(func(ctx context.Context) error { return e.deleteVolume(ctx, id) }, err, e.orphan(providers.KindVolume, id, "available"))
			},
		},
		{
			Name: "interface that no object wants", Row: "orphans",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id, err := e.createInterface(ctx, e.ownedTags("leftover"))
				return damage(func(ctx context.Context) error { return e.deleteInterface(ctx, id) }, err, e.orphan(providers.KindNetworkInterface, id, "present"))
			},
		},
		{
			Name: "security group that no object wants", Row: "orphans", Cases: []string{"C12"},
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id, err := e.createGroup(ctx, "leftover", e.ownedTags("leftover"))
				return damage(func(ctx context.Context) error { return e.deleteGroup(ctx, id) }, err, e.orphan(providers.KindSecurityGroup, id, "present"))
			},
		},
		{
			Name: "load balancer that no object wants", Row: "orphans",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				arn, err := e.createNLB(ctx, "leftover", e.ownedTags("leftover"))
				return damage(func(ctx context.Context) error {
					_, err := e.ELBV2.DeleteLoadBalancer(ctx, &elbv2.DeleteLoadBalancerInput{LoadBalancerArn: aws.String(arn)})
					return err
				}, err, e.orphan(providers.KindLoadBalancer, arn, "active"))
			},
		},
		{
			Name: "instance of another cluster", Row: "orphans", Cases: []string{"C50"},
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				id, err := e.launchCopy(ctx, m, map[string]string{"Name": m.aws.Name, infrav1.ClusterTagKey("other"): "owned"})
				return damage(func(ctx context.Context) error { return e.terminate(ctx, id) }, err)
			}),
		},
	}
}

// launchOrphan launches a copy of a machine under the cluster's tags.
func (e *Environment) launchOrphan(ctx context.Context, m *machine, name string) (*Damage, error) {
	tags := e.ownedTags(name)
	tags[infrav1.NameAWSClusterAPIRole] = "node"
	id, err := e.launchCopy(ctx, m, tags)
	return damage(func(ctx context.Context) error { return e.terminate(ctx, id) }, err, e.orphan(providers.KindInstance, id, "running"))
}

func (e *Environment) launchCopy(ctx context.Context, m *machine, tags map[string]string) (string, error) {
	in := &ec2.RunInstancesInput{
		ImageId: m.aws.Spec.AMI.ID, InstanceType: types.InstanceType(m.aws.Spec.InstanceType),
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(e.subnet("-private-a").ResourceID),
		SecurityGroupIds: []string{e.group(infrav1.SecurityGroupNode)},
	}
	for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume} {
		in.TagSpecifications = append(in.TagSpecifications, tagSpec(kind, tags)...)
	}
	out, err := e.EC2.RunInstances(ctx, in)
	if err != nil {
		return "", fmt.Errorf("run instance: %w", err)
	}
	id := aws.ToString(out.Instances[0].InstanceId)
	return id, e.running(ctx, id)
}

func (e *Environment) createInterface(ctx context.Context, tags map[string]string) (string, error) {
	out, err := e.EC2.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{
		SubnetId: aws.String(e.subnet("-private-a").ResourceID), Groups: []string{e.group(infrav1.SecurityGroupNode)},
		TagSpecifications: tagSpec(types.ResourceTypeNetworkInterface, tags),
	})
	if err != nil {
		return "", fmt.Errorf("create interface: %w", err)
	}
	return aws.ToString(out.NetworkInterface.NetworkInterfaceId), nil
}

func (e *Environment) deleteInterface(ctx context.Context, id string) error {
	_, err := e.EC2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String(id)})
	return err
}

func (e *Environment) createGroup(ctx context.Context, name string, tags map[string]string) (string, error) {
	out, err := e.EC2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		VpcId: aws.String(e.AWSCluster.Spec.NetworkSpec.VPC.ID), GroupName: aws.String(name), Description: aws.String(name),
		TagSpecifications: tagSpec(types.ResourceTypeSecurityGroup, tags),
	})
	if err != nil {
		return "", fmt.Errorf("create security group %s: %w", name, err)
	}
	return aws.ToString(out.GroupId), nil
}

func (e *Environment) deleteGroup(ctx context.Context, id string) error {
	_, err := e.EC2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: aws.String(id)})
	return err
}

func (e *Environment) createNLB(ctx context.Context, name string, tags map[string]string) (string, error) {
	out, err := e.ELBV2.CreateLoadBalancer(ctx, &elbv2.CreateLoadBalancerInput{
		Name: aws.String(name), Type: elbv2types.LoadBalancerTypeEnumNetwork, Scheme: elbv2types.LoadBalancerSchemeEnumInternal,
		Subnets: []string{e.subnet("-private-a").ResourceID}, Tags: elbv2Tags(tags),
	})
	if err != nil {
		return "", fmt.Errorf("create load balancer %s: %w", name, err)
	}
	return aws.ToString(out.LoadBalancers[0].LoadBalancerArn), nil
}

// csiTags are the tags of a volume of the EBS CSI driver, made for a claim.
func csiTags(cluster string) map[string]string {
	return map[string]string{
		"ebs.csi.aws.com/cluster":                 "true",
		"CSIVolumeName":                           "pvc-1b4c2f1e",
		"kubernetes.io/created-for/pvc/name":      "data-0",
		"kubernetes.io/cluster/" + cluster:        "owned",
		infrav1.ClusterTagKey(cluster):            "owned",
		"kubernetes.io/created-for/pv/name":       "pvc-1b4c2f1e",
		"kubernetes.io/created-for/pvc/namespace": "default",
	}
}

// foreignTampers make things that carry the cluster's tags and belong to
// another controller. They are reported as foreign at most, and never as
// orphans.
func foreignTampers() []Tamper {
	return []Tamper{
		{
			Name: "volume of the CSI driver", Row: "orphans",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id, err := e.createVolume(ctx, e.subnet("-private-a").AvailabilityZone, csiTags(e.Cluster.Name))
				return damage(func(ctx context.Context) error { return e.deleteVolume(ctx, id) }, err, e.foreign(providers.KindVolume, id))
			},
		},
		{
			Name: "interface of the CNI", Row: "orphans",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				tags := e.ownedTags("aws-K8S-i-0")
				tags["node.k8s.amazonaws.com/instance_id"] = "i-0123456789abcdef0"
				id, err := e.createInterface(ctx, tags)
				return damage(func(ctx context.Context) error { return e.deleteInterface(ctx, id) }, err, e.foreign(providers.KindNetworkInterface, id))
			},
		},
		{
			Name: "security group of the load balancer controller", Row: "orphans",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				tags := e.ownedTags("k8s-traffic-shared")
				maps.Copy(tags, map[string]string{"elbv2.k8s.aws/cluster": e.Cluster.Name, "elbv2.k8s.aws/resource": "backend-sg"})
				id, err := e.createGroup(ctx, "k8s-traffic-shared", tags)
				return damage(func(ctx context.Context) error { return e.deleteGroup(ctx, id) }, err, e.foreign(providers.KindSecurityGroup, id))
			},
		},
		{
			Name: "load balancer of a Service", Row: "orphans",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				const name = "a3b1c5d7e9f00112233445566778899a"
				if _, err := e.ELB.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
					LoadBalancerName: aws.String(name), Subnets: []string{e.subnet("-public-a").ResourceID},
					Listeners: []elbtypes.Listener{{Protocol: aws.String("TCP"), LoadBalancerPort: 80, InstanceProtocol: aws.String("TCP"), InstancePort: aws.Int32(30080)}},
					Tags: elbTags(map[string]string{
						"kubernetes.io/service-name": "default/web", infrav1.ClusterAWSCloudProviderTagKey(e.Cluster.Name): "owned",
					}),
				}); err != nil {
					return nil, fmt.Errorf("create load balancer %s: %w", name, err)
				}
				return &Damage{
					Findings: []Finding{e.foreign(providers.KindLoadBalancer, "classic/"+name)},
					Undo: func(ctx context.Context) error {
						_, err := e.ELB.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerName: aws.String(name)})
						return err
					},
				}, nil
			},
		},
	}
}

func (e *Environment) foreign(kind, id string) Finding {
	return Finding{Owner: "Cluster/" + e.Cluster.Name, Kind: kind, ID: id, Status: detector.Foreign}
}
