package controlplane_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

// What has lost its owner goes, of a kind that came after the collector's start
// too, and so does what is in a namespace that goes.
func TestGarbageCollector(t *testing.T) {
	ctx := t.Context()
	crds, err := controlplane.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	p, err := controlplane.Launch(controlplane.Options{CRDs: crds, GarbageCollector: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	c, err := client.New(p.Config, client.Options{Scheme: capi.Scheme(corev1.AddToScheme, bootstrapv1.AddToScheme)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "owner"}}
	if err := c.Create(ctx, owner); err != nil {
		t.Fatal(err)
	}
	owned := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: "one", Name: "owned",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}
	inTwo := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "two", Name: "left-behind"}}
	for _, o := range []client.Object{owned, inTwo} {
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	two := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "two"}}
	for _, o := range []client.Object{owner, two} {
		if err := c.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []client.Object{owned, inTwo, two} {
		gone(ctx, t, c, o)
	}
}

func gone(ctx context.Context, t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	start := time.Now()
	for {
		err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			t.Logf("%T %s went after %.1fs", o, o.GetName(), time.Since(start).Seconds())
			return
		}
		if err != nil || time.Since(start) > time.Minute {
			t.Fatalf("%T %s is still there: %v", o, o.GetName(), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
