package vspherecluster

import (
	"context"
	"testing"

	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
)

func TestBuild(t *testing.T) {
	ctx := context.Background()
	v, err := StartVCenter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	m, err := Load(vsphereexamples.Files, DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Build(ctx, v, Options{Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	if got, want := len(e.Machines), 9; got != want {
		t.Errorf("%d machines, want %d", got, want)
	}
}
