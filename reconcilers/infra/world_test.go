package infra_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
	"github.com/holdfast-io/holdfast/reconcilers/infra"
)

const (
	clusterFinalizer = "cluster.fake"
	machineFinalizer = "machine.fake"
	holdFinalizer    = "fake/hold"
	patience         = 30 * time.Second
)

// world is a namespace with a cloud of its own, and the reconcilers on it.
type world struct {
	*fake.Provider
	t      *testing.T
	client client.Client
	ns     string
	events *events.FakeRecorder
	scheme *runtime.Scheme
	stop   func()
}

// begin starts the reconcilers on an empty cloud of networks and instances.
func begin(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, ns: "t-" + rand.String(5), scheme: runtime.NewScheme(), events: events.NewFakeRecorder(1000),
		Provider: fake.New("1", "r", time.Now, providers.KindVPC, providers.KindSubnet, providers.KindRouteTable, providers.KindInstance),
	}
	if err := addToScheme(w.scheme); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.client, err = client.New(config(t), client.Options{Scheme: w.scheme}); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}); err != nil {
		t.Fatal(err)
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func addToScheme(s *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(s), clusterv1.AddToScheme(s), awsv1.AddToScheme(s))
}

// start runs the reconcilers, as a process that knows nothing of the one before.
func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(config(w.t), ctrl.Options{
		Scheme: w.scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.ns: {}}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	o := &infra.Options{
		Registration: w.Registration(addToScheme,
			providers.OwnerKind{GVK: awsv1.GroupVersion.WithKind("AWSCluster"), Role: providers.RoleCluster, Finalizer: clusterFinalizer},
			providers.OwnerKind{GVK: awsv1.GroupVersion.WithKind("AWSMachine"), Role: providers.RoleMachine, Finalizer: machineFinalizer}),
		Provider: w.Provider, Events: w.events, Poll: infra.Poll{Least: 20 * time.Millisecond, Most: 100 * time.Millisecond},
		Controller: func(string) controller.Options { return controller.Options{MaxConcurrentReconciles: 4} },
	}
	o.Registration.Holds = func(o client.Object) []providers.Hold {
		return []providers.Hold{{Object: credentials(o.GetNamespace(), o.GetName()), Finalizer: holdFinalizer}}
	}
	if err := o.SetUp(ctx, mgr); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) eventually(what string, condition func() error) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("it is not %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// credentials are the Secret that the AWSCluster of that name holds.
func credentials(namespace, cluster string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster + "-credentials"}}
}

// refs of the objects that the tests make.
func (w *world) ref(kind, name string) providers.OwnerRef {
	return providers.OwnerRef{Kind: kind, Namespace: w.ns, Name: name}
}

// cluster applies a Cluster and its AWSCluster, owned as Cluster API has it.
func (w *world) cluster(name string, edit ...func(client.Object)) (*clusterv1.Cluster, *awsv1.AWSCluster) {
	w.t.Helper()
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: awsv1.GroupVersion.Group, Kind: "AWSCluster", Name: name}
	infra := &awsv1.AWSCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	for _, e := range edit {
		e(c)
		e(infra)
	}
	w.create(c)
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: c.UID}}
	w.create(infra)
	return c, infra
}

// machine applies a Machine and its AWSMachine.
func (w *world) machine(cluster *clusterv1.Cluster, name string) (*clusterv1.Machine, *awsv1.AWSMachine) {
	w.t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: labels}}
	m.Spec.ClusterName = cluster.Name
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: awsv1.GroupVersion.Group, Kind: "AWSMachine", Name: name}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: name}
	w.create(m)
	infra := &awsv1.AWSMachine{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: labels}}
	infra.Spec.InstanceType = "t3.large"
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: m.UID}}
	w.create(infra)
	return m, infra
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatalf("create %T: %v", o, err)
	}
}

// edit changes an object as it is now.
func (w *world) edit(o client.Object, status bool, change func()) {
	w.t.Helper()
	w.eventually("changed", func() error {
		if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		if status {
			return w.client.Status().Update(w.t.Context(), o)
		}
		return w.client.Update(w.t.Context(), o)
	})
}

// says waits until an annotation of the object has a text in it, or is not there.
func (w *world) says(o client.Object, annotation, text string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("so that %s says %q", annotation, text), func() error {
		if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		have, ok := o.GetAnnotations()[annotation]
		if ok == (text != "") && strings.Contains(have, text) {
			return nil
		}
		return fmt.Errorf("it says %q", have)
	})
}

func (w *world) gone(o client.Object) {
	w.t.Helper()
	w.eventually("gone", func() error {
		if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
}

// done lists what was made and unmade so far, by kind, in order.
func (w *world) done(op string) (out []string) {
	for _, c := range w.Calls() {
		if c.Op == op {
			out = append(out, c.IDs[0].Kind)
		}
	}
	return out
}

func (w *world) want(of, want []string) {
	w.t.Helper()
	if !slices.Equal(of, want) {
		w.t.Errorf("it is %q, want %q", of, want)
	}
}
