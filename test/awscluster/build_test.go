package awscluster_test

import (
	"testing"

	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/moto"
)

func TestBuildOnMoto(t *testing.T) {
	server, err := moto.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for _, name := range []string{"prod-eu.yaml", "dev-classic.yaml"} {
		t.Run(name, func(t *testing.T) {
			manifest, err := awscluster.Load(awsexamples.Files, name)
			if err != nil {
				t.Fatal(err)
			}
			env, err := awscluster.Build(t.Context(), awscluster.NewClients(server.URL, manifest.AWSCluster.Spec.Region), awscluster.Options{
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
