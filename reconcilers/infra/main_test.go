package infra_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-io/holdfast/test/controlplane"
)

// config reaches one control plane for all tests of the package that want one:
// each has a namespace of its own.
var config func(*testing.T) *rest.Config

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	var plane *controlplane.Plane
	config = func(t *testing.T) *rest.Config {
		t.Helper()
		if plane == nil {
			crds, err := controlplane.CRDs()
			if err != nil {
				t.Fatal(err)
			}
			if plane, err = controlplane.Launch(controlplane.Options{CRDs: crds}); err != nil {
				t.Fatal(err)
			}
		}
		return plane.Config
	}
	code := m.Run()
	if plane != nil {
		if err := plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
