package management

import (
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	k8stypes "k8s.io/apimachinery/pkg/types"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-io/holdfast/test/awscluster"
)

// reserve opens the workload cluster of a manifest and has its endpoint in the
// AWSCluster, as a user does who has a name of their own before the control
// plane: no load balancer of the simulator can be connected to.
func (g *Ground) reserve(ctx context.Context, m *awscluster.Manifest) {
	g.t.Helper()
	f := g.open(ctx, m.Cluster.Name, 0)
	if err := m.Prepare(ctx, g.AWS().Clients(g.AWS().Operator)); err != nil {
		g.t.Fatal(err)
	}
	m.AWSCluster.Spec.ControlPlaneEndpoint = clusterv1beta1.APIEndpoint{Host: loopback, Port: f.workload.port}
}

// ServeAt has the API server of a cluster that is still to be made listen at a port
// of the loopback interface, where its control plane is to be.
func (g *Ground) ServeAt(ctx context.Context, cluster string, port int32) *Cluster {
	g.t.Helper()
	g.open(ctx, cluster, port)
	return &Cluster{Name: cluster, ControlPlane: cluster + "-control-plane", g: g, cloud: g.AWS()}
}

// Close ends the API server of a cluster that is gone, whose port another may have
// then.
func (c *Cluster) Close() {
	c.g.t.Helper()
	if err := c.g.plane.closeFleet(c.Key()); err != nil {
		c.g.t.Fatal(err)
	}
}

// Endpoint is where the API server of a cluster listens that is still to be made.
func (g *Ground) Endpoint(ctx context.Context, cluster string) (host string, port int32) {
	g.t.Helper()
	return loopback, g.open(ctx, cluster, 0).workload.port
}

// ServeVSphere gives the port of the loopback interface at which the API server of a
// cluster on vSphere listens that is still to be made.
func (g *Ground) ServeVSphere(ctx context.Context, cluster string) (port int32) {
	g.t.Helper()
	f, err := g.plane.openFleet(ctx, client.ObjectKey{Namespace: g.Namespace, Name: cluster}, g.VSphere())
	if err != nil {
		g.t.Fatal(err)
	}
	return f.workload.port
}

// Topology gives a cluster of a class, whose control plane has a name that is not
// known before there is one.
func (g *Ground) Topology(ctx context.Context, cluster string) *Cluster {
	g.t.Helper()
	return g.given(ctx, &Cluster{Name: cluster, g: g, cloud: g.AWS()})
}

// VSphereTopology is [Ground.Topology] on vSphere.
func (g *Ground) VSphereTopology(ctx context.Context, cluster string) *Cluster {
	g.t.Helper()
	return g.given(ctx, &Cluster{Name: cluster, g: g, cloud: g.VSphere()})
}

func (g *Ground) given(ctx context.Context, c *Cluster) *Cluster {
	g.t.Helper()
	c.Eventually(ctx, "given a control plane", func(ctx context.Context) error {
		o := &clusterv1.Cluster{}
		if err := g.Client.Get(ctx, c.Key(), o); err != nil {
			return err
		}
		if c.ControlPlane = o.Spec.ControlPlaneRef.Name; c.ControlPlane == "" {
			return errors.New("it has none")
		}
		return nil
	})
	return c
}

func (g *Ground) open(ctx context.Context, cluster string, port int32) *fleet {
	g.t.Helper()
	f, err := g.plane.openFleetAt(ctx, client.ObjectKey{Namespace: g.Namespace, Name: cluster}, g.AWS(), port)
	if err != nil {
		g.t.Fatal(err)
	}
	return f
}

// awsBooter has the instances of AWSMachines boot that somebody else has made. It
// looks at what is recorded in the objects and writes nothing, to the objects or
// the cloud.
type awsBooter struct {
	plane *plane

	mu     sync.Mutex
	booted map[k8stypes.NamespacedName]bootedAs
}

// bootedAs is which host an infrastructure machine became, and the address of its
// guest where that is not the cloud's to give.
type bootedAs struct {
	fleet            *fleet
	machine, address string
}

func (b *awsBooter) setUp(mgr ctrl.Manager) error {
	b.booted = map[k8stypes.NamespacedName]bootedAs{}
	return ctrl.NewControllerManagedBy(mgr).Named("boot-awsmachine").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&awsv1.AWSMachine{}).Complete(reconcile.Func(b.reconcile))
}

func (b *awsBooter) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	am := &awsv1.AWSMachine{}
	if err := b.plane.manager.GetClient().Get(ctx, req.NamespacedName, am); err != nil {
		return reconcile.Result{}, b.gone(ctx, req.NamespacedName, client.IgnoreNotFound(err))
	}
	id := aws.ToString(am.Spec.InstanceID)
	cluster, machine, err := b.plane.owners(ctx, am)
	g := b.plane.ground(req.Namespace)
	if err != nil || cluster == nil || g == nil || id == "" || !am.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	f := b.plane.fleet(client.ObjectKeyFromObject(cluster))
	if f == nil {
		return reconcile.Result{}, nil
	}
	i, err := g.AWS().Instance(ctx, id)
	if err != nil || i.State.Name == types.InstanceStateNamePending {
		return reconcile.Result{RequeueAfter: soon}, nil //nolint:nilerr // it may not show yet
	}
	b.mu.Lock()
	b.booted[req.NamespacedName] = bootedAs{fleet: f, machine: machine.Name}
	b.mu.Unlock()
	f.managedBy(b.plane.manager.GetAPIReader(), awsHost(machine, i))
	return reconcile.Result{}, nil
}

// gone takes the host of an AWSMachine away that is no more, unless the instance
// runs on.
func (b *awsBooter) gone(ctx context.Context, name k8stypes.NamespacedName, err error) error {
	if err != nil {
		return err
	}
	b.mu.Lock()
	as, ok := b.booted[name]
	delete(b.booted, name)
	b.mu.Unlock()
	if !ok {
		return nil
	}
	return as.fleet.unbind(ctx, as.machine)
}
