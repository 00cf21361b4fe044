package chart

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

// cluster is a management cluster without Holdfast: an API server that knows
// Cluster API and its providers.
type cluster struct {
	config     *rest.Config
	kubeconfig string
	client     client.Client
	ledger     *ledger
}

// TestOnAPIServer runs what needs one on one.
func TestOnAPIServer(t *testing.T) {
	c := newCluster(t)
	t.Run("profiles", func(t *testing.T) { testProfiles(t, c) })
	t.Run("what the Prometheus operator reads", func(t *testing.T) { testOperator(t, c) })
	t.Run("conform", func(t *testing.T) { testConform(t, c) }) // after profiles, which brings the operator's CRDs
	t.Run("CRDs", func(t *testing.T) { testCRDs(t, c) })
	t.Run("program", func(t *testing.T) { testProgram(t, c) })
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	crds, err := controlplane.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	// Holdfast's own are the chart's to bring.
	crds = slices.DeleteFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Spec.Group == driftv1.GroupVersion.Group
	})
	plane, err := controlplane.Launch(controlplane.Options{CRDs: crds, GarbageCollector: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{config: plane.Config, kubeconfig: plane.Kubeconfig}
	scheme := capi.Scheme(corev1.AddToScheme, eventsv1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme, driftv1.AddToScheme, clusterv1.AddToScheme)
	if c.client, err = client.New(plane.Config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	c.namespace(t, "prod", nil)
	c.system(t)
	return c
}

// system makes the namespaces in which Holdfast and what is around it are.
func (c *cluster) system(t *testing.T) {
	t.Helper()
	c.namespace(t, namespace, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	for _, name := range []string{"capa-system", "capv-system", "monitoring"} {
		c.namespace(t, name, nil)
	}
	for _, name := range []string{"prometheus-k8s", "nobody"} {
		c.kubectl(t, "create", "serviceaccount", "-n", "monitoring", name)
	}
}

func (c *cluster) namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	err := c.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// helm of a major version, for this cluster.
func (c *cluster) helm(t *testing.T, major string) *helm {
	t.Helper()
	h := helms(t)[major]
	h.kubeconfig = c.kubeconfig
	return h
}

func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), controlplane.Kubectl(t), append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// get reads an object, or gives an error.
func get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c *cluster, ns, name string) (P, error) {
	out := P(new(T))
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, out); err != nil {
		return nil, fmt.Errorf("%T %s/%s: %w", out, ns, name, err)
	}
	return out, nil
}

// must is for what has to work: must(f())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// copyChart gives a copy of the chart in which files may be others.
func copyChart(t *testing.T, edit func(path, text string) string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), release)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, folder))
		if d.IsDir() {
			return os.MkdirAll(to, 0o750)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, []byte(edit(path, string(data))), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
