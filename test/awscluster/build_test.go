package awscluster_test

import (
	"testing"

	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
)

func TestBuildOnMoto(t *testing.T) {
	moto, err := awscluster.StartMoto(t.Context(), awscluster.ExampleImage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = moto.Close() })
	for _, name := range []string{"prod-eu.yaml", "dev-classic.yaml"} {
		t.Run(name, func(t *testing.T) {
			manifest, err := awscluster.Load(awsexamples.Files, name)
			if err != nil {
				t.Fatal(err)
			}
			env, err := awscluster.Build(t.Context(), awscluster.NewClients(moto.URL, manifest.AWSCluster.Spec.Region), awscluster.Options{
				Manifest: manifest, OnMoto: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := env.Write(dir); err != nil {
				t.Fatal(err)
			}
		})
	}
}
