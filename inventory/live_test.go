package inventory

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-io/holdfast/test/controlplane"
)

// TestFromCluster reads a management cluster on a real API server: more
// objects than a page holds, and a namespace without any.
func TestFromCluster(t *testing.T) {
	ctx := t.Context()
	kinds := awsKinds(t)
	c, err := client.NewWithWatch(controlplane.Start(t), client.Options{Scheme: kinds.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	const machines = pageSize + 1
	populate(ctx, t, c, machines)

	pages := 0
	counted := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if list.GetObjectKind().GroupVersionKind().Kind == "MachineList" {
				pages++
			}
			return c.List(ctx, list, opts...)
		},
	})
	set, err := FromCluster(ctx, kinds, counted, "")
	if err != nil {
		t.Fatal(err)
	}
	if pages != 2 {
		t.Errorf("%d machines were listed in %d pages, want 2 of at most %d", machines, pages, pageSize)
	}
	inv, err := Group(kinds, set, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(inv.Clusters[0].Owners); got != machines+1 {
		t.Errorf("%d owners, want %d machines and their cluster", got, machines)
	}
	o := inv.Clusters[0].Owners[1]
	if o.Ref.Kind != "AWSMachine" || o.Ref.APIVersion != infrav1.GroupVersion.String() || o.Ref.UID == "" || o.Machine == nil {
		t.Errorf("owner without identity: %+v", o.Ref)
	}

	elsewhere, err := FromCluster(ctx, kinds, c, "other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Group(kinds, elsewhere, Selection{}); err == nil {
		t.Error("a namespace without clusters gave no error")
	}
	if want := []Elsewhere{{Key: types.NamespacedName{Namespace: "prod", Name: "c1"}}}; cmp.Diff(want, elsewhere.elsewhere) != "" || elsewhere.unlisted != "" {
		t.Errorf("clusters of other namespaces: %v (%s), want %v", elsewhere.elsewhere, elsewhere.unlisted, want)
	}
	checkForbidden(t, kinds, c)

	readSecrets(ctx, t, set.Reader(kinds, c))
}

// checkForbidden reads one namespace as somebody who may read no other.
func checkForbidden(t *testing.T, kinds *Kinds, c client.WithWatch) {
	t.Helper()
	narrow := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if o := (&client.ListOptions{}); o.ApplyOptions(opts).Namespace == "" && list.GetObjectKind().GroupVersionKind().Kind == "ClusterList" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
	})
	set, err := FromCluster(t.Context(), kinds, narrow, "prod")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := Group(kinds, set, Selection{Namespace: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(inv.Unlisted, "other namespaces than prod") {
		t.Errorf("nothing is said of clusters that could not be listed: %q", inv.Unlisted)
	}
}

func readSecrets(ctx context.Context, t *testing.T, r client.Reader) {
	t.Helper()
	var secret corev1.Secret
	if err := r.Get(ctx, client.ObjectKey{Namespace: "prod", Name: "credentials"}, &secret); err != nil {
		t.Errorf("a Secret is read from the API server: %v", err)
	}
	var machine clusterv1.Machine
	if err := r.Get(ctx, client.ObjectKey{Namespace: "prod", Name: "m0001"}, &machine); err != nil {
		t.Errorf("a Machine is read from the set: %v", err)
	}
	if err := r.Get(ctx, client.ObjectKey{Namespace: "prod", Name: "none"}, &machine); !apierrors.IsNotFound(err) {
		t.Errorf("an unknown Machine gave %v, want NotFound", err)
	}
}

func populate(ctx context.Context, t *testing.T, c client.Client, machines int) {
	t.Helper()
	create := func(o client.Object) error { return c.Create(ctx, o) }
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "prod", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}
	}
	first := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}},
		&corev1.Secret{ObjectMeta: meta("credentials")},
		&infrav1.AWSCluster{ObjectMeta: meta("c1"), Spec: infrav1.AWSClusterSpec{Region: "eu-central-1"}},
		&clusterv1.Cluster{ObjectMeta: meta("c1"), Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSCluster", Name: "c1"},
		}},
	}
	for _, o := range first {
		if err := create(o); err != nil {
			t.Fatal(err)
		}
	}
	var g errgroup.Group
	g.SetLimit(16)
	for i := range machines {
		g.Go(func() error {
			name := fmt.Sprintf("m%04d", i)
			if err := create(&infrav1.AWSMachine{ObjectMeta: meta(name), Spec: infrav1.AWSMachineSpec{InstanceType: "m5.large"}}); err != nil {
				return err
			}
			secret := "bootstrap"
			return create(&clusterv1.Machine{ObjectMeta: meta(name), Spec: clusterv1.MachineSpec{
				ClusterName:       "c1",
				Bootstrap:         clusterv1.Bootstrap{DataSecretName: &secret},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachine", Name: name},
			}})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestReaderOverFiles(t *testing.T) {
	kinds := awsKinds(t)
	set := newSet()
	identity := &infrav1.AWSClusterRoleIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "role"}}
	identity.SetGroupVersionKind(infrav1.GroupVersion.WithKind("AWSClusterRoleIdentity"))
	identity.Spec.RoleArn = "arn:aws:iam::111122223333:role/reader"
	set.add(identity.GroupVersionKind().GroupKind(), &Object{Object: identity, Unscoped: true})
	var got infrav1.AWSClusterRoleIdentity
	if err := set.Reader(kinds, nil).Get(t.Context(), client.ObjectKey{Name: "role"}, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(identity.Spec, got.Spec); d != "" {
		t.Error(d)
	}
	if err := set.Reader(kinds, nil).Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "y"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret that no file has gave %v, want NotFound", err)
	}
}
