// Package controlplane starts a real kube-apiserver and etcd for tests, with
// the CRDs of Cluster API and its AWS and vSphere providers.
package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// assetsVariable names the folder with kube-apiserver, etcd and kubectl.
const assetsVariable = "KUBEBUILDER_ASSETS"

// crdFolders are where upstream's modules keep their CRDs.
var crdFolders = map[string][]string{
	"sigs.k8s.io/cluster-api":                  {"core/config/crd/bases", "controlplane/kubeadm/config/crd/bases", "bootstrap/kubeadm/config/crd/bases"},
	"sigs.k8s.io/cluster-api-provider-aws/v2":  {"config/crd/bases"},
	"sigs.k8s.io/cluster-api-provider-vsphere": {"config/default/crd/bases"},
}

// Start runs a control plane until the test ends. A machine without the
// binaries fails the test: hack/test.sh builds them.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	if os.Getenv(assetsVariable) == "" {
		t.Fatalf("%s is not set: run the tests by hack/test.sh, or set it to the output of hack/kubebox/build.sh", assetsVariable)
	}
	crds, err := crdPaths()
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{CRDDirectoryPaths: crds, ErrorIfCRDPathMissing: true}
	cfg, err := env.Start()
	if err != nil {
		t.Fatalf("start the control plane: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	cfg.QPS, cfg.Burst = 500, 1000
	return cfg
}

// Kubectl is the path of the real kubectl beside the API server.
func Kubectl(t testing.TB) string {
	t.Helper()
	path := filepath.Join(os.Getenv(assetsVariable), "kubectl")
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func crdPaths() ([]string, error) {
	var out []string
	for module, folders := range crdFolders {
		dir, err := ModuleDir(module)
		if err != nil {
			return nil, err
		}
		for _, f := range folders {
			out = append(out, filepath.Join(dir, f))
		}
	}
	return out, nil
}

// ModuleDir is where the module cache holds a required module.
func ModuleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
