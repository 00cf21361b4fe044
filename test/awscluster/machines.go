package awscluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Annotations by which CAPA remembers what it last applied to an instance.
const (
	annotationTags       = "sigs.k8s.io/cluster-api-provider-aws-last-applied-tags"
	annotationVolumeTags = "sigs.k8s.io/cluster-api-provider-last-applied-tags-on-volumes"
)

var machineKind = infrav1.GroupVersion.WithKind("AWSMachine").GroupKind()

// machines makes the Machines of the control plane and of every
// MachineDeployment with their instances.
func (b *builder) machines(ctx context.Context) error {
	if err := b.controlPlaneMachines(); err != nil {
		return err
	}
	for _, d := range b.env.Deployments {
		if err := b.deploymentMachines(d); err != nil {
			return err
		}
	}
	inputs := make([]*ec2.RunInstancesInput, 0, len(b.env.Machines))
	for i, m := range b.env.Machines {
		in, err := b.runInput(m, b.env.AWSMachines[i])
		if err != nil {
			return err
		}
		inputs = append(inputs, in)
	}
	instances, err := b.runInstances(ctx, inputs)
	if err != nil {
		return err
	}
	if len(instances) != len(inputs) {
		return fmt.Errorf("%d instances were launched for %d machines", len(instances), len(inputs))
	}
	for i := range instances {
		b.record(b.env.Machines[i], b.env.AWSMachines[i], &instances[i])
		if isControlPlane(b.env.Machines[i]) {
			if err := b.register(ctx, aws.ToString(instances[i].InstanceId)); err != nil {
				return err
			}
		}
	}
	return nil
}

// controlPlaneMachines makes them as KubeadmControlPlane does: one after the
// other over the failure domains.
func (b *builder) controlPlaneMachines() error {
	kcp := b.env.ControlPlane
	template, err := b.template(kcp.Spec.MachineTemplate.Spec.InfrastructureRef)
	if err != nil {
		return err
	}
	var zones []string
	seen := map[string]bool{}
	for _, sn := range b.env.AWSCluster.Spec.NetworkSpec.Subnets.FilterPrivate() {
		if !seen[sn.AvailabilityZone] {
			seen[sn.AvailabilityZone] = true
			zones = append(zones, sn.AvailabilityZone)
		}
	}
	for i := range int(aws.ToInt32(kcp.Spec.Replicas)) {
		m := b.ControlPlaneMachine(kcp, controlPlaneAPIVersion, kcp.Spec.Version, i, machineKind)
		if len(zones) > 0 {
			m.Spec.FailureDomain = zones[i%len(zones)]
		}
		b.add(m, template)
	}
	return nil
}

// deploymentMachines makes a MachineDeployment's MachineSet and its Machines.
func (b *builder) deploymentMachines(d *clusterv1.MachineDeployment) error {
	template, err := b.template(d.Spec.Template.Spec.InfrastructureRef)
	if err != nil {
		return err
	}
	set, workers := b.Workers(d, machineKind)
	b.env.Sets = append(b.env.Sets, set)
	for _, m := range workers {
		b.add(m, template)
	}
	return nil
}

func (b *builder) template(ref clusterv1.ContractVersionedObjectReference) (*infrav1.AWSMachineTemplate, error) {
	for _, t := range b.env.MachineTemplates {
		if t.Name == ref.Name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("manifest has no AWSMachineTemplate %s", ref.Name)
}

// register adds a control-plane instance to every target group, or to the
// classic load balancer.
func (b *builder) register(ctx context.Context, id string) error {
	if lb := b.env.AWSCluster.Status.Network.APIServerELB; lb.LoadBalancerType == infrav1.LoadBalancerTypeClassic {
		if _, err := b.ELB.RegisterInstancesWithLoadBalancer(ctx, &elb.RegisterInstancesWithLoadBalancerInput{
			LoadBalancerName: aws.String(lb.Name), Instances: []elbtypes.Instance{{InstanceId: aws.String(id)}},
		}); err != nil {
			return fmt.Errorf("register %s with load balancer %s: %w", id, lb.Name, err)
		}
		return nil
	}
	for _, tg := range slices.Concat(b.env.TargetGroups, b.env.SecondaryTargetGroups) {
		if _, err := b.ELBV2.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{
			TargetGroupArn: aws.String(tg.ARN), Targets: []elbv2types.TargetDescription{{Id: aws.String(id), Port: aws.Int32(tg.Port)}},
		}); err != nil {
			return fmt.Errorf("register %s with target group %s: %w", id, tg.Name, err)
		}
	}
	return nil
}

// record writes what CAPA and CAPI learn from a running instance into the
// machine's objects.
func (b *builder) record(m *clusterv1.Machine, am *infrav1.AWSMachine, i *types.Instance) {
	id, zone := aws.ToString(i.InstanceId), ""
	if i.Placement != nil {
		zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	providerID := fmt.Sprintf("aws:///%s/%s", zone, id)
	am.Spec.ProviderID, am.Spec.InstanceID = &providerID, &id
	running := infrav1.InstanceStateRunning
	am.Status.Ready, am.Status.InstanceState = true, &running
	am.Status.Interruptible = am.Spec.SpotMarketOptions != nil
	tags := b.additionalTags(am)
	if len(tags) > 0 {
		am.Annotations[annotationTags] = mustJSON(tags)
	}
	volumes := map[string]infrav1.Tags{}
	for _, d := range i.BlockDeviceMappings {
		if d.Ebs != nil {
			volumes[aws.ToString(d.Ebs.VolumeId)] = tags
		}
	}
	if len(volumes) > 0 && len(tags) > 0 {
		am.Annotations[annotationVolumeTags] = mustJSON(volumes)
	}

	node := aws.ToString(i.PrivateDnsName)
	m.Spec.ProviderID = providerID
	m.Status.Phase = string(clusterv1.MachinePhaseRunning)
	m.Status.FailureDomain = m.Spec.FailureDomain
	m.Status.Initialization = clusterv1.MachineInitializationStatus{
		InfrastructureProvisioned: aws.Bool(true), BootstrapDataSecretCreated: aws.Bool(true),
	}
	m.Status.NodeRef.Name = node
	m.Status.LastUpdated = metav1.NewTime(b.Created)
	if node != "" {
		m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalDNS, Address: node})
	}
	if ip := aws.ToString(i.PrivateIpAddress); ip != "" {
		m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip})
	}
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings always marshal
	}
	return string(data)
}
