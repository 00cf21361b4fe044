package management

import (
	"context"

	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// AWSEnvironment gives a cluster on AWS to the tampers of test/awscluster, with
// its objects as they are now and the keys of the operator. Tampers that edit
// objects edit these copies, of which the API server knows nothing.
func (c *Cluster) AWSEnvironment(ctx context.Context) *awscluster.Environment {
	c.g.t.Helper()
	cloud := c.g.AWS()
	e := &awscluster.Environment{
		Clients: cloud.Clients(cloud.Operator), Simulator: cloud.Server,
		Cluster: &clusterv1.Cluster{}, AWSCluster: &awsv1.AWSCluster{}, ControlPlane: c.KubeadmControlPlane(ctx), Machines: c.Machines(ctx),
	}
	c.Get(ctx, c.Name, e.Cluster)
	c.Get(ctx, e.Cluster.Spec.InfrastructureRef.Name, e.AWSCluster)
	for _, m := range e.Machines {
		am := &awsv1.AWSMachine{}
		c.Get(ctx, m.Spec.InfrastructureRef.Name, am)
		e.AWSMachines = append(e.AWSMachines, am)
	}
	player := c.g.plane.aws.player(e.AWSCluster)
	if player == nil {
		c.g.t.Fatalf("cluster %s has no infrastructure yet: wait until it is ready", c.Name)
		return nil
	}
	e.TargetGroups = player.TargetGroups()
	return e
}

// VSphereEnvironment gives a cluster on vSphere to the tampers of
// test/vspherecluster, with its objects as they are now.
func (c *Cluster) VSphereEnvironment(ctx context.Context) *vspherecluster.Environment {
	c.g.t.Helper()
	e := &vspherecluster.Environment{VCenter: c.g.VSphere().VCenter, Cluster: &clusterv1.Cluster{}, VSphereCluster: &vspherev1.VSphereCluster{}, Machines: c.Machines(ctx)}
	c.Get(ctx, c.Name, e.Cluster)
	c.Get(ctx, e.Cluster.Spec.InfrastructureRef.Name, e.VSphereCluster)
	for _, m := range e.Machines {
		vsm, vm := &vspherev1.VSphereMachine{}, &vspherev1.VSphereVM{}
		c.Get(ctx, m.Spec.InfrastructureRef.Name, vsm)
		c.Get(ctx, m.Spec.InfrastructureRef.Name, vm)
		e.VSphereMachines, e.VSphereVMs = append(e.VSphereMachines, vsm), append(e.VSphereVMs, vm)
	}
	return e
}
