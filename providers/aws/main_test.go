package aws

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/test/moto"
)

var motoServer *moto.Server

// TestMain starts one moto for the package. Without moto the package fails:
// what these tests say about EC2 would otherwise rest on this project alone.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if motoServer, err = moto.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	_ = motoServer.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1 // something goes on after the tests
	}
	return code
}
