package vsphere

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/vmware/govmomi"
	_ "github.com/vmware/govmomi/pbm/simulator"
	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-io/holdfast/providers"
)

// vcsim is a vCenter in this process.
type vcsim struct {
	model  *simulator.Model
	server *simulator.Server
}

func startSim(t testing.TB, change func(*simulator.Model)) *vcsim {
	t.Helper()
	m := simulator.VPX()
	if change != nil {
		change(m)
	}
	if err := m.Create(); err != nil {
		t.Fatal(err)
	}
	m.Service.TLS = new(tls.Config)
	m.Service.RegisterEndpoints = true
	s := &vcsim{model: m, server: m.Service.NewServer()}
	t.Cleanup(func() {
		s.server.Close()
		m.Remove()
	})
	return s
}

func (s *vcsim) thumbprint() string { return soap.ThumbprintSHA256(s.server.Certificate()) }

func (s *vcsim) cluster() *infrav1.VSphereCluster {
	return &infrav1.VSphereCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c1", UID: "c1-uid"},
		Spec: infrav1.VSphereClusterSpec{
			Server:      s.server.URL.Host,
			Thumbprint:  s.thumbprint(),
			IdentityRef: infrav1.VSphereIdentityReference{Kind: infrav1.SecretKind, Name: "creds"},
		},
	}
}

func (s *vcsim) owner() *providers.Owner {
	c := s.cluster()
	return &providers.Owner{
		Ref:     providers.OwnerRef{Kind: "VSphereCluster", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c1"}},
		Infra:   c,
	}
}

func credentialsSecret(user, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "creds"},
		Data:       map[string][]byte{"username": []byte(user), "password": []byte(password)},
	}
}

func newReader(t testing.TB, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := addToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func noEnv(string) string { return "" }

func newTestProvider(t testing.TB, objects ...client.Object) *Provider {
	t.Helper()
	if len(objects) == 0 {
		objects = []client.Object{credentialsSecret("user", "pass")}
	}
	p := New(newReader(t, objects...), noEnv)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func observe(t testing.TB, p *Provider, owner *providers.Owner) (providers.Scope, *providers.Snapshot) {
	t.Helper()
	scope, err := p.Scope(context.Background(), owner)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(context.Background(), scope)
	if err != nil {
		t.Fatal(err)
	}
	return scope, snap
}

// client gives an administrator's client.
func (s *vcsim) client(t testing.TB) *vim25.Client {
	t.Helper()
	c, err := govmomi.NewClient(context.Background(), s.server.URL, true)
	if err != nil {
		t.Fatal(err)
	}
	return c.Client
}
