package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func tagTampers() []Tamper {
	return []Tamper{
		{
			Name: "tag changed", Row: "tags",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				undo, err := e.retag(ctx, m.id, map[string]string{"Environment": "dev"}, nil, map[string]string{"Environment": "prod"}, nil)
				return damage(undo, err, machineDrift(m, changed(tagPath("Environment"), "prod", "dev")))
			}),
		},
		{
			Name: "tags removed", Row: "tags",
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				undo, err := e.retag(ctx, m.id, nil, []string{"CostCenter", "Pool"}, map[string]string{"CostCenter": "4711", "Pool": "general"}, nil)
				return damage(undo, err, machineDrift(m, removed(tagPath("CostCenter"), "4711"), removed(tagPath("Pool"), "general")))
			}),
		},
		{
			Name: "tag spelled in lower case", Row: "tags", Cases: []string{"C19"},
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				undo, err := e.retag(ctx, m.id, map[string]string{"environment": "prod"}, []string{"Environment"}, map[string]string{"Environment": "prod"}, []string{"environment"})
				return damage(undo, err, machineDrift(m, removed(tagPath("Environment"), "prod")))
			}),
		},
		{
			Name: "tag of another tool added", Row: "tags", Cases: []string{"C18"},
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				undo, err := e.retag(ctx, m.id, map[string]string{"backup/last": "2026-11-29"}, nil, nil, []string{"backup/last"})
				return damage(undo, err)
			}),
		},
		{
			Name: "name tag changed", Row: "tags",
			Do: onMachine((*Environment).storage, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				undo, err := e.retag(ctx, m.id, map[string]string{"Name": "do not touch"}, nil, map[string]string{"Name": m.aws.Name}, nil)
				return damage(undo, err, machineDrift(m, changed(tagPath("Name"), m.aws.Name, "do not touch")))
			}),
		},
		{
			Name: "ownership tags removed", Row: "tags",
			Do: onMachine((*Environment).storage, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				keys := []string{infrav1.ClusterTagKey(e.Cluster.Name), infrav1.ClusterAWSCloudProviderTagKey(e.Cluster.Name)}
				undo, err := e.retag(ctx, m.id, nil, keys, map[string]string{keys[0]: "owned", keys[1]: "owned"}, nil)
				return damage(undo, err, machineDrift(m, removed(tagPath(keys[0]), "owned"), removed(tagPath(keys[1]), "owned")))
			}),
		},
		{
			Name: "tags of a subnet removed", Row: "subnets",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id := e.subnet("-public-a").ResourceID
				undo, err := e.retag(ctx, id, nil, []string{tagExternalELB}, map[string]string{tagExternalELB: "1"}, nil)
				return damage(undo, err, e.clusterDrift(providers.KindSubnet, id, removed(tagPath(tagExternalELB), "1")))
			},
		},
		{
			Name: "tags of gateways and route tables removed", Row: "route tables",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				set := map[string]string{"CostCenter": "4711"}
				ids := map[string]string{
					providers.KindInternetGateway: *e.AWSCluster.Spec.NetworkSpec.VPC.InternetGatewayID,
					providers.KindNATGateway:      *e.subnet("-public-b").NatGatewayID,
					providers.KindRouteTable:      *e.subnet("-private-c").RouteTableID,
				}
				out := &Damage{Undo: func(context.Context) error { return nil }}
				for kind, id := range ids {
					undo, err := e.retag(ctx, id, nil, []string{"CostCenter"}, set, nil)
					if err != nil {
						return nil, err
					}
					out.Undo = both(out.Undo, undo)
					out.Findings = append(out.Findings, e.clusterDrift(kind, id, removed(tagPath("CostCenter"), "4711")))
				}
				return out, nil
			},
		},
		{
			Name: "ownership tag of the VPC removed", Row: "VPC",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id, key := e.AWSCluster.Spec.NetworkSpec.VPC.ID, infrav1.ClusterTagKey(e.Cluster.Name)
				undo, err := e.retag(ctx, id, nil, []string{key}, map[string]string{key: "owned"}, nil)
				return damage(undo, err, e.clusterDrift(providers.KindVPC, id, removed(tagPath(key), "owned")))
			},
		},
		{
			Name: "tag of a security group changed", Row: "security groups",
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id := e.group(infrav1.SecurityGroupNode)
				undo, err := e.retag(ctx, id, map[string]string{"CostCenter": "1"}, nil, map[string]string{"CostCenter": "4711"}, nil)
				return damage(undo, err, e.clusterDrift(providers.KindSecurityGroup, id, changed(tagPath("CostCenter"), "4711", "1")))
			},
		},
	}
}

// damage makes a tamper's answer of an undo, which is nil if there is none, and
// the findings.
func damage(undo func(context.Context) error, err error, findings ...Finding) (*Damage, error) {
	if err != nil {
		return nil, err
	}
	return &Damage{Findings: findings, Undo: undo}, nil
}

// retag sets and removes tags; its undo sets and removes others.
func (e *Environment) retag(ctx context.Context, id string, set map[string]string, remove []string, setBack map[string]string, removeAgain []string) (undo func(context.Context) error, err error) {
	do := func(ctx context.Context, set map[string]string, remove []string) error {
		if len(remove) > 0 {
			in := &ec2.DeleteTagsInput{Resources: []string{id}}
			for _, key := range remove {
				in.Tags = append(in.Tags, ec2Tag(key))
			}
			if _, err := e.EC2.DeleteTags(ctx, in); err != nil {
				return fmt.Errorf("delete tags of %s: %w", id, err)
			}
		}
		if len(set) > 0 {
			if _, err := e.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: ec2Tags(set)}); err != nil {
				return fmt.Errorf("create tags of %s: %w", id, err)
			}
		}
		return nil
	}
	if err := do(ctx, set, remove); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return do(ctx, setBack, removeAgain) }, nil
}
