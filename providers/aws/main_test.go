package aws

import (
	"context"
	"fmt"
	"os"
	"testing"

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
	defer func() { _ = motoServer.Close() }()
	return m.Run()
}
