package sweep

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

// management is a real API server with a fake cloud behind it.
type management struct {
	t        *testing.T
	c        client.Client
	cloud    *fake.Provider
	outcomes chan *Outcome
	d        *Daemon
}

func newManagement(t *testing.T) *management {
	t.Helper()
	m := &management{t: t, outcomes: make(chan *Outcome, 100), cloud: fake.New("111122223333", "eu-central-1", time.Now, providers.KindInstance, providers.KindVPC)}
	kinds, err := inventory.NewKinds(m.cloud.Registration(infrav1.AddToScheme,
		providers.OwnerKind{GVK: infrav1.GroupVersion.WithKind("AWSMachine"), Role: providers.RoleMachine},
		providers.OwnerKind{GVK: infrav1.GroupVersion.WithKind("AWSCluster"), Role: providers.RoleCluster}))
	if err != nil {
		t.Fatal(err)
	}
	cfg := controlplane.Start(t)
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	if m.c, err = client.New(cfg, client.Options{Scheme: kinds.Scheme(), Mapper: mapper}); err != nil {
		t.Fatal(err)
	}
	triggers, err := NewTriggers(cfg, kinds, mapper)
	if err != nil {
		t.Fatal(err)
	}
	reader := &inventory.Live{Kinds: kinds, Reader: m.c, Mapper: mapper}
	m.d = &Daemon{
		Providers: map[string]providers.Provider{fake.Name: m.cloud}, Load: reader.Load, Sinks: []Sink{m}, Triggers: triggers,
		StartSpread: -1, CreationGrace: time.Nanosecond, Log: logr.Discard(),
		Policies: func() *policies.Set { return policySet(t, `schedule: {cron: "0 0 1 1 *", jitter: 0s}`) },
	}
	return m
}

func (m *management) Consume(_ context.Context, o *Outcome) error {
	m.outcomes <- o
	return nil
}

// next waits for an outcome, within what a slow machine may take.
func (m *management) next(cause, about string) *Outcome {
	m.t.Helper()
	select {
	case o := <-m.outcomes:
		if got := aboutOf(o); o.Cause != cause || got != about {
			m.t.Fatalf("outcome %s %s, want %s %s", o.Cause, got, cause, about)
		}
		return o
	case <-time.After(time.Minute):
		m.t.Fatalf("no outcome within a minute, want %s %s", cause, about)
		return nil
	}
}

func (m *management) do(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func metaOf(ns, name, cluster string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}
}

func (m *management) cluster(ns, name string) *clusterv1.Cluster {
	infra := &infrav1.AWSCluster{ObjectMeta: metaOf(ns, name, name), Spec: infrav1.AWSClusterSpec{Region: "eu-central-1"}}
	m.do(m.c.Create(m.t.Context(), infra))
	m.want(infra, "AWSCluster", providers.ID{Kind: providers.KindVPC, Name: "vpc-" + ns + name})
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSCluster", Name: name}}}
	m.do(m.c.Create(m.t.Context(), c))
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	m.do(m.c.Status().Update(m.t.Context(), c))
	return c
}

