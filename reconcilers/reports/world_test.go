package reports

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/hack/clusterapi"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// TestMain fails the package if anything goes on after its tests, and keeps
// controller-runtime from complaining that nobody took its log.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

var (
	start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	scope = providers.Scope{Provider: "aws", Account: "111122223333", Region: "eu-central-1"}
	other = providers.Scope{Provider: "aws", Account: "111122223333", Region: "eu-west-1"}
)

const pool = "MachineDeployment/md-0"

// world is one Cluster on a real API server, and a client that counts writes.
type world struct {
	cfg     *rest.Config
	client  client.WithWatch
	object  *clusterv1.Cluster
	policy  *policies.Set
	now     time.Time
	fail    func(verb, name string) error
	mu      sync.Mutex
	written []string
}

func newWorld(t *testing.T, cfg *rest.Config, namespace string) *world {
	t.Helper()
	w := &world{cfg: cfg, now: start, policy: policies.Builtin()}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, openreports.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	plain, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w.client = w.counting(plain)
	if err := plain.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	w.object = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "eu-1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AWSCluster", Name: "eu-1"}}}
	if err := plain.Create(t.Context(), w.object); err != nil {
		t.Fatal(err)
	}
	return w
}

// install has the API server serve reports, as OpenReports defines them.
func install(t *testing.T, cfg *rest.Config) {
	t.Helper()
	dir, err := clusterapi.ModuleDir("github.com/openreports/reports-api")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{Paths: []string{filepath.Join(dir, "config", "crd")}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) counting(c client.WithWatch) client.WithWatch {
	note := func(verb, name string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.written = append(w.written, verb+" "+name)
		if w.fail != nil {
			return w.fail(verb, name)
		}
		return nil
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := note("apply", o.(interface{ GetName() string }).GetName()); err != nil {
				return err
			}
			return c.Apply(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := note("delete", o.GetName()); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return fmt.Errorf("nothing is updated")
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return fmt.Errorf("nothing is patched but by applying")
		},
	})
}

// writes gives those since the last call, in order.
func (w *world) writes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.written
	w.written = nil
	slices.Sort(out)
	return out
}

func (w *world) sink() *Sink {
	return New(Options{Client: w.client, Now: func() time.Time { return w.now }})
}

func (w *world) ref() detector.ClusterRef {
	return detector.ClusterRef{Namespace: w.object.Namespace, Name: w.object.Name}
}

func (w *world) owner(name string) providers.OwnerRef {
	return providers.OwnerRef{APIVersion: capa.GroupVersion.String(), Kind: "AWSMachine", Namespace: w.object.Namespace, Name: name, UID: types.UID("uid-" + name)}
}

func (w *world) infra() providers.OwnerRef {
	o := w.owner("eu-1")
	o.Kind = "AWSCluster"
	return o
}

// nobody is under which the detector has what no infrastructure object wants.
func (w *world) nobody() providers.OwnerRef {
	return providers.OwnerRef{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: w.object.Namespace, Name: w.object.Name, UID: w.object.UID}
}

// scene is an outcome of the world's cluster.
type scene struct {
	*sweep.Outcome
	w *world
}

// sweep is one of a scope, with these machines and the AWSCluster in sync.
func (w *world) sweep(machines ...string) scene {
	c := &inventory.Cluster{Object: w.object}
	s := scene{&sweep.Outcome{At: w.now, Cause: sweep.CauseSchedule, Scope: scope, Scopes: map[detector.ClusterRef][]providers.Scope{w.ref(): {scope}},
		Policies: w.policy, Inventory: &inventory.Inventory{Clusters: []*inventory.Cluster{c}},
		Result: &sweep.Result{Clusters: []sweep.ClusterResult{{Ref: w.ref(), Provider: "aws", Scope: scope, TakenAt: w.now}}}}, w}
	s.add(w.infra(), "", &capa.AWSCluster{})
	for _, m := range machines {
		s.add(w.owner(m), pool, &capa.AWSMachine{})
	}
	return s
}

func (s scene) add(ref providers.OwnerRef, pool string, infra client.Object) {
	c, r := s.Inventory.Clusters[0], &s.Result.Clusters[0]
	c.Owners = append(c.Owners, &inventory.Owner{Provider: "aws", Owner: providers.Owner{Ref: ref, Infra: infra, Pool: pool, Cluster: s.w.object}})
	r.Owners = append(r.Owners, sweep.OwnerResult{Ref: ref, Pool: pool, InSync: []detector.ResourceRef{{Provider: "aws", Kind: "Instance", ID: "i-" + ref.Name}}})
}

