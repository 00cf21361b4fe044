package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-io/holdfast/test/management"
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	code := management.Main(m)
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

var built string

// program makes holdfast once, for the tests that run it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-faults-")
	if err != nil {
		return "", err
	}
	built = filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", built, "github.com/holdfast-io/holdfast/cmd/holdfast").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holdfast: %w\n%s", err, out)
	}
	return built, nil
})
