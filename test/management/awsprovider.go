package management

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-io/holdfast/test/awscluster"
)

// awsProvider stands in for Cluster API Provider AWS 2.13, by the contract of
// infrastructure providers in its v1beta1 form, on the ec2sim of the test whose
// namespace an object is in.
//
// It makes a cluster's network, groups and load balancer and a machine's
// instance by the calls of CAPA, with its names, tags and groups
// (test/awscluster), and writes to spec and status what CAPA writes. It
// terminates an instance when its AWSMachine is deleted, and lets the AWSMachine
// go when the instance is terminated.
//
// It is not CAPA: it looks at nothing that it has made, so that it repairs no
// drift and notices none (but see [AWSCloud].Notice; real CAPA repairs an
// instance's groups, ingress rules, metadata tokens and some of the network at
// each resync). A deleted cluster's network stays: the test's cloud ends with
// the test. The control plane's endpoint is the in-memory API server's and not
// the load balancer's, as if a user had put a name of their own before it. User
// data is a stub, for no instance reads it. Machine pools, identities, bastions
// and whatever else the manifests of test/awscluster refuse are not played.
type awsProvider struct {
	plane *plane
	mu    sync.Mutex
	made  map[types.UID]*made // by AWSCluster
}

// soon is the pause before another look at what takes time.
const soon = 200 * time.Millisecond

func (p *awsProvider) setUp(mgr ctrl.Manager) error {
	p.made = map[types.UID]*made{}
	many := controller.Options{MaxConcurrentReconciles: workers}
	if err := ctrl.NewControllerManagedBy(mgr).Named("standin-awscluster").WithOptions(many).
		For(&awsv1.AWSCluster{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(infraOfCluster("AWSCluster"))).
		Complete(reconcile.Func(p.reconcileCluster)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("standin-awsmachine").WithOptions(many).
		For(&awsv1.AWSMachine{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(infraOfMachine("AWSMachine"))).
		Complete(reconcile.Func(p.reconcileMachine))
}

// controllerIdentity is what CAPA makes on its start: the identity of clusters
// that name none, usable in every namespace.
func controllerIdentity() *awsv1.AWSClusterControllerIdentity {
	i := &awsv1.AWSClusterControllerIdentity{}
	i.Name = awsv1.AWSClusterControllerIdentityName
	i.Spec.AllowedNamespaces = &awsv1.AllowedNamespaces{}
	return i
}

// infraOfCluster and infraOfMachine give the request for the infrastructure
// object of a kind that a Cluster or a Machine refers to.
func infraOfCluster(kind string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		return requestFor(kind, o, o.(*clusterv1.Cluster).Spec.InfrastructureRef)
	}
}

func infraOfMachine(kind string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		return requestFor(kind, o, o.(*clusterv1.Machine).Spec.InfrastructureRef)
	}
}

func requestFor(kind string, from client.Object, ref clusterv1.ContractVersionedObjectReference) []reconcile.Request {
	if ref.Kind != kind {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: from.GetNamespace(), Name: ref.Name}}}
}

func (p *awsProvider) reconcileCluster(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := p.plane.manager.GetClient()
	before := &awsv1.AWSCluster{}
	if err := c.Get(ctx, req.NamespacedName, before); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	after := before.DeepCopy()
	if !before.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(after, awsv1.ClusterFinalizer)
		if cluster, err := util.GetOwnerCluster(ctx, c, before.ObjectMeta); err == nil && cluster != nil {
			if err := p.plane.closeFleet(client.ObjectKeyFromObject(cluster)); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{}, save(ctx, c, before, after)
	}
	g := p.plane.ground(req.Namespace)
	cluster, err := util.GetOwnerCluster(ctx, c, before.ObjectMeta)
	if err != nil || cluster == nil || g == nil || annotations.IsPaused(cluster, before) || annotations.IsExternallyManaged(before) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if before.Status.Ready {
		return reconcile.Result{}, nil
	}
	if controllerutil.AddFinalizer(after, awsv1.ClusterFinalizer) {
		return reconcile.Result{RequeueAfter: time.Millisecond}, save(ctx, c, before, after)
	}
	if err := p.makeCluster(ctx, g, cluster, after); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, save(ctx, c, before, after)
}

// made is what the stand-in knows of a cluster's infrastructure that it has
// made.
type made struct {
	player *awscluster.Player
	// cluster is how it left the AWSCluster, err why it could not make it.
	cluster *awsv1.AWSCluster
	err     error
}

// makeCluster makes a cluster's infrastructure, once: a second call gives the
// first one's results. It is not tried again after an error, which the test sees
// when it waits for the cluster.
func (p *awsProvider) makeCluster(ctx context.Context, g *Ground, cluster *clusterv1.Cluster, c *awsv1.AWSCluster) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.made[c.UID]
	if !ok {
		cloud := g.AWS()
		m = &made{player: awscluster.NewPlayer(cloud.Clients(cloud.CAPA), cluster), cluster: c.DeepCopy()}
		p.made[c.UID] = m
		var f *fleet
		if f, m.err = p.plane.openFleet(ctx, client.ObjectKeyFromObject(cluster), cloud); m.err == nil {
			m.err = m.player.Infrastructure(ctx, m.cluster)
		}
		if m.err != nil {
			g.fault(fmt.Errorf("AWSCluster %s: %w", c.Name, m.err))
		} else {
			m.cluster.Spec.ControlPlaneEndpoint = clusterv1beta1.APIEndpoint{Host: loopback, Port: f.workload.port}
		}
	}
	if m.err != nil {
		return reconcile.TerminalError(m.err)
	}
	m.cluster.Spec.DeepCopyInto(&c.Spec)
	m.cluster.Status.DeepCopyInto(&c.Status)
	return nil
}

// player gives the one of a cluster whose infrastructure is made.
func (p *awsProvider) player(c *awsv1.AWSCluster) *awscluster.Player {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, ok := p.made[c.UID]; ok && m.err == nil {
		return m.player
	}
	return nil
}
