//go:build !nodemo

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// demoAWS is the example cluster on the EC2 simulator.
type demoAWS struct {
	sim *ec2sim.Server
	env *awscluster.Environment
	// before is how many changing calls had been made when the story's last
	// person was done.
	storyCalls int
}

func startDemoAWS(ctx context.Context, created time.Time) (cloud, error) {
	manifest, err := awscluster.Load(awsexamples.Files, "prod-eu.yaml")
	if err != nil {
		return nil, err
	}
	region := manifest.AWSCluster.Spec.Region
	// States change at once: the story has no time to wait for a boot.
	d := &demoAWS{sim: ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}})}
	if err := useSimulator(d.sim); err != nil {
		return d, err
	}
	image, err := d.sim.AddImage(d.sim.DefaultScope(region), ec2sim.Image{Name: "ubuntu-2404-kube-v1.34.2"})
	if err != nil {
		return d, err
	}
	d.env, err = awscluster.Build(ctx, awscluster.ClientsFrom(d.sim.Config(region)), awscluster.Options{
		Manifest: manifest, Created: created, Poll: time.Millisecond, Simulator: d.sim, Image: image,
	})
	d.settle()
	return d, err
}

// useSimulator points the standard credential chain of this process at the
// simulator, so that the demo's report takes the very path of a real one.
func useSimulator(sim *ec2sim.Server) error {
	for name, value := range simulatorEnvironment(sim) {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// simulatorEnvironment is what the AWS SDK's chain needs to find the simulator
// and nothing of this machine's own AWS settings.
func simulatorEnvironment(sim *ec2sim.Server) map[string]string {
	credential := sim.Credentials()[0]
	return map[string]string{
		"AWS_ENDPOINT_URL":            sim.URL(),
		"AWS_ACCESS_KEY_ID":           credential.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY":       credential.SecretAccessKey,
		"AWS_SESSION_TOKEN":           "",
		"AWS_PROFILE":                 "",
		"AWS_CONFIG_FILE":             os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_EC2_METADATA_DISABLED":   "true",
	}
}

// settle notes that every changing call so far was the story's.
func (d *demoAWS) settle() { d.storyCalls = len(d.sim.Mutations()) }

func (d *demoAWS) mutations() int         { return len(d.sim.Mutations()) - d.storyCalls }
func (d *demoAWS) write(dir string) error { return d.env.Write(dir + "/prod-eu") }
func (d *demoAWS) close()                 { d.sim.Close() }

// pool gives the instance ids of the machines whose MachineDeployment ends so;
// "" is the control plane.
func (d *demoAWS) pool(suffix string) []string {
	var out []string
	for i, m := range d.env.Machines {
		deployment := m.Labels[clusterv1.MachineDeploymentNameLabel]
		if deployment == "" && suffix == "" || suffix != "" && strings.HasSuffix(deployment, suffix) {
			out = append(out, *d.env.AWSMachines[i].Spec.InstanceID)
		}
	}
	return out
}

func (d *demoAWS) group(role infrav1.SecurityGroupRole) string {
	return d.env.AWSCluster.Status.Network.SecurityGroups[role].ID
}

func (d *demoAWS) mishaps() []mishap {
	workers, storage, controlPlane := d.pool("-general"), d.pool("-storage"), d.pool("")
	done := func(who, what string, do func(context.Context) error) mishap {
		return mishap{who: who, what: what, do: func(ctx context.Context) error {
			defer d.settle()
			return do(ctx)
		}}
	}
	return []mishap{
		done("A developer", "resizes a worker in the console, for the weekend", func(ctx context.Context) error { return d.resize(ctx, workers[0], "m5.4xlarge") }),
		done("A cost script", "deletes the tag CostCenter from the storage workers", func(ctx context.Context) error {
			_, err := d.env.EC2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: storage, Tags: []types.Tag{{Key: aws.String("CostCenter")}}})
			return err
		}),
		done("A debugging person", "opens SSH on all nodes to the world", d.openSSH),
		done("The same person", "makes IMDSv1 work again on a control-plane machine", func(ctx context.Context) error {
			_, err := d.env.EC2.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{
				InstanceId: &controlPlane[0], HttpTokens: types.HttpTokensStateOptional})
			return err
		}),
		done("A network change", "deletes the default route of a private subnet", d.deleteRoute),
		done("Somebody", "takes a control-plane machine out of the load balancer", func(ctx context.Context) error { return d.deregister(ctx, controlPlane[1]) }),
		done("A clean-up job", "terminates a worker that looked idle", func(ctx context.Context) error {
			_, err := d.env.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: workers[1:2]})
			return err
		}),
		done("An intern", "stops a worker, and goes on holiday", func(ctx context.Context) error {
			_, err := d.env.EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: workers[2:3]})
			return err
		}),
	}
}

func (d *demoAWS) resize(ctx context.Context, id, instanceType string) error {
	if _, err := d.env.EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}}); err != nil {
		return err
	}
	if _, err := d.env.EC2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{
		InstanceId: &id, InstanceType: &types.AttributeValue{Value: &instanceType}}); err != nil {
		return err
	}
	_, err := d.env.EC2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}})
	return err
}

func (d *demoAWS) openSSH(ctx context.Context) error {
	_, err := d.env.EC2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: aws.String(d.group(infrav1.SecurityGroupNode)),
		IpPermissions: []types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22),
			IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0"), Description: aws.String("temporary!!")}},
		}},
	})
	return err
}

func (d *demoAWS) deleteRoute(ctx context.Context) error {
	for _, s := range d.env.AWSCluster.Spec.NetworkSpec.Subnets {
		if !s.IsPublic && s.RouteTableID != nil {
			_, err := d.env.EC2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: s.RouteTableID, DestinationCidrBlock: aws.String("0.0.0.0/0")})
			return err
		}
	}
	return fmt.Errorf("cluster %s has no private subnet", d.env.Cluster.Name)
}

func (d *demoAWS) deregister(ctx context.Context, id string) error {
	_, err := d.env.ELBV2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{
		TargetGroupArn: aws.String(d.env.TargetGroups[0].ARN), Targets: []elbv2types.TargetDescription{{Id: &id}}})
	return err
}
