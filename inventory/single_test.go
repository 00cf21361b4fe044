package inventory

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestSingle: an object of an older served version comes in the wanted one, is
// given again for a while, and what is not there is not kept as absent.
func TestSingle(t *testing.T) {
	kinds, err := NewKinds()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{clusterv1beta1.GroupVersion, corev1.SchemeGroupVersion})
	mapper.Add(clusterv1beta1.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	reads := 0
	version := "v1.35.0"
	c := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithRESTMapper(mapper).WithObjects(
		&clusterv1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}, Spec: clusterv1beta1.MachineSpec{Version: &version}},
	).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		reads++
		return c.Get(ctx, key, o, opts...)
	}}).Build()
	now := time.Unix(0, 0)
	s := &Single{Kinds: kinds, Reader: c, Mapper: mapper, Keep: 15 * time.Second, Now: func() time.Time { return now }}
	get := func(o client.Object, name string) error {
		return s.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: name}, o)
	}
	for i := range 3 {
		m := &clusterv1.Machine{}
		if err := get(m, "m"); err != nil || m.Spec.Version != version {
			t.Fatalf("read %d: %v %+v", i, err, m.Spec)
		}
		m.Spec.Version = "changed by the caller"
	}
	if reads != 1 {
		t.Errorf("%d reads, want 1", reads)
	}
	now = now.Add(15 * time.Second)
	if err := get(&clusterv1.Machine{}, "m"); err != nil || reads != 2 {
		t.Errorf("after its time: %v, %d reads", err, reads)
	}
	for range 2 {
		if err := get(&corev1.Secret{}, "none"); !apierrors.IsNotFound(err) {
			t.Errorf("absent: %v", err)
		}
	}
	if reads != 4 {
		t.Errorf("an absent object was asked for %d times, want 2", reads-2)
	}
	if err := get(&clusterv1.MachineSet{}, "x"); !apierrors.IsNotFound(err) {
		t.Errorf("a kind that is not served: %v", err)
	}
}
