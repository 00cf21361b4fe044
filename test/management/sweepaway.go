package management

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sweptKinds are those that finalizers hold, in the order in which nobody makes
// new ones of a later kind.
var sweptKinds = []schema.GroupVersionKind{
	clusterv1.GroupVersion.WithKind("Cluster"),
	clusterv1.GroupVersion.WithKind("MachineHealthCheck"),
	clusterv1.GroupVersion.WithKind("MachineDeployment"),
	clusterv1.GroupVersion.WithKind("MachineSet"),
	controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"),
	clusterv1.GroupVersion.WithKind("Machine"),
	bootstrapv1.GroupVersion.WithKind("KubeadmConfig"),
	awsv1.GroupVersion.WithKind("AWSMachine"),
	awsv1.GroupVersion.WithKind("AWSCluster"),
	vspherev1.GroupVersion.WithKind("VSphereMachine"),
	vspherev1.GroupVersion.WithKind("VSphereVM"),
	vspherev1.GroupVersion.WithKind("VSphereCluster"),
}

// sweepTime bounds how long a namespace may take to be empty.
const sweepTime = 20 * time.Second

// sweepAway deletes what a test leaves behind, without waiting for any
// finalizer, and has the namespace deleted in the background.
func sweepAway(ctx context.Context, c client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	for {
		left, err := sweepOnce(ctx, c, namespace)
		if err != nil {
			return fmt.Errorf("empty namespace %s: %w", namespace, err)
		}
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("empty namespace %s: %d objects are left: %w", namespace, left, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return client.IgnoreNotFound(c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
}

// sweepOnce deletes all that is there, and tells how much was.
func sweepOnce(ctx context.Context, c client.Client, namespace string) (int, error) {
	n := 0
	for _, kind := range sweptKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return 0, err
		}
		n += len(list.Items)
		for i := range list.Items {
			o := &list.Items[i]
			o.SetGroupVersionKind(kind)
			if o.DeletionTimestamp == nil {
				if err := client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
					return 0, err
				}
			}
			if len(o.Finalizers) == 0 {
				continue
			}
			err := c.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
			if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, context.Canceled) {
				return 0, err
			}
		}
	}
	return n, nil
}
