package management

import (
	"context"

	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
)

// AWS says which cluster to make on AWS.
type AWS struct {
	// Name is the cluster's; empty is "prod-eu". With "-apiserver" and the
	// namespace it has to fit into 32 letters.
	Name string
	// ControlPlanes is 0 for 1.
	ControlPlanes int32
	// Workers are those of the pool NAME-general, Storage those of the pool
	// NAME-storage, in other zones; a pool of none is not made.
	Workers, Storage int32
	// Example is a file of examples/aws; empty is prod-eu.yaml.
	Example string
	// Edit changes what is applied, after everything else; nil leaves it.
	Edit func(*awscluster.Manifest)
}

// AWSCluster applies a cluster and returns at once.
func (g *Ground) AWSCluster(ctx context.Context, spec AWS) *Cluster {
	g.t.Helper()
	if spec.Example == "" {
		spec.Example = "prod-eu.yaml"
	}
	m, err := awscluster.Load(awsexamples.Files, spec.Example)
	if err != nil {
		g.t.Fatal(err)
	}
	if spec.Name != "" {
		m.Rename(spec.Name)
	}
	cloud := g.AWS()
	m.Place(g.Namespace, cloud.Image)
	replicas := max(spec.ControlPlanes, 1)
	m.ControlPlane.Spec.Replicas = &replicas
	pools := m.Deployments[:0]
	for _, d := range m.Deployments {
		n := spec.Workers
		if d.Name == m.Cluster.Name+"-storage" {
			n = spec.Storage
		}
		if n > 0 {
			d.Spec.Replicas = &n
			pools = append(pools, d)
		}
	}
	m.Deployments = pools
	if g.plane.boots {
		g.reserve(ctx, m)
	}
	if spec.Edit != nil {
		spec.Edit(m)
	}
	for _, o := range m.Objects() {
		if err := g.Client.Create(ctx, o); err != nil {
			g.t.Fatalf("apply %T %s: %v", o, o.GetName(), err)
		}
	}
	return &Cluster{Name: m.Cluster.Name, ControlPlane: m.ControlPlane.Name, g: g, cloud: cloud}
}
