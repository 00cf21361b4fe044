// Package controlplane starts a real kube-apiserver and etcd for tests, with
// the CRDs of Cluster API, of its AWS and vSphere providers and of Holdfast,
// and, where a test asks for it, the garbage collector and namespace controller
// of kube-controller-manager.
package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// Start runs a control plane until the test ends. A machine without the
// binaries fails the test: hack/test.sh builds them.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	crds, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Launch(Options{CRDs: crds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p.Config
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
