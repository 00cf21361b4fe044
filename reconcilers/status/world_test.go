package status_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/reconcilers/status"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// world is an AWS and a vSphere cluster in simulated clouds, their objects in a
// real API server, and what a sink needs.
type world struct {
	cfg     *rest.Config
	kinds   *inventory.Kinds
	client  client.Client // counts writes
	sim     *ec2sim.Server
	aws     *awscluster.Environment
	vsphere *vspherecluster.Environment
	events  *recorder
	now     time.Time
	clouds  map[string]providers.Provider
	policy  string

	mu     sync.Mutex
	writes []string
}

func newWorld(t *testing.T, cfg *rest.Config) *world {
	t.Helper()
	w := &world{events: &recorder{}, now: time.Now(), cfg: cfg}
	w.clusters(t)
	var err error
	if w.kinds, err = inventory.NewKinds(aws.Registration(), vsphere.Registration()); err != nil {
		t.Fatal(err)
	}
	plain, err := client.NewWithWatch(w.cfg, client.Options{Scheme: w.kinds.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	objects := append(w.aws.Objects(), w.vsphere.Objects()...)
	install(t, plain, objects...)
	t.Cleanup(func() { remove(t, plain, objects...) })
	w.client = w.counting(plain)
	return w
}

func (w *world) clusters(t *testing.T) {
	t.Helper()
	manifest, err := awscluster.Load(awsexamples.Files, awscluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	region := manifest.AWSCluster.Spec.Region
	w.sim = ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}})
	t.Cleanup(w.sim.Close)
	image, err := w.sim.AddImage(w.sim.DefaultScope(region), ec2sim.Image{Name: "node"})
	if err != nil {
		t.Fatal(err)
	}
	if w.aws, err = awscluster.Build(t.Context(), awscluster.ClientsFrom(w.sim.Config(region)), awscluster.Options{
		Manifest: manifest, Simulator: w.sim, Image: image, Poll: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	credential := w.sim.Credentials()[0]
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": w.sim.URL(), "AWS_ACCESS_KEY_ID": credential.AccessKeyID, "AWS_SECRET_ACCESS_KEY": credential.SecretAccessKey,
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	vm, err := vspherecluster.Load(vsphereexamples.Files, vspherecluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	vcenter, err := vspherecluster.StartVCenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vcenter.Close)
	if w.vsphere, err = vspherecluster.Build(t.Context(), vcenter, vspherecluster.Options{Manifest: vm}); err != nil {
		t.Fatal(err)
	}
}

// install creates objects with their status and their namespaces.
func install(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if ns := o.GetNamespace(); ns != "" {
			err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
		created := o.DeepCopyObject().(client.Object)
		created.SetResourceVersion("")
		created.SetUID("")
		if err := c.Create(t.Context(), created); runtime.IsNotRegisteredError(err) {
			continue // bootstrap objects: nothing here reads them
		} else if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
		full := o.DeepCopyObject().(client.Object)
		full.SetResourceVersion(created.GetResourceVersion())
		full.SetUID(created.GetUID())
		if err := c.Status().Update(t.Context(), full); client.IgnoreNotFound(err) != nil {
			t.Fatalf("status of %T %s: %v", o, o.GetName(), err)
		}
	}
}

// remove takes objects away, whatever would hold them back.
func remove(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		o = o.DeepCopyObject().(client.Object)
		if _, isNamespace := o.(*corev1.Namespace); isNamespace {
			continue
		}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := c.Patch(context.Background(), o, patch); err != nil {
			if !apierrors.IsNotFound(err) && !runtime.IsNotRegisteredError(err) {
				t.Error(err)
			}
			continue
		}
		if err := c.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
}

// counting notes each write that goes through it.
func (w *world) counting(c client.WithWatch) client.Client {
	note := func(verb string, name string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes = append(w.writes, verb+" "+name)
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			note("patch", o.GetName())
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			note("apply", fmt.Sprint(o))
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return fmt.Errorf("a status sink updates nothing")
		},
	})
}

// taken gives how many writes there were since the last call.
func (w *world) taken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.writes)
	w.writes = nil
	return n
}

func (w *world) sink(t *testing.T) *status.Sink {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return status.New(status.Options{Reader: w.client, Client: w.client, OpenAPI: d.OpenAPIV3(), Events: w.events,
		Now: func() time.Time { return w.now }})
}

// sweep compares everything, as the daemon does.
func (w *world) sweep(t *testing.T) *sweep.Outcome {
	t.Helper()
	set, err := inventory.FromCluster(t.Context(), w.kinds, w.client, "")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := inventory.Group(w.kinds, set, inventory.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	reader := set.Reader(w.kinds, w.client)
	w.clouds = map[string]providers.Provider{}
	for _, r := range []providers.Registration{aws.Registration(), vsphere.Registration()} {
		if w.clouds[r.Name], err = r.New(reader); err != nil {
			t.Fatal(err)
		}
		if c, ok := w.clouds[r.Name].(io.Closer); ok {
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	set2 := policies.Builtin()
	if w.policy != "" {
		var problems policies.Problems
		if set2, problems = policies.LoadSources(policies.Options{}, policies.Source{Name: "test", Data: []byte(w.policy)}); problems.Err() != nil {
			t.Fatal(problems.Err())
		}
	}
	s := &sweep.Sweeper{Providers: w.clouds, Policies: set2, Now: func() time.Time { return w.now }}
	result, err := s.Run(t.Context(), inv)
	if err != nil {
		t.Fatal(err)
	}
	return &sweep.Outcome{At: w.now, Cause: "Schedule", Inventory: inv, Result: result, Policies: set2}
}

func (w *world) consume(t *testing.T, s *status.Sink) {
	t.Helper()
	if err := s.Consume(t.Context(), w.sweep(t)); err != nil {
		t.Fatal(err)
	}
}

// tamper does one of the careless operator's things to the AWS cluster.
func (w *world) tamper(t *testing.T, name string) *awscluster.Damage {
	t.Helper()
	for _, tamper := range awscluster.Tampers() {
		if tamper.Name == name {
			damage, err := tamper.Do(t.Context(), w.aws)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return damage
		}
	}
	t.Fatalf("no tamper is called %q", name)
	return nil
}

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []string
	notes  []string
}

func (r *recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := regarding.(client.Object)
	r.events = append(r.events, fmt.Sprintf("%s %s %s/%s", kind, reason, o.GetObjectKind().GroupVersionKind().Kind, o.GetName()))
	r.notes = append(r.notes, fmt.Sprintf(note, args...))
	if action == "" || related != nil && strings.TrimSpace(related.(client.Object).GetName()) == "" {
		panic("an event without an action, or about nothing")
	}
}

func (r *recorder) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.events
	r.events = nil
	return out
}
