package awscluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/capi"
)

// Player plays CAPA for the objects of one cluster that live in an API server,
// one object at a time, where [Build] makes all of a cluster's objects itself.
// Its methods may be called by several goroutines; calls are made one after
// the other.
type Player struct {
	mu sync.Mutex
	b  *builder
}

// NewPlayer makes the player of one cluster's objects. It makes no call.
func NewPlayer(clients Clients, cluster *clusterv1.Cluster) *Player {
	return &Player{b: &builder{
		Clients: clients, Maker: capi.NewMaker(cluster, time.Now()), env: &Environment{Clients: clients, Cluster: cluster},
		poll: 20 * time.Millisecond, patience: time.Minute, rootDevices: map[string]string{},
	}}
}

// Infrastructure makes everything but machines and records it in the AWSCluster,
// spec and status, as [Build] does. It is not idempotent: one call in a
// player's life.
func (p *Player) Infrastructure(ctx context.Context, c *infrav1.AWSCluster) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.env.AWSCluster = c
	for _, step := range []func(context.Context) error{p.b.prerequisites, p.b.network, p.b.securityGroups, p.b.loadBalancer} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("infrastructure of cluster %s: %w", p.b.Name, err)
		}
	}
	p.b.awsClusterStatus()
	return nil
}

// TargetGroups are those of the control plane's load balancer.
func (p *Player) TargetGroups() []TargetGroup {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.env.TargetGroups
}

// Launch runs the instance of a machine by CAPA's call. The token makes a
// second launch of the same machine give the first one's instance.
func (p *Player) Launch(ctx context.Context, c *infrav1.AWSCluster, m *clusterv1.Machine, am *infrav1.AWSMachine, token string) (*types.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.env.AWSCluster = c
	p.b.env.MachineTemplates = []*infrav1.AWSMachineTemplate{{}}
	p.b.env.MachineTemplates[0].Spec.Template.Spec = am.Spec
	if err := p.b.prerequisites(ctx); err != nil {
		return nil, err
	}
	in, err := p.b.runInput(m, am)
	if err != nil {
		return nil, err
	}
	in.ClientToken = aws.String(token)
	out, err := p.b.EC2.RunInstances(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("run instance of %s: %w", am.Name, err)
	}
	return &out.Instances[0], nil
}

// Instance reads one; nil is one that EC2 does not describe any more.
func (p *Player) Instance(ctx context.Context, id string) (*types.Instance, error) {
	out, err := p.b.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if ignore(err, "InvalidInstanceID.NotFound") == nil && err != nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", id, err)
	}
	for _, r := range out.Reservations {
		if len(r.Instances) > 0 {
			return &r.Instances[0], nil
		}
	}
	return nil, nil
}

// Record writes what CAPA learns from an instance that runs into the
// AWSMachine.
func (p *Player) Record(c *infrav1.AWSCluster, am *infrav1.AWSMachine, i *types.Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.env.AWSCluster = c
	if am.Annotations == nil {
		am.Annotations = map[string]string{}
	}
	p.b.record(&clusterv1.Machine{}, am, i)
}

// Register puts a control plane's instance behind its load balancer.
func (p *Player) Register(ctx context.Context, c *infrav1.AWSCluster, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.env.AWSCluster = c
	return p.b.register(ctx, id)
}

// Deregister takes it out again, as CAPA does before it terminates one.
func (p *Player) Deregister(ctx context.Context, c *infrav1.AWSCluster, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lb := c.Status.Network.APIServerELB; lb.LoadBalancerType == infrav1.LoadBalancerTypeClassic {
		_, err := p.b.ELB.DeregisterInstancesFromLoadBalancer(ctx, &elb.DeregisterInstancesFromLoadBalancerInput{
			LoadBalancerName: aws.String(lb.Name), Instances: []elbtypes.Instance{{InstanceId: aws.String(id)}},
		})
		return ignore(err, "InvalidInstance")
	}
	var errs []error
	for _, tg := range p.b.env.TargetGroups {
		_, err := p.b.ELBV2.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{
			TargetGroupArn: aws.String(tg.ARN), Targets: []elbv2types.TargetDescription{{Id: aws.String(id)}},
		})
		errs = append(errs, ignore(err, "InvalidTarget", "TargetGroupNotFound"))
	}
	return errors.Join(errs...)
}

// Terminate asks for an instance's end. One that is gone is no error.
func (p *Player) Terminate(ctx context.Context, id string) error {
	_, err := p.b.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	if err := ignore(err, "InvalidInstanceID.NotFound"); err != nil {
		return fmt.Errorf("terminate %s: %w", id, err)
	}
	return nil
}

// Place moves a manifest to another namespace, with the image that all its
// machines have; an empty one leaves theirs.
func (m *Manifest) Place(namespace, image string) {
	m.applied = strings.ReplaceAll(m.applied, `"namespace":"`+m.AWSCluster.Namespace+`"`, `"namespace":"`+namespace+`"`)
	for _, o := range m.objects() {
		o.SetNamespace(namespace)
	}
	for _, t := range m.MachineTemplates {
		if image != "" {
			t.Spec.Template.Spec.AMI.ID = aws.String(image)
		}
	}
}

// Objects are what kubectl apply would create, in an order in which each
// refers to earlier ones, the Cluster last.
func (m *Manifest) Objects() []client.Object {
	if m.AWSCluster.Annotations == nil {
		m.AWSCluster.Annotations = map[string]string{}
	}
	m.AWSCluster.Annotations[corev1.LastAppliedConfigAnnotation] = m.applied
	return m.objects()
}

func (m *Manifest) objects() []client.Object {
	out := capi.Append(nil, m.MachineTemplates)
	out = capi.Append(out, m.ConfigTemplates)
	out = append(out, m.AWSCluster, m.ControlPlane)
	out = capi.Append(out, m.Deployments)
	return append(out, m.Cluster)
}
