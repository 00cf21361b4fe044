package management

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// VSphere says which cluster to make on vSphere: the example prod-fra. There can
// be one in a ground, for the example's folder is one cluster's.
type VSphere struct {
	// ControlPlanes is 0 for 1.
	ControlPlanes int32
	// Workers are those of the pool general, Batch those of the pool batch,
	// whose place comes from a failure domain; a pool of none is not made.
	Workers, Batch int32
	// Ingress makes the pool ingress, of one machine with a fixed address.
	Ingress bool
	// Edit changes what is applied, after everything else; nil leaves it.
	Edit func(*vspherecluster.Manifest)
}

// VSphereCluster applies a cluster and returns at once.
func (g *Ground) VSphereCluster(ctx context.Context, spec VSphere) *Cluster {
	g.t.Helper()
	m, err := vspherecluster.Load(vsphereexamples.Files, vspherecluster.DefaultExample)
	if err != nil {
		g.t.Fatal(err)
	}
	cloud := g.VSphere()
	keepPools(m, spec)
	replicas := max(spec.ControlPlanes, 1)
	m.ControlPlane.Spec.Replicas = &replicas
	if err := m.Place(g.Namespace, cloud.VCenter); err != nil {
		g.t.Fatal(err)
	}
	c := &Cluster{Name: m.Cluster.Name, ControlPlane: m.ControlPlane.Name, g: g, cloud: cloud}
	// On vSphere the endpoint is the user's to choose.
	f, err := g.plane.openFleet(ctx, c.Key(), cloud)
	if err != nil {
		g.t.Fatal(err)
	}
	m.VSphereCluster.Spec.ControlPlaneEndpoint.Host, m.VSphereCluster.Spec.ControlPlaneEndpoint.Port = loopback, f.workload.port
	if spec.Edit != nil {
		spec.Edit(m)
	}
	for _, o := range m.Objects() {
		if err := g.Client.Create(ctx, o); err != nil {
			g.t.Fatalf("apply %T %s: %v", o, o.GetName(), err)
		}
		if o.GetNamespace() == "" {
			g.t.Cleanup(func() {
				if err := g.Client.Delete(g.plane.ctx, o); err != nil && !apierrors.IsNotFound(err) {
					g.t.Errorf("delete %T %s: %v", o, o.GetName(), err)
				}
			})
		}
	}
	return c
}

// keepPools drops the pools that are not wanted, and failure domains that none
// uses.
func keepPools(m *vspherecluster.Manifest, spec VSphere) {
	var pools []*clusterv1.MachineDeployment
	for _, d := range m.Deployments {
		n := int32(0)
		switch strings.TrimPrefix(d.Name, m.Cluster.Name+"-") {
		case "general":
			n = spec.Workers
		case "batch":
			n = spec.Batch
		case "ingress":
			if spec.Ingress {
				n = 1
			}
		}
		if n > 0 {
			d.Spec.Replicas = &n
			pools = append(pools, d)
		}
	}
	m.Deployments = pools
	if spec.Batch == 0 {
		m.Zones, m.FailureDomains = nil, nil
	}
}