// machine makes a Machine and its infrastructure, as wanted in the cloud.
func (m *management) machine(ns, cluster, name string) *infrav1.AWSMachine {
	infra := &infrav1.AWSMachine{ObjectMeta: metaOf(ns, name, cluster), Spec: infrav1.AWSMachineSpec{InstanceType: "m5.large"}}
	m.do(m.c.Create(m.t.Context(), infra))
	m.want(infra, "AWSMachine", providers.ID{Kind: providers.KindInstance, Name: "i-" + name})
	machine := &clusterv1.Machine{ObjectMeta: metaOf(ns, name, cluster), Spec: clusterv1.MachineSpec{
		ClusterName: cluster, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("x")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachine", Name: name}}}
	m.do(m.c.Create(m.t.Context(), machine))
	machine.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	m.do(m.c.Status().Update(m.t.Context(), machine))
	return infra
}

func (m *management) want(o client.Object, kind string, id providers.ID) {
	m.cloud.Want(providers.OwnerRef{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()},
		providers.Resource{ID: id, Fields: providers.FieldsOf(map[string]providers.Field{"/size": {Value: providers.String("large"), Mutability: providers.InPlace}})})
	m.cloud.Put(&providers.Resource{ID: id, Fields: providers.FieldsOf(map[string]providers.Field{"/size": {Value: providers.String("large")}})})
}

func (m *management) patch(o client.Object, change func()) {
	m.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	change()
	m.do(m.c.Patch(m.t.Context(), o, client.MergeFrom(before)))
}

func (m *management) patchStatus(o client.Object, change func()) {
	m.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	change()
	m.do(m.c.Status().Patch(m.t.Context(), o, client.MergeFrom(before)))
}

// TestDaemonLive runs the daemon on a real API server.
func TestDaemonLive(t *testing.T) {
	m := newManagement(t)
	ctx := t.Context()
	m.do(m.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}))
	m.do(m.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test"}}))
	c1 := m.cluster("prod", "c1")
	var machines []*infrav1.AWSMachine
	for i := range 3 {
		machines = append(machines, m.machine("prod", "c1", fmt.Sprintf("m%d", i)))
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.d.Start(running) }()
	defer func() {
		cancel()
		m.do(<-ended)
	}()
	m.next(CauseStart, "prod/c1:4")

	t.Log("statuses are no trigger; a spec is")
	m.patchStatus(machines[0], func() {
		machines[0].Status.Ready = true
		machines[0].Status.Addresses = []clusterv1beta1.MachineAddress{{Type: "InternalIP", Address: "10.0.0.1"}}
	})
	var core clusterv1.Machine
	m.do(m.c.Get(ctx, client.ObjectKeyFromObject(machines[0]), &core))
	m.patchStatus(&core, func() {
		core.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDriftDetected, Status: metav1.ConditionFalse, Reason: "InSync", LastTransitionTime: metav1.Now()}}
	})
	m.patchStatus(c1, func() { c1.Status.Phase = "Provisioned" })
	m.patch(machines[1], func() { machines[1].Spec.ProviderID = ptr.To("aws:///a/i-m1") })
	m.next(CauseOwnerChanged, "m1")

	t.Log("an annotation of the Machine is one, and the read sees it")
	m.do(m.c.Get(ctx, client.ObjectKeyFromObject(machines[2]), &core))
	m.cloud.Alter(providers.ID{Kind: providers.KindInstance, Name: "i-m2"}, func(r *providers.Resource) {
		r.Fields.Set("/size", providers.Field{Value: providers.String("small")})
	})
	m.patch(&core, func() { core.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	o := m.next(CauseOwnerChanged, "m2")
	if len(o.Result.Decisions) != 1 || o.Result.Decisions[0].Finding.Status != detector.Drifted {
		t.Errorf("decisions: %v", outline(o.Result))
	}
	if a := o.Inventory.Clusters[0].Owners[3].Machine.Annotations; len(a) != 1 {
		t.Errorf("the Machine was read with the annotations %v", a)
	}

	t.Log("of the same name with another UID is another owner")
	old := machines[0].DeepCopy()
	m.do(m.c.Delete(ctx, machines[0]))
	m.next(CauseOwnerChanged, "m0")
	again := &infrav1.AWSMachine{ObjectMeta: metaOf("prod", "m0", "c1"), Spec: infrav1.AWSMachineSpec{InstanceType: "m5.large"}}
	m.do(m.c.Create(ctx, again))
	o = m.next(CauseOwnerChanged, "m0")
	for owner := range o.Owners {
		if owner.UID != again.UID || owner.UID == old.UID {
			t.Errorf("read for UID %s, want %s", owner.UID, again.UID)
		}
	}
	if gone, err := m.d.Fresh(ctx, refOf(o.Inventory.Clusters[0]), providers.OwnerRef{
		APIVersion: infrav1.GroupVersion.String(), Kind: "AWSMachine", Namespace: "prod", Name: "m0", UID: old.UID}); err != nil || len(gone.Result.Clusters) > 0 {
		t.Errorf("a fresh read of the old object gave %+v, %v", gone, err)
	}

	t.Log("a cluster comes, is asked for, and goes")
	c2 := m.cluster("test", "c2")
	m.next(CauseStart, "prod/c1:4,test/c2:1")
	m.patch(c2, func() { c2.Annotations = map[string]string{v1alpha1.AnnotationSweepNow: "please"} })
	m.next(CauseRequested, "prod/c1:4,test/c2:1")
	m.do(m.c.Delete(ctx, c2))
	m.next(CauseOwnerChanged, "gone [test/c2]")
}
