package awscluster

import (
	"context"
	"fmt"
	"time"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// Options say which cluster to make and how.
type Options struct {
	// Manifest is what the user applied; it is changed by Build.
	Manifest *Manifest
	// Workers overrides the replicas of MachineDeployments by name.
	Workers map[string]int32
	// Image replaces the image of every machine; empty leaves the manifest's.
	Image string
	// Edit changes the manifest before anything is made, as its user would
	// have written it; nil leaves it.
	Edit func(*Manifest)
	// BringVPC has the manifest's network made by its user rather than by
	// CAPA: it then names a VPC and subnets that exist.
	BringVPC bool
	// Created is when the objects were made. The zero time stands for a day
	// ago, which is past any creation grace.
	Created time.Time
	// OnMoto says that the endpoint is moto: the manifest is cut down to what
	// moto can hold, and tampers expect what moto shows of them.
	OnMoto bool
	// Simulator is the endpoint, if it is ec2sim; tampers that no API call
	// brings about are done through it.
	Simulator *ec2sim.Server
	// UserData gives what machines boot with, after the lines that they all
	// have; nil is nothing more.
	UserData func(machine string) string
	// Poll is the pause between looks at something that takes time; zero
	// stands for 50ms. It does not matter where states change at once.
	Poll time.Duration
}

// Environment is a cluster that exists: its objects as they stand in a
// management cluster, and the clients of the cloud that holds it.
type Environment struct {
	Clients

	Cluster          *clusterv1.Cluster
	AWSCluster       *infrav1.AWSCluster
	ControlPlane     *controlplanev1.KubeadmControlPlane
	Deployments      []*clusterv1.MachineDeployment
	MachineTemplates []*infrav1.AWSMachineTemplate
	ConfigTemplates  []*bootstrapv1.KubeadmConfigTemplate
	// Identity is the one that CAPA makes for its own credentials.
	Identity *infrav1.AWSClusterControllerIdentity
	Sets     []*clusterv1.MachineSet
	Machines []*clusterv1.Machine
	// AWSMachines and Configs are in the order of Machines.
	AWSMachines []*infrav1.AWSMachine
	Configs     []*bootstrapv1.KubeadmConfig

	// TargetGroups of the control plane's load balancer, the API server's
	// first. Empty with a classic one.
	TargetGroups []TargetGroup
	// SecondaryTargetGroups are those of the second one, if there is one.
	SecondaryTargetGroups []TargetGroup
	// OnMoto and Simulator are those of the options.
	OnMoto    bool
	Simulator *ec2sim.Server
}

// builder carries what the steps of Build share.
type builder struct {
	Clients
	*capi.Maker
	env      *Environment
	poll     time.Duration
	patience time.Duration
	applied  string
	userData func(machine string) string
	// rootDevices are the root device names of the images in use.
	rootDevices map[string]string
}

// Build makes the cluster that the options describe. It is not idempotent: a
// second call makes a second cluster. On an error what was made is left as it
// is.
func Build(ctx context.Context, clients Clients, opts Options) (*Environment, error) {
	m := opts.Manifest
	if opts.Image != "" {
		for _, t := range m.MachineTemplates {
			t.Spec.Template.Spec.AMI.ID = &opts.Image
		}
	}
	if opts.Edit != nil {
		opts.Edit(m)
		m.setDefaults()
		if err := m.apply(); err != nil {
			return nil, fmt.Errorf("record what is applied: %w", err)
		}
	}
	if opts.OnMoto {
		m.fitMoto()
	}
	for _, d := range m.Deployments {
		if n, ok := opts.Workers[d.Name]; ok {
			d.Spec.Replicas = &n
		}
	}
	if err := m.playable(); err != nil {
		return nil, err
	}
	b := &builder{
		Clients: clients, Maker: capi.NewMaker(m.Cluster, opts.Created), poll: opts.Poll,
		patience: time.Minute, applied: m.applied, userData: opts.UserData, rootDevices: map[string]string{},
		env: &Environment{
			Clients: clients, OnMoto: opts.OnMoto, Simulator: opts.Simulator, Cluster: m.Cluster, AWSCluster: m.AWSCluster, ControlPlane: m.ControlPlane,
			Deployments: m.Deployments, MachineTemplates: m.MachineTemplates, ConfigTemplates: m.ConfigTemplates,
		},
	}
	if b.poll == 0 {
		b.poll = 50 * time.Millisecond
	}
	if opts.BringVPC {
		if err := b.bringNetwork(ctx); err != nil {
			return nil, fmt.Errorf("build the network of %s: %w", b.Name, err)
		}
		if err := m.apply(); err != nil {
			return nil, fmt.Errorf("record what is applied: %w", err)
		}
		b.applied = m.applied
	}
	for _, step := range []func(context.Context) error{
		b.prerequisites, b.network, b.securityGroups, b.bastion, b.loadBalancer, b.machines,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("build cluster %s: %w", b.Name, err)
		}
	}
	b.finish()
	return b.env, nil
}

// playable refuses what the builder would otherwise leave out in silence.
func (m *Manifest) playable() error {
	spec := &m.AWSCluster.Spec
	var why string
	switch {
	case spec.NetworkSpec.VPC.ID != "":
		why = "a VPC that exists already"
	case spec.NetworkSpec.VPC.IPv6 != nil && *spec.NetworkSpec.VPC.IPv6 != (infrav1.IPv6{}):
		why = "IPv6 with a block of its own"
	case len(spec.NetworkSpec.Subnets) == 0:
		why = "generated subnets: list them"
	case len(spec.NetworkSpec.VPC.SecondaryCidrBlocks) > 0:
		why = "secondary blocks of the VPC"
	case spec.Bastion.Enabled && (spec.Bastion.AMI == "" || len(spec.NetworkSpec.Subnets.FilterPrivate()) == 0):
		why = "a bastion without an image or without private subnets"
	case spec.SecondaryControlPlaneLoadBalancer != nil && spec.SecondaryControlPlaneLoadBalancer.Name == nil:
		why = "a second load balancer without a name, which CAPA refuses"
	case len(spec.NetworkSpec.SecurityGroupOverrides) > 0:
		why = "security group overrides"
	case len(spec.ControlPlaneLoadBalancer.Subnets) > 0:
		why = "subnets of the load balancer"
	default:
		return nil
	}
	return fmt.Errorf("AWSCluster %s/%s asks for %s, which is not played here", m.AWSCluster.Namespace, m.AWSCluster.Name, why)
}
