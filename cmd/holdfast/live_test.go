package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	capv "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/report"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

// TestManagementCluster reports on the clusters of a real API server, as
// `holdfast report` and as `kubectl holdfast report` with a real kubectl.
func TestManagementCluster(t *testing.T) {
	aws := newAWSWorld(t)
	vsphere := newVSphereWorld(t)
	cfg := controlplane.Start(t)
	kubeconfig := writeKubeconfig(t, cfg)
	kinds, err := inventory.NewKinds(registrations(false)...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: kinds.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: aws.env.Cluster.Namespace}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for _, o := range append(aws.env.Objects(), vsphere.env.Objects()...) {
		apply(t.Context(), t, kubeconfig, o)
	}

	before := revisions(t, c)
	o := holdfast(t, "report", "--kubeconfig", kubeconfig, "-o", "json")
	r := o.parse(t)
	if len(r.Clusters) != 2 {
		t.Fatalf("%d clusters, want 2\n%s", len(r.Clusters), o.stdout)
	}
	for i := range r.Findings {
		t.Errorf("an untouched cluster has the finding %+v", r.Findings[i])
	}
	if o.code != 0 {
		t.Errorf("exit %d, want 0\n%s\n%v", o.code, o.stderr, r.Problems)
	}
	aws.tamper(t, "tag changed")
	plugin(t, kubeconfig, aws)
	aws.unchanged(t)
	if diff := cmp.Diff(before, revisions(t, c)); diff != "" {
		t.Errorf("reporting has written to the API server (-before +after):\n%s", diff)
	}
}

// revisions gives the revision of every object of the kinds that are read, and
// of those that a careless reader leaves behind: events and config maps.
func revisions(t *testing.T, c client.Client) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineDeploymentList{},
		&capa.AWSClusterList{}, &capa.AWSMachineList{}, &capv.VSphereClusterList{}, &capv.VSphereMachineList{}, &capv.VSphereVMList{},
		&corev1.SecretList{}, &corev1.EventList{}, &corev1.ConfigMapList{}, &corev1.NamespaceList{},
	} {
		if err := c.List(t.Context(), list, client.InNamespace("")); err != nil {
			t.Fatalf("list %T: %v", list, err)
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			if object.GetNamespace() != "kube-system" {
				out[fmt.Sprintf("%T %s/%s", o, object.GetNamespace(), object.GetName())] = object.GetResourceVersion()
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d objects", len(out))
	}
	return out
}

// apply creates an object with its status, by a real kubectl.
func apply(ctx context.Context, t *testing.T, kubeconfig string, o client.Object) {
	t.Helper()
	o = o.DeepCopyObject().(client.Object)
	o.SetResourceVersion("")
	o.SetUID("")
	file := write(t, "object.json", toJSON(t, o))
	for _, args := range [][]string{
		{"create", "--validate=false", "-f", file},
		{"replace", "--validate=false", "--subresource=status", "-f", file},
	} {
		cmd := exec.CommandContext(ctx, controlplane.Kubectl(t), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "NotFound") && !strings.Contains(string(out), "not found") {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
	}
}

// plugin runs the built binary through kubectl.
func plugin(t *testing.T, kubeconfig string, w *awsWorld) {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "kubectl-holdfast"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), controlplane.Kubectl(t), "holdfast", "report", "--kubeconfig", kubeconfig, "--cluster", w.env.Cluster.Namespace+"/"+w.env.Cluster.Name, "-o", "json")
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("kubectl holdfast report: exit %d, want 1\n%s", code, stderr.String())
	}
	r, err := report.Read(&stdout)
	if err != nil {
		t.Fatalf("kubectl holdfast report: %v\n%s", err, stderr.String())
	}
	if len(r.Findings) == 0 {
		t.Error("kubectl holdfast report found nothing")
	}
	help := exec.CommandContext(t.Context(), controlplane.Kubectl(t), "holdfast", "report", "--help")
	help.Env = cmd.Env
	out, err := help.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kubectl holdfast report --objects") {
		t.Errorf("help does not speak as the plugin: %v\n%s", err, out)
	}
}

func writeKubeconfig(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	k := clientcmdapi.NewConfig()
	k.Clusters["test"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	k.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	k.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	k.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		t.Fatal(err)
	}
	return path
}
