package management

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// vsphereProvider stands in for Cluster API Provider vSphere 1.16, by the
// v1beta2 contract of infrastructure providers, on the vcsim of the test whose
// namespace an object is in.
//
// It makes a VSphereVM for each VSphereMachine and clones its virtual machine in
// CAPV's steps (test/vspherecluster), and writes to specs and statuses what CAPV
// writes. It powers off and destroys the virtual machine of a deleted VSphereVM.
//
// It is not CAPV: it looks at nothing that it has made, so that it repairs and
// notices no drift (real CAPV powers machines on again and attaches wanted tags
// at each resync). The endpoint is the in-memory API server's. Identities,
// cluster modules, IP pools, deployment zones' own readiness and the supervisor
// flavour are not played.
type vsphereProvider struct {
	plane *plane

	mu      sync.Mutex
	players map[types.UID]*vspherecluster.Player // by Cluster
	// cloned are the VSphereVMs that virtual machines were made for, as they
	// became, so that a lost write is written again and not cloned again.
	cloned map[types.UID]*clone
}

type clone struct {
	vm         *vspherev1.VSphereVM
	providerID string
	addresses  []clusterv1.MachineAddress
	err        error
}

func (p *vsphereProvider) setUp(mgr ctrl.Manager) error {
	p.players, p.cloned = map[types.UID]*vspherecluster.Player{}, map[types.UID]*clone{}
	many := controller.Options{MaxConcurrentReconciles: workers}
	if err := ctrl.NewControllerManagedBy(mgr).Named("standin-vspherecluster").WithOptions(many).
		For(&vspherev1.VSphereCluster{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(infraOfCluster("VSphereCluster"))).
		Complete(reconcile.Func(p.reconcileCluster)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("standin-vspheremachine").WithOptions(many).
		For(&vspherev1.VSphereMachine{}).
		Owns(&vspherev1.VSphereVM{}, builder.MatchEveryOwner).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(infraOfMachine("VSphereMachine"))).
		Complete(reconcile.Func(p.reconcileMachine))
}

func (p *vsphereProvider) reconcileCluster(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := p.plane.manager.GetClient()
	before := &vspherev1.VSphereCluster{}
	if err := c.Get(ctx, req.NamespacedName, before); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	after := before.DeepCopy()
	cluster, err := util.GetOwnerCluster(ctx, c, before.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if !before.DeletionTimestamp.IsZero() {
		if cluster != nil {
			if err := p.plane.closeFleet(client.ObjectKeyFromObject(cluster)); err != nil {
				return reconcile.Result{}, err
			}
		}
		controllerutil.RemoveFinalizer(after, vspherev1.ClusterFinalizer)
		return reconcile.Result{}, save(ctx, c, before, after)
	}
	if cluster == nil || p.plane.ground(req.Namespace) == nil || annotations.IsPaused(cluster, before) || annotations.IsExternallyManaged(before) {
		return reconcile.Result{}, nil
	}
	zones := &vspherev1.VSphereDeploymentZoneList{}
	if err := c.List(ctx, zones); err != nil {
		return reconcile.Result{}, err
	}
	after.Status.FailureDomains = nil
	for _, z := range zones.Items {
		if z.Spec.Server == before.Spec.Server {
			after.Status.FailureDomains = append(after.Status.FailureDomains, clusterv1.FailureDomain{Name: z.Name, ControlPlane: z.Spec.ControlPlane})
		}
	}
	controllerutil.AddFinalizer(after, vspherev1.ClusterFinalizer)
	after.Status.Initialization.Provisioned = ptr.To(true)
	for _, kind := range []string{vspherev1.VSphereClusterReadyCondition, vspherev1.VSphereClusterVCenterAvailableCondition} {
		meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind})
	}
	return reconcile.Result{}, save(ctx, c, before, after)
}

func (p *vsphereProvider) reconcileMachine(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	vsm, c := &vspherev1.VSphereMachine{}, p.plane.manager.GetClient()
	return p.plane.reconcileMachine(ctx, req, vsm, vspherev1.MachineFinalizer,
		func(ctx context.Context, g *Ground, cluster *clusterv1.Cluster, machine *clusterv1.Machine) (machineCase, error) {
			infra := &vspherev1.VSphereCluster{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: vsm.Namespace, Name: cluster.Spec.InfrastructureRef.Name}, infra); err != nil {
				return nil, err
			}
			f := p.plane.fleet(client.ObjectKeyFromObject(cluster))
			if f == nil {
				return nil, fmt.Errorf("cluster %s has no hosts: make it by Ground.VSphereCluster", cluster.Name)
			}
			return &vsphereCase{
				provider: p, ground: g, fleet: f, player: p.player(g, cluster), client: c,
				cluster: cluster, infra: infra, machine: machine, after: vsm.DeepCopy(),
			}, nil
		})
}

// player gives the one of a cluster, made by the first call.
func (p *vsphereProvider) player(g *Ground, cluster *clusterv1.Cluster) *vspherecluster.Player {
	p.mu.Lock()
	defer p.mu.Unlock()
	player := p.players[cluster.UID]
	if player == nil {
		player = vspherecluster.NewPlayer(g.VSphere().VCenter, cluster)
		p.players[cluster.UID] = player
	}
	return player
}
