package providerobjects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-io/holdfast/hack/clusterapi"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

// world is an API server with the CRD of Providers as managed mode has it, and no
// Provider.
type world struct {
	t      *testing.T
	plane  *controlplane.Plane
	client client.Client
}

// shared is the one API server of all tests, which come one after the other.
var shared *controlplane.Plane

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if shared != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func launch() (*controlplane.Plane, error) {
	crds, err := clusterapi.CRDs(clusterapi.Options{})
	if err != nil {
		return nil, err
	}
	options := controlplane.Options{}
	for _, crd := range crds {
		if crd.Spec.Names.Kind == Kind.Kind {
			options.CRDs = append(options.CRDs, crd)
		}
	}
	return controlplane.Launch(options)
}

func start(t *testing.T) *world {
	t.Helper()
	if shared == nil {
		var err error
		if shared, err = launch(); err != nil {
			t.Fatal(err)
		}
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterctlv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, plane: shared}
	var err error
	if w.client, err = client.New(shared.Config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if out, err := w.kubectl("delete", "providers.clusterctl.cluster.x-k8s.io", "--all", "--all-namespaces"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return w
}

// kubectl runs it as a user does, and gives what it says.
func (w *world) kubectl(args ...string) (string, error) {
	w.t.Helper()
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", w.plane.Kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// manage runs the controller until the test ends or it ends by itself, which is on
// the channel.
func (w *world) manage(o Options) <-chan error {
	w.t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		w.t.Fatal(err)
	}
	skip := true
	mgr, err := ctrl.NewManager(w.plane.Config, ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true, DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := o.SetUp(w.t.Context(), mgr); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- mgr.Start(ctx)
	}()
	w.t.Cleanup(func() { cancel(); <-gone })
	return ended
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// ready waits until a Provider's condition has a reason, and gives it.
func (w *world) ready(namespace, object, reason string) metav1.Condition {
	w.t.Helper()
	var last metav1.Condition
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(Kind)
		if err := w.client.Get(w.t.Context(), name(namespace, object), u); err != nil {
			w.t.Fatal(err)
		}
		var status struct {
			Status struct{ Conditions []metav1.Condition }
		}
		data, err := json.Marshal(u.Object)
		if err == nil {
			err = json.Unmarshal(data, &status)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if c := meta.FindStatusCondition(status.Status.Conditions, ConditionReady); c != nil {
			last = *c
			if c.Reason == reason && c.ObservedGeneration == u.GetGeneration() {
				return last
			}
		}
	}
	w.t.Fatalf("Provider %s/%s does not come to %s: it is %+v", namespace, object, reason, last)
	return last
}

const registration = `apiVersion: v1
kind: Namespace
metadata:
  name: capi-provider-system
---
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Provider
metadata:
  name: infrastructure-aws
  namespace: capi-provider-system
spec:
  type: InfrastructureProvider
  version: v2.3.0
  configSecret:
    name: aws-credentials
    namespace: capi-provider-system
`

// From a user's manifest to credentials, through what goes wrong on the way.
func TestProviders(t *testing.T) {
	w, ctx := start(t), t.Context()
	file := filepath.Join(t.TempDir(), "provider.yaml")
	if err := os.WriteFile(file, []byte(registration), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := w.kubectl("apply", "-f", file); err != nil || strings.Contains(out, "Warning") {
		t.Fatalf("%v: %s", err, out)
	}
	if got, not, err := Wanted(ctx, w.client, ""); err != nil || len(not) > 0 || len(got) != 1 || got[0] != AWS {
		t.Errorf("it names %q, not %q, %v", got, not, err)
	}
	w.manage(Options{Loaded: []string{AWS, Core}})
	source := Source{Reader: w.client}

	c := w.ready("capi-provider-system", "infrastructure-aws", ReasonSecretNotFound)
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "Secret capi-provider-system/aws-credentials is not there") {
		t.Errorf("without a Secret: %+v", c)
	}
	var problem *RefusedError
	if _, ok, err := source.AWS(ctx); ok || !errors.As(err, &problem) || problem.Reason != ReasonSecretNotFound {
		t.Errorf("without a Secret: %v, %v", ok, err)
	}
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capi-provider-system", Name: "aws-credentials"},
		StringData: map[string]string{"AccessKeyID": keyOne, "SecretAccessKey": secretOne},
	})
	w.touch("capi-provider-system", "infrastructure-aws")
	c = w.ready("capi-provider-system", "infrastructure-aws", ReasonServed)
	if want := "Holdfast serves infrastructure-aws v2.3.0, contract v1beta1, with the credentials of Secret capi-provider-system/aws-credentials"; c.Status != metav1.ConditionTrue || c.Message != want {
		t.Errorf("with a Secret: %+v, want %s", c, want)
	}
	if keys, ok, err := source.AWS(ctx); err != nil || !ok || keys != (AWSKeys{AccessKeyID: keyOne, SecretAccessKey: secretOne}) {
		t.Errorf("the credentials are %v, %v", ok, err)
	}
	if _, ok, err := source.VSphere(ctx); ok || err != nil {
		t.Errorf("nobody has registered vsphere: %v, %v", ok, err)
	}

	// clusterctl lists it, with its own types.
	listed := &clusterctlv1.ProviderList{}
	if err := w.client.List(ctx, listed); err != nil {
		t.Fatal(err)
	}
	if found := listed.FilterByProviderNameNamespaceTypeVersion("aws", "capi-provider-system", clusterctlv1.InfrastructureProviderType, "v2.3.0"); len(found) != 1 {
		t.Errorf("clusterctl lists %+v", listed.Items)
	}
	// What clusterctl writes leaves the rest alone.
	theirs := listed.Items[0].DeepCopy()
	theirs.Labels = map[string]string{"cluster.x-k8s.io/provider": "infrastructure-aws"}
	if err := w.client.Patch(ctx, theirs, client.Merge); err != nil {
		t.Fatal(err)
	}
	w.ready("capi-provider-system", "infrastructure-aws", ReasonServed)

	// The user's file again, with a version that there is not yet.
	if err := os.WriteFile(file, []byte(strings.Replace(registration, "v2.3.0", "v2.99.0", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := w.kubectl("apply", "-f", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if c = w.ready("capi-provider-system", "infrastructure-aws", ReasonVersionMismatch); !strings.Contains(c.Message, "v2.0 to v2.13") {
		t.Errorf("it does not say what fits: %s", c.Message)
	}
	if got, not, err := Wanted(ctx, w.client, ""); err != nil || len(got) > 0 || len(not) != 1 || !strings.Contains(not[0], "v2.0 to v2.13") {
		t.Errorf("it names %q, not %q, %v", got, not, err)
	}
	if _, ok, err := source.AWS(ctx); ok || err != nil {
		t.Errorf("credentials of what does not fit: %v, %v", ok, err)
	}
}

// touch has the controller look again, as it does by itself after a while.
func (w *world) touch(namespace, object string) {
	w.t.Helper()
	if out, err := w.kubectl("annotate", "-n", namespace, "providers.clusterctl.cluster.x-k8s.io", object, "touched="+time.Now().Format("150405.000"), "--overwrite"); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// Of upstream's form: a Secret where upstream's manifests have it, another's
// provider, a second one of the same, one in another namespace, one not loaded.
func TestUpstreamsForm(t *testing.T) {
	w := start(t)
	for _, namespace := range []string{"capv-system", "other"} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	add := func(namespace, object, kind, provider, version string) {
		w.create(&clusterctlv1.Provider{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: object}, Type: kind, ProviderName: provider, Version: version})
	}
	add("capv-system", "infrastructure-vsphere", "InfrastructureProvider", "vsphere", "v1.16.1")
	add("capv-system", "infrastructure-azure", "InfrastructureProvider", "azure", "v1.20.0")
	add("capv-system", "control-plane-kubeadm", "ControlPlaneProvider", "kubeadm", "v1.14.2")
	w.manage(Options{Loaded: []string{VSphere}})
	if c := w.ready("capv-system", "infrastructure-vsphere", ReasonServed); !strings.HasSuffix(c.Message, "with credentials of the process and of identity objects") {
		t.Errorf("without a Secret: %s", c.Message)
	}
	w.ready("capv-system", "infrastructure-azure", ReasonUnknownProvider)
	if c := w.ready("capv-system", "control-plane-kubeadm", ReasonNotLoaded); c.Message != "Holdfast was started without the reconcilers of kubeadm: add kubeadm to --reconcilers" {
		t.Errorf("not loaded: %s", c.Message)
	}
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capv-system", Name: "capv-manager-bootstrap-credentials"},
		StringData: map[string]string{"credentials.yaml": "username: 'u'\npassword: 'p'"},
	})
	if login, ok, err := (Source{Reader: w.client}).VSphere(t.Context()); err != nil || !ok || login != (Login{"u", "p"}) {
		t.Errorf("the credentials are %v, %v", ok, err)
	}

	add("other", "infrastructure-vsphere", "InfrastructureProvider", "vsphere", "v1.16.1")
	if c := w.ready("other", "infrastructure-vsphere", ReasonDuplicate); !strings.Contains(c.Message, "Provider capv-system/infrastructure-vsphere already") {
		t.Errorf("a second one: %s", c.Message)
	}
	if out, err := w.kubectl("delete", "providers.clusterctl.cluster.x-k8s.io", "-n", "capv-system", "infrastructure-vsphere"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.ready("other", "infrastructure-vsphere", ReasonServed)
	if out, err := w.kubectl("patch", "providers.clusterctl.cluster.x-k8s.io", "-n", "other", "infrastructure-vsphere", "--type=merge", "-p",
		`{"spec":{"type":"InfrastructureProvider","version":"v1.16.0","configSecret":{"name":"capv-manager-bootstrap-credentials","namespace":"capv-system"}}}`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.ready("other", "infrastructure-vsphere", ReasonSecretForbidden)
	var problem *RefusedError
	if _, ok, err := (Source{Reader: w.client}).VSphere(t.Context()); ok || !errors.As(err, &problem) || problem.Reason != ReasonSecretForbidden {
		t.Errorf("a Secret of another namespace: %v, %v", ok, err)
	}
}

// With auto, a part that comes later ends the process, so that it is loaded.
func TestAuto(t *testing.T) {
	w := start(t)
	ended := w.manage(Options{Loaded: []string{Core}, Auto: true})
	w.create(&clusterctlv1.Provider{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cluster-api"}, Type: "CoreProvider", ProviderName: "cluster-api", Version: "v1.14.2"})
	w.ready("default", "cluster-api", ReasonServed)
	select {
	case err := <-ended:
		t.Fatalf("it ended for a part that is loaded: %v", err)
	default:
	}
	w.create(&clusterctlv1.Provider{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "infrastructure-aws"}, Type: "InfrastructureProvider", ProviderName: "aws", Version: "v2.13.0"})
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "not there at the start (aws)") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on without the part")
	}
	w.ready("default", "infrastructure-aws", ReasonNotLoaded)
}
