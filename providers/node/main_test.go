package node

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/test/controlplane"
)

// server is a real API server. It is the workload cluster of all tests, and the
// management cluster that has the Secret of it.
var server *controlplane.Plane

// TestMain starts the API server. Without it the package fails: what these tests
// say about Nodes would otherwise rest on this project alone.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if server, err = controlplane.Launch(controlplane.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
