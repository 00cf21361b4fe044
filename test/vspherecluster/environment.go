package vspherecluster

import (
	"context"
	"fmt"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/capi"
)

// DefaultExample is the example that tampers are done to.
const DefaultExample = "prod-fra.yaml"

// Options say which cluster to make and how.
type Options struct {
	// Manifest is what the user applied; it is changed by Build.
	Manifest *Manifest
	// Workers overrides the replicas of MachineDeployments by name.
	Workers map[string]int32
	// Edit changes the manifest before anything is made; nil leaves it.
	Edit func(*Manifest)
	// Created is when the objects were made. The zero time stands for a day
	// ago, which is past any creation grace.
	Created time.Time
}

// Environment is a cluster that exists: its objects as they stand in a
// management cluster, and the vCenter that holds it.
type Environment struct {
	*VCenter

	Cluster          *clusterv1.Cluster
	VSphereCluster   *infrav1.VSphereCluster
	ControlPlane     *controlplanev1beta1.KubeadmControlPlane
	Deployments      []*clusterv1.MachineDeployment
	Sets             []*clusterv1.MachineSet
	MachineTemplates []*infrav1.VSphereMachineTemplate
	ConfigTemplates  []*bootstrapv1beta1.KubeadmConfigTemplate
	Zones            []*infrav1.VSphereDeploymentZone
	FailureDomains   []*infrav1.VSphereFailureDomain
	Secrets          []*corev1.Secret
	Machines         []*clusterv1.Machine
	// VSphereMachines and VSphereVMs are in the order of Machines.
	VSphereMachines []*infrav1.VSphereMachine
	VSphereVMs      []*infrav1.VSphereVM
}

// builder carries what the steps of Build share.
type builder struct {
	*VCenter
	*capi.Maker
	env *Environment
	// grouped are the members of the failure domain's group.
	grouped []vim.ManagedObjectReference
	// firstGuest is the number of the first machine's address.
	firstGuest int
}

// Build makes the cluster that the options describe in the vCenter. It is not
// idempotent. On an error what was made is left as it is.
func Build(ctx context.Context, v *VCenter, opts Options) (*Environment, error) {
	m := opts.Manifest
	if opts.Edit != nil {
		opts.Edit(m)
	}
	for _, d := range m.Deployments {
		if n, ok := opts.Workers[d.Name]; ok {
			d.Spec.Replicas = &n
		}
	}
	b := &builder{
		VCenter: v, Maker: capi.NewMaker(m.Cluster, opts.Created),
		env: &Environment{
			VCenter: v, Cluster: m.Cluster, VSphereCluster: m.VSphereCluster, ControlPlane: m.ControlPlane,
			Deployments: m.Deployments, MachineTemplates: m.MachineTemplates, ConfigTemplates: m.ConfigTemplates,
			Zones: m.Zones, FailureDomains: m.FailureDomains, Secrets: m.Secrets,
		},
	}
	if err := b.adopt(m); err != nil {
		return nil, fmt.Errorf("build cluster %s: %w", b.Name, err)
	}
	if err := b.machines(m); err != nil {
		return nil, fmt.Errorf("build cluster %s: %w", b.Name, err)
	}
	for i := range b.env.Machines {
		if err := b.clone(ctx, i); err != nil {
			return nil, fmt.Errorf("build cluster %s: machine %s: %w", b.Name, b.env.Machines[i].Name, err)
		}
	}
	b.finish()
	return b.env, nil
}

// adopt puts the simulator's address, certificate, credentials and tag ids in
// the place of the manifest's.
func (b *builder) adopt(m *Manifest) error {
	m.VSphereCluster.Spec.Server = b.Server()
	m.VSphereCluster.Spec.Thumbprint = b.Thumbprint()
	for _, z := range m.Zones {
		z.Spec.Server = b.Server()
	}
	for _, s := range m.Secrets {
		s.StringData = nil
		s.Data = map[string][]byte{"username": []byte(Username), "password": []byte(Password)}
	}
	for _, t := range m.MachineTemplates {
		ids := t.Spec.Template.Spec.TagIDs
		for i := range ids {
			id, err := b.tagID(ids[i])
			if err != nil {
				return err
			}
			ids[i] = id
		}
	}
	return nil
}