// targeted makes it a read of these owners alone.
func (s scene) targeted(owners ...providers.OwnerRef) scene {
	s.Owners = map[providers.OwnerRef]bool{}
	for _, o := range owners {
		s.Owners[o] = true
	}
	s.Scopes = nil
	r := &s.Result.Clusters[0]
	r.Owners = slices.DeleteFunc(r.Owners, func(o sweep.OwnerResult) bool { return !s.Owners[o.Ref] })
	return s
}

// unread makes it one that the cloud did not answer.
func (s scene) unread(why string) scene {
	r := &s.Result.Clusters[0]
	r.TakenAt = time.Time{}
	for i := range r.Owners {
		r.Owners[i].InSync = nil
		s.decide(r.Owners[i].Ref, func(d *policies.Decision) {
			d.Finding.Status, d.Finding.Reason, d.Finding.Diffs, d.Action = detector.NotChecked, why, nil, policies.Observe
		})
	}
	return s
}

// decide adds drift of an owner's instance.
func (s scene) decide(owner providers.OwnerRef, mods ...func(*policies.Decision)) scene {
	d := policies.Decision{Action: policies.Replace, Severity: policies.High, Mode: policies.ModeObserve, FirstSeen: s.At,
		Reason: "rule", Rule: policies.RuleRef{ID: "aws-instance-type", Policy: "builtin", Position: policies.Position{File: "builtin/aws.yaml", Line: 25}},
		// As the daemon has it: it counts, and tells times.
		Blocked: []policies.Block{{By: "Grace", Detail: fmt.Sprintf("seen in %d reads", s.At.Second()), Until: s.At.Add(time.Minute)}},
		Finding: detector.Finding{Fingerprint: "f-" + owner.Kind + owner.Name, Cluster: s.w.ref(), Owner: owner, Status: detector.Drifted,
			Resource: detector.ResourceRef{Provider: "aws", Kind: "Instance", ID: "i-" + owner.Name},
			Diffs:    []detector.Diff{{Path: "/instanceType", Want: providers.String("m5.large"), Have: providers.String("m5.4xlarge"), Type: detector.Changed}}}}
	if owner.Kind == "Cluster" {
		d.Finding.Have = &providers.Resource{}
	}
	for _, m := range mods {
		m(&d)
	}
	s.Result.Decisions = append(s.Result.Decisions, d)
	return s
}

func (w *world) consume(t *testing.T, s *Sink, o scene) {
	t.Helper()
	if err := s.Consume(t.Context(), o.Outcome); err != nil {
		t.Fatal(err)
	}
}

// later lets time go by.
func (w *world) later(d time.Duration) { w.now = w.now.Add(d) }

// reports gives those of the Cluster's namespace, by pool.
func (w *world) reports(t *testing.T) map[string][]openreports.Report {
	t.Helper()
	list := &openreports.ReportList{}
	if err := w.client.List(t.Context(), list, client.InNamespace(w.object.Namespace)); err != nil {
		t.Fatal(err)
	}
	out := map[string][]openreports.Report{}
	for _, r := range list.Items {
		out[r.Annotations[LabelPool]] = append(out[r.Annotations[LabelPool]], r)
	}
	return out
}

// result gives the one result about an owner.
func (w *world) result(t *testing.T, owner providers.OwnerRef) openreports.ReportResult {
	t.Helper()
	var found []openreports.ReportResult
	for _, reports := range w.reports(t) {
		for _, r := range reports {
			for _, result := range r.Results {
				if len(result.Subjects) > 0 && result.Subjects[0].UID == owner.UID && result.Subjects[0].Kind == owner.Kind {
					found = append(found, result)
				}
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d results about %s, want 1: %+v", len(found), owner, found)
	}
	return found[0]
}

func conflict(name string) error {
	return apierrors.NewConflict(openreports.Resource("reports"), name, fmt.Errorf("somebody else was faster"))
}

// limited is an API server whose etcd takes little.
type limited struct {
	client.Client
	bytes int
}

func (l limited) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	data, err := json.Marshal(o)
	if err == nil && len(data) > l.bytes {
		err = apierrors.NewInternalError(fmt.Errorf("etcdserver: request is too large"))
	}
	if err != nil {
		return err
	}
	return l.Client.Apply(ctx, o, opts...)
}
