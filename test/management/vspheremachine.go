package management

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// vsphereCase is one VSphereMachine with what it takes to reconcile it.
type vsphereCase struct {
	provider *vsphereProvider
	ground   *Ground
	fleet    *fleet
	player   *vspherecluster.Player
	client   client.Client
	cluster  *clusterv1.Cluster
	infra    *vspherev1.VSphereCluster
	machine  *clusterv1.Machine
	// after is what the VSphereMachine becomes.
	after *vspherev1.VSphereMachine
}

// provision brings a VSphereMachine to a virtual machine that runs.
func (k *vsphereCase) provision(ctx context.Context) (again time.Duration, err error) {
	vsm := k.after
	switch {
	case ptr.Deref(vsm.Status.Initialization.Provisioned, false):
		return 0, nil
	case !ptr.Deref(k.cluster.Status.Initialization.InfrastructureProvisioned, false):
		k.condition(metav1.ConditionFalse, vspherev1.VSphereMachineVirtualMachineWaitingForClusterInfrastructureReadyReason)
		return 0, nil
	case k.machine.Spec.Bootstrap.DataSecretName == nil:
		k.condition(metav1.ConditionFalse, vspherev1.VSphereMachineVirtualMachineWaitingForBootstrapDataReason)
		return 0, nil
	case controllerutil.AddFinalizer(vsm, vspherev1.MachineFinalizer):
		return time.Millisecond, nil
	}
	before, err := k.ensureVM(ctx)
	if err != nil {
		return 0, err
	}
	done, err := k.cloned(ctx, before)
	if err != nil {
		return 0, err
	}
	vm := before.DeepCopy()
	done.vm.Spec.DeepCopyInto(&vm.Spec)
	done.vm.Status.DeepCopyInto(&vm.Status)
	if err := save(ctx, k.client, before, vm); err != nil {
		return 0, err
	}
	vsm.Spec.ProviderID, vsm.Status.Addresses = done.providerID, done.addresses
	vsm.Status.Initialization.Provisioned = ptr.To(true)
	k.condition(metav1.ConditionTrue, vspherev1.VSphereMachineVirtualMachineProvisionedReason)
	k.fleet.add(k.host(done))
	return 0, nil
}

// ensureVM gives the VSphereVM of the VSphereMachine, made if need be.
func (k *vsphereCase) ensureVM(ctx context.Context) (*vspherev1.VSphereVM, error) {
	// Live, since one that was just made is not in the cache yet.
	live := k.provider.plane.client
	vm := &vspherev1.VSphereVM{}
	err := live.Get(ctx, client.ObjectKeyFromObject(k.after), vm)
	if !apierrors.IsNotFound(err) {
		return vm, err
	}
	zones, domains := &vspherev1.VSphereDeploymentZoneList{}, &vspherev1.VSphereFailureDomainList{}
	if err := live.List(ctx, zones); err != nil {
		return nil, err
	}
	if err := live.List(ctx, domains); err != nil {
		return nil, err
	}
	vm = k.player.VirtualMachine(k.infra, k.machine, k.after, pointers(zones.Items), pointers(domains.Items))
	vm.Finalizers = []string{vspherev1.VMFinalizer}
	vm.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: vspherev1.GroupVersion.String(), Kind: "VSphereMachine", Name: k.after.Name, UID: k.after.UID,
	}}
	return vm, live.Create(ctx, vm)
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// cloned gives what the virtual machine of a VSphereVM is, made by the first
// call. It is not tried again after an error, which the test sees when it waits.
func (k *vsphereCase) cloned(ctx context.Context, vm *vspherev1.VSphereVM) (*clone, error) {
	p := k.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	done, ok := p.cloned[vm.UID]
	if !ok {
		done = &clone{vm: vm.DeepCopy()}
		p.cloned[vm.UID] = done
		vsm := k.after.DeepCopy()
		if done.err = k.player.Clone(ctx, k.machine, vsm, done.vm); done.err != nil {
			k.ground.fault(done.err)
		}
		done.providerID, done.addresses = vsm.Spec.ProviderID, vsm.Status.Addresses
		meta.SetStatusCondition(&done.vm.Status.Conditions, metav1.Condition{
			Type: vspherev1.VSphereVMVirtualMachineProvisionedCondition, Status: metav1.ConditionTrue, Reason: vspherev1.VSphereVMVirtualMachineProvisionedReason,
		})
		meta.SetStatusCondition(&done.vm.Status.Conditions, metav1.Condition{
			Type: vspherev1.VSphereVMReadyCondition, Status: metav1.ConditionTrue, Reason: vspherev1.VSphereVMReadyReason,
		})
	}
	if done.err != nil {
		return nil, reconcile.TerminalError(done.err)
	}
	return done, nil
}

// destroy ends the virtual machine of a deleted VSphereMachine and its
// VSphereVM, and lets go.
func (k *vsphereCase) destroy(ctx context.Context) (again time.Duration, err error) {
	vm := &vspherev1.VSphereVM{}
	err = k.client.Get(ctx, client.ObjectKeyFromObject(k.after), vm)
	if client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if err == nil {
		if vm.DeletionTimestamp.IsZero() {
			return soon, client.IgnoreNotFound(k.client.Delete(ctx, vm))
		}
		if vm.Spec.BiosUUID != "" {
			if err := k.ground.VSphere().Destroy(ctx, vm.Spec.BiosUUID); err != nil {
				return 0, err
			}
		}
		after := vm.DeepCopy()
		controllerutil.RemoveFinalizer(after, vspherev1.VMFinalizer)
		return soon, client.IgnoreNotFound(save(ctx, k.client, vm, after))
	}
	if err := k.fleet.drop(ctx, k.machine.Name); err != nil {
		return 0, err
	}
	controllerutil.RemoveFinalizer(k.after, vspherev1.MachineFinalizer)
	return 0, nil
}

func (k *vsphereCase) result() client.Object { return k.after }

func (k *vsphereCase) condition(status metav1.ConditionStatus, reason string) {
	for _, kind := range []string{vspherev1.VSphereMachineVirtualMachineProvisionedCondition, vspherev1.VSphereMachineReadyCondition} {
		meta.SetStatusCondition(&k.after.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason})
	}
}

// host is what a virtual machine boots into: its name is the Node's.
func (k *vsphereCase) host(done *clone) host {
	h := host{
		machine: k.machine.Name, node: done.vm.Name, providerID: done.providerID, instance: done.vm.Spec.BiosUUID,
		version: k.machine.Spec.Version, controlPlane: util.IsControlPlaneMachine(k.machine),
	}
	for _, a := range done.addresses {
		h.addresses = append(h.addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(a.Type), Address: a.Address})
	}
	if h.instance == "" {
		k.ground.fault(fmt.Errorf("virtual machine %s has no BIOS UUID", done.vm.Name))
	}
	return h
}
