package remediation_test

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-io/holdfast/test/controlplane"

	"github.com/go-logr/logr"
)

// shared is one control plane for all tests of the package: each test has a
// namespace of its own.
var shared mainTB

// mainTB lets what wants a test start things that live as long as the package.
type mainTB struct {
	testing.TB
	once     sync.Once
	config   *rest.Config
	cleanups []func()
}

func (*mainTB) Helper()            {}
func (m *mainTB) Cleanup(f func()) { m.cleanups = append(m.cleanups, f) }
func (m *mainTB) Fatal(args ...any) {
	panic(fmt.Sprint(args...))
}
func (m *mainTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (m *mainTB) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// controlPlane is a real API server with every CRD.
func controlPlane(t *testing.T) *rest.Config {
	t.Helper()
	shared.once.Do(func() {
		shared.config = controlplane.Start(&shared)
		if _, err := envtest.InstallCRDs(shared.config, envtest.CRDInstallOptions{Paths: []string{"../../api/crds"}, ErrorIfPathMissing: true}); err != nil {
			t.Fatal(err)
		}
	})
	if shared.config == nil {
		t.Fatal("the control plane did not start")
	}
	return shared.config
}

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	code := m.Run()
	for i := len(shared.cleanups) - 1; i >= 0; i-- {
		shared.cleanups[i]()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
