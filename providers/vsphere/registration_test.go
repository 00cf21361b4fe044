package vsphere

import (
	"testing"

	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A cluster holds the Secret that it names itself; that of an identity serves others
// too.
func TestHolds(t *testing.T) {
	cluster := func(kind infrav1.VSphereIdentityKind) *infrav1.VSphereCluster {
		c := &infrav1.VSphereCluster{}
		c.Namespace, c.Name = "prod", "c1"
		c.Spec.IdentityRef = infrav1.VSphereIdentityReference{Kind: kind, Name: "vcenter"}
		return c
	}
	for name, c := range map[string]struct {
		infra client.Object
		want  int
	}{
		"a Secret":    {cluster(infrav1.SecretKind), 1},
		"an identity": {cluster(infrav1.VSphereClusterIdentityKind), 0},
		"none":        {&infrav1.VSphereCluster{}, 0},
		"a machine":   {&infrav1.VSphereMachine{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := Registration().Holds(c.infra)
			if len(got) != c.want {
				t.Fatalf("it holds %v, want %d", got, c.want)
			}
			for _, h := range got {
				if h.Object.GetNamespace() != "prod" || h.Object.GetName() != "vcenter" || h.Finalizer != infrav1.SecretIdentitySetFinalizer {
					t.Errorf("it holds %s/%s by %s", h.Object.GetNamespace(), h.Object.GetName(), h.Finalizer)
				}
			}
		})
	}
}
