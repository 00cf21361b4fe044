package management

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// vsphereBooter has the virtual machines of VSphereMachines boot that somebody else
// has made: their guests report an address, and become hosts when that is recorded.
type vsphereBooter struct {
	plane *plane

	mu        sync.Mutex
	booted    map[types.NamespacedName]bootedAs
	addresses int
}

func (b *vsphereBooter) setUp(mgr ctrl.Manager) error {
	b.booted = map[types.NamespacedName]bootedAs{}
	return ctrl.NewControllerManagedBy(mgr).Named("boot-vspheremachine").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&vspherev1.VSphereMachine{}).Complete(reconcile.Func(b.reconcile))
}

func (b *vsphereBooter) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	vsm := &vspherev1.VSphereMachine{}
	if err := b.plane.manager.GetClient().Get(ctx, req.NamespacedName, vsm); err != nil {
		return reconcile.Result{}, b.gone(ctx, req.NamespacedName, client.IgnoreNotFound(err))
	}
	cluster, machine, err := b.plane.owners(ctx, vsm)
	g := b.plane.ground(req.Namespace)
	if err != nil || cluster == nil || g == nil || !vsm.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	f := b.plane.fleet(client.ObjectKeyFromObject(cluster))
	if f == nil {
		return reconcile.Result{}, nil
	}
	vm, uuid, err := g.VSphere().Named(ctx, vsm.Name)
	if err != nil || vm == nil {
		return reconcile.Result{RequeueAfter: soon}, err
	}
	if f.has(machine.Name) { // it was moved here, and runs
		b.mu.Lock()
		b.booted[req.NamespacedName] = bootedAs{fleet: f, machine: machine.Name}
		b.mu.Unlock()
		f.managedBy(b.plane.manager.GetAPIReader(), host{machine: machine.Name})
		return reconcile.Result{}, nil
	}
	if len(vsm.Status.Addresses) == 0 || vsm.Spec.ProviderID != "vsphere://"+uuid {
		return reconcile.Result{RequeueAfter: soon}, g.VSphere().Boot(ctx, *vm, b.address(req.NamespacedName, f, machine))
	}
	f.managedBy(b.plane.manager.GetAPIReader(), vsphereHost(machine, vsm, uuid))
	return reconcile.Result{}, nil
}

// address gives each machine one of its own, and remembers it as booted.
func (b *vsphereBooter) address(name types.NamespacedName, f *fleet, m *clusterv1.Machine) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	as, ok := b.booted[name]
	if !ok {
		b.addresses++
		network := 20
		if b.plane.beside != nil {
			network++
		}
		as = bootedAs{fleet: f, machine: m.Name, address: fmt.Sprintf("10.%d.%d.%d", network, b.addresses/250, b.addresses%250+1)}
		b.booted[name] = as
	}
	return as.address
}

func vsphereHost(m *clusterv1.Machine, vsm *vspherev1.VSphereMachine, uuid string) host {
	h := host{
		machine: m.Name, node: vsm.Name, providerID: vsm.Spec.ProviderID, instance: uuid,
		version: m.Spec.Version, controlPlane: util.IsControlPlaneMachine(m),
	}
	for _, a := range vsm.Status.Addresses {
		h.addresses = append(h.addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(a.Type), Address: a.Address})
	}
	return h
}

// gone takes the host of a VSphereMachine away that is no more, unless the virtual
// machine runs on.
func (b *vsphereBooter) gone(ctx context.Context, name types.NamespacedName, err error) error {
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
