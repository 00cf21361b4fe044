package management

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// machineCase is the infrastructure object of one machine with what it takes to
// reconcile it. Both steps say after which time they are to be called again.
type machineCase interface {
	// provision brings it to an instance that runs.
	provision(ctx context.Context) (again time.Duration, err error)
	// destroy ends the instance of a deleted one and lets go.
	destroy(ctx context.Context) (again time.Duration, err error)
	// result is what it becomes.
	result() client.Object
}

// reconcileMachine reads the object before and brings it on. open gives the case
// of it and its owners; nil means that it is not its time.
func (p *plane) reconcileMachine(ctx context.Context, req reconcile.Request, before client.Object, finalizer string, open func(context.Context, *Ground, *clusterv1.Cluster, *clusterv1.Machine) (machineCase, error)) (reconcile.Result, error) {
	c := p.manager.GetClient()
	if err := c.Get(ctx, req.NamespacedName, before); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	g := p.ground(req.Namespace)
	if g == nil {
		// The test has ended, and its cloud.
		after := before.DeepCopyObject().(client.Object)
		controllerutil.RemoveFinalizer(after, finalizer)
		return reconcile.Result{}, save(ctx, c, before, after)
	}
	cluster, machine, err := p.owners(ctx, before)
	if err != nil || cluster == nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	k, err := open(ctx, g, cluster, machine)
	if err != nil || k == nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	step := k.provision
	if !before.GetDeletionTimestamp().IsZero() {
		step = k.destroy
	}
	again, err := step(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, save(ctx, c, before, k.result())
}

// owners gives the Cluster and the Machine of an infrastructure object; nil
// where it has none yet or is paused.
func (p *plane) owners(ctx context.Context, infra client.Object) (*clusterv1.Cluster, *clusterv1.Machine, error) {
	c := p.manager.GetClient()
	machine, err := util.GetOwnerMachine(ctx, c, metav1.ObjectMeta{Namespace: infra.GetNamespace(), OwnerReferences: infra.GetOwnerReferences()})
	if err != nil || machine == nil {
		return nil, nil, err
	}
	cluster, err := util.GetClusterFromMetadata(ctx, c, machine.ObjectMeta)
	if err != nil || annotations.IsPaused(cluster, infra) {
		return nil, nil, err
	}
	return cluster, machine, nil
}
