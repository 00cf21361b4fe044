package vsphere

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

func secretIn(namespace, name string, owners ...metav1.OwnerReference) *corev1.Secret {
	s := credentialsSecret("u", "p")
	s.Namespace, s.Name, s.OwnerReferences = namespace, name, owners
	return s
}

func ownedBy(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: kind, Name: name}
}

func clusterIdentity(mods ...func(*infrav1.VSphereClusterIdentity)) *infrav1.VSphereClusterIdentity {
	i := &infrav1.VSphereClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Spec: infrav1.VSphereClusterIdentitySpec{
		SecretName: "shared-creds",
		AllowedNamespaces: &infrav1.AllowedNamespaces{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"vcenter": "yes"}},
		},
	}}
	for _, m := range mods {
		m(i)
	}
	return i
}

func namespace(labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: labels}}
}

func ownerOf(mods ...func(*infrav1.VSphereCluster)) *providers.Owner {
	c := &infrav1.VSphereCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c1", UID: "uid-1"}}
	c.Spec.Server = "vc.example.com"
	for _, m := range mods {
		m(c)
	}
	return &providers.Owner{
		Ref:     providers.OwnerRef{Kind: "VSphereCluster", Namespace: "prod", Name: c.Name},
		Cluster: &clusterv1.Cluster{}, Infra: c,
	}
}

func identityRef(kind infrav1.VSphereIdentityKind, name string) func(*infrav1.VSphereCluster) {
	return func(c *infrav1.VSphereCluster) {
		c.Spec.IdentityRef = infrav1.VSphereIdentityReference{Kind: kind, Name: name}
	}
}

func TestScopeIdentity(t *testing.T) {
	shared := identityRef(infrav1.VSphereClusterIdentityKind, "shared")
	allowed := namespace(map[string]string{"vcenter": "yes"})
	capv := secretIn("capv-system", "shared-creds")
	tests := map[string]struct {
		owner   *providers.Owner
		objects []client.Object
		env     map[string]string
		want    string // identity
		reason  string // of the error
		says    string
	}{
		"secret": {
			owner: ownerOf(identityRef(infrav1.SecretKind, "creds")), objects: []client.Object{secretIn("prod", "creds")},
			want: "Secret/prod/creds",
		},
		"secret of its own cluster": {
			owner:   ownerOf(identityRef(infrav1.SecretKind, "creds")),
			objects: []client.Object{secretIn("prod", "creds", ownedBy("VSphereCluster", "c1"))}, want: "Secret/prod/creds",
		},
		"secret of another cluster": {
			owner:   ownerOf(identityRef(infrav1.SecretKind, "creds")),
			objects: []client.Object{secretIn("prod", "creds", ownedBy("VSphereCluster", "c2"))},
			reason:  providers.ReasonForbidden, says: "belongs to VSphereCluster c2",
		},
		"secret in another namespace": {
			owner: ownerOf(identityRef(infrav1.SecretKind, "creds")), objects: []client.Object{secretIn("other", "creds")},
			reason: providers.ReasonCredentials, says: "Secret prod/creds",
		},
		"unknown kind": {
			owner: ownerOf(identityRef("ConfigMap", "creds")), reason: providers.ReasonInvalidSpec, says: "ConfigMap",
		},
		"cluster identity": {
			owner: ownerOf(shared), objects: []client.Object{clusterIdentity(), allowed, capv}, want: "VSphereClusterIdentity/shared",
		},
		"cluster identity, every namespace": {
			owner: ownerOf(shared), objects: []client.Object{clusterIdentity(func(i *infrav1.VSphereClusterIdentity) {
				i.Spec.AllowedNamespaces.Selector = metav1.LabelSelector{}
			}), capv}, want: "VSphereClusterIdentity/shared",
		},
		"cluster identity, no namespace": {
			owner: ownerOf(shared), objects: []client.Object{clusterIdentity(func(i *infrav1.VSphereClusterIdentity) {
				i.Spec.AllowedNamespaces = nil
			}), allowed, capv}, reason: providers.ReasonForbidden, says: "no namespace may use it",
		},
		"cluster identity, another namespace": {
			owner: ownerOf(shared), objects: []client.Object{clusterIdentity(), namespace(nil), capv},
			reason: providers.ReasonForbidden, says: "does not allow namespace prod",
		},
		"cluster identity, namespace not given": {
			owner: ownerOf(shared), objects: []client.Object{clusterIdentity(), capv},
			reason: providers.ReasonForbidden, says: "Namespace prod",
		},
		"cluster identity that is not ready": {
			owner: ownerOf(shared), objects: []client.Object{clusterIdentity(func(i *infrav1.VSphereClusterIdentity) {
				i.Status.Ready = ptr.To(false)
			}), allowed, capv}, reason: providers.ReasonCredentials, says: "not ready",
		},
		"cluster identity whose secret is another's": {
			owner:   ownerOf(shared),
			objects: []client.Object{clusterIdentity(), allowed, secretIn("capv-system", "shared-creds", ownedBy("VSphereClusterIdentity", "x"))},
			reason:  providers.ReasonForbidden, says: "belongs to VSphereClusterIdentity x",
		},
		"cluster identity, secret in the cluster's namespace only": {
			owner: ownerOf(shared), objects: []client.Object{clusterIdentity(), allowed, secretIn("prod", "shared-creds")},
			reason: providers.ReasonCredentials, says: "capv-system/shared-creds",
		},
		"controller namespace": {
			owner: ownerOf(shared), objects: []client.Object{clusterIdentity(), allowed, secretIn("infra", "shared-creds")},
			env: map[string]string{"VSPHERE_CONTROLLER_NAMESPACE": "infra"}, want: "VSphereClusterIdentity/shared",
		},
		"environment": {
			owner: ownerOf(), env: map[string]string{"VSPHERE_SERVER": "https://VC.example.com/sdk", "VSPHERE_USERNAME": "u", "VSPHERE_PASSWORD": "p"},
		},
		"environment of another server": {
			owner: ownerOf(), env: map[string]string{"VSPHERE_SERVER": "other.example.com", "VSPHERE_USERNAME": "u", "VSPHERE_PASSWORD": "p"},
			reason: providers.ReasonCredentials, says: "not sent to vc.example.com",
		},
		"environment incomplete": {
			owner: ownerOf(), env: map[string]string{"VSPHERE_SERVER": "vc.example.com", "VSPHERE_USERNAME": "u"},
			reason: providers.ReasonCredentials, says: "not all set",
		},
		"in the clear": {
			owner:  ownerOf(func(c *infrav1.VSphereCluster) { c.Spec.Server = "http://vc.example.com" }),
			reason: providers.ReasonInvalidSpec, says: "only https",
		},
		"no server": {
			owner:  ownerOf(func(c *infrav1.VSphereCluster) { c.Spec.Server = "" }),
			reason: providers.ReasonInvalidSpec, says: "names no vCenter",
		},
		"bad thumbprint": {
			owner:  ownerOf(func(c *infrav1.VSphereCluster) { c.Spec.Thumbprint = "AB:CD" }),
			reason: providers.ReasonInvalidSpec, says: "SHA-1",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := New(newReader(t, tt.objects...), func(key string) string { return tt.env[key] })
			scope, err := p.Scope(t.Context(), tt.owner)
			if tt.reason == "" {
				if err != nil || scope.Identity != tt.want || scope.Account != "vc.example.com" {
					t.Errorf("scope %+v, error %v; want identity %q", scope, err, tt.want)
				}
				return
			}
			var scopeErr *providers.ScopeError
			if !errors.As(err, &scopeErr) || scopeErr.Reason != tt.reason || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want reason %s with %q", err, tt.reason, tt.says)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("the error holds a password: %v", err)
			}
		})
	}
}

// C49: a failure is not remembered, and credentials serve only the cluster
// that they were read for.
func TestC49CredentialsCache(t *testing.T) {
	reader := newReader(t).(client.Client)
	p := New(reader, noEnv)
	owner := ownerOf(identityRef(infrav1.SecretKind, "creds"))
	if _, err := p.Scope(t.Context(), owner); err == nil {
		t.Fatal("a scope without a Secret")
	}
	if err := reader.Create(t.Context(), secretIn("prod", "creds")); err != nil {
		t.Fatal(err)
	}
	first, err := p.Scope(t.Context(), owner)
	if err != nil {
		t.Fatalf("the first failure was remembered: %v", err)
	}
	if first.Identity != "Secret/prod/creds" || p.conns[first].endpoint.user.Username() != "u" {
		t.Errorf("scope %+v, and not the Secret's credentials", first)
	}
	other := secretIn("dev", "creds")
	other.Data["username"] = []byte("someone else")
	if err := reader.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	second, err := p.Scope(t.Context(), ownerOf(identityRef(infrav1.SecretKind, "creds"), func(c *infrav1.VSphereCluster) { c.Namespace = "dev" }))
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Errorf("two Secrets share scope %+v", first)
	}
	if got := p.conns[second].endpoint.user.Username(); got != "someone else" {
		t.Errorf("the second cluster would log in as %q", got)
	}
}

// A password that was changed is used, and ends the old session.
func TestCredentialsRenewed(t *testing.T) {
	sim := startSim(t, nil)
	secret := credentialsSecret("user", "pass")
	reader := newReader(t, secret).(client.Client)
	p := New(reader, noEnv)
	t.Cleanup(func() { _ = p.Close() })
	now := time.Now()
	p.now = func() time.Time { return now }
	scope, _ := observe(t, p, sim.owner())
	old := p.conns[scope].live
	secret.Data["password"] = []byte("new")
	if err := reader.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	now = now.Add(credentialsLast)
	if _, err := p.Scope(t.Context(), sim.owner()); err != nil {
		t.Fatal(err)
	}
	if live := p.conns[scope].live; live == old {
		t.Error("the old session is still in use")
	}
	if password, _ := p.conns[scope].endpoint.user.Password(); password != "new" {
		t.Errorf("password %q", password)
	}
}

func TestTrust(t *testing.T) {
	sim := startSim(t, nil)
	sha256 := sim.thumbprint()
	sha1 := formatThumbprint(thumbprint(sim.server.Certificate(), 20))
	caFile, err := sim.server.CertificateFile()
	if err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(t.TempDir(), "junk.pem")
	if err := os.WriteFile(junk, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		thumbprint, caFile string
		reason, says       string
	}{
		"SHA-256":                    {thumbprint: sha256},
		"SHA-1":                      {thumbprint: sha1},
		"lower case without colons":  {thumbprint: strings.ToLower(strings.ReplaceAll(sha1, ":", ""))},
		"authority in a file":        {caFile: caFile},
		"nothing":                    {reason: providers.ReasonUnreachable, says: "certificate"},
		"another SHA-1":              {thumbprint: strings.Repeat("AB:", 19) + "AB", reason: providers.ReasonUnreachable, says: "is expected"},
		"another SHA-256":            {thumbprint: strings.Repeat("AB:", 31) + "AB", reason: providers.ReasonUnreachable, says: "is expected"},
		"pin wins over an authority": {thumbprint: strings.Repeat("AB:", 31) + "AB", caFile: caFile, reason: providers.ReasonUnreachable, says: "is expected"},
		"no such file":               {caFile: "/nonexistent.pem", reason: providers.ReasonInvalidSpec, says: "VSPHERE_CA_FILE"},
		"file without certificate":   {caFile: junk, reason: providers.ReasonInvalidSpec, says: "no PEM certificate"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			address, err := parseServer(sim.server.URL.Host)
			if err != nil {
				t.Fatal(err)
			}
			c := &connection{}
			c.use(t.Context(), endpoint{url: address, user: url.UserPassword("user", "pass"), thumbprint: tt.thumbprint, caFile: tt.caFile})
			_, err = c.session(t.Context())
			t.Cleanup(func() { _ = c.close(t.Context()) })
			if tt.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var scopeErr *providers.ScopeError
			if !errors.As(err, &scopeErr) || scopeErr.Reason != tt.reason || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want reason %s with %q", err, tt.reason, tt.says)
			}
		})
	}
}

func TestParseServer(t *testing.T) {
	for in, want := range map[string]string{
		"vc.example.com": "vc.example.com", "VC.Example.com:443": "vc.example.com", "https://vc.example.com/sdk": "vc.example.com",
		"vc.example.com:8443": "vc.example.com:8443", "10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "[fd00::1]:8443": "[fd00::1]:8443",
	} {
		u, err := parseServer(in)
		if err != nil || hostOf(u) != want {
			t.Errorf("server %q: %v %v, want host %s", in, u, err, want)
		}
	}
	for _, in := range []string{"http://vc", "https://root:secret@vc", "", "https://"} {
		if u, err := parseServer(in); err == nil {
			t.Errorf("server %q gave %v", in, u)
		} else if strings.Contains(err.Error(), "secret") && strings.Contains(in, "secret") && strings.Contains(err.Error(), "root:") {
			t.Errorf("the error holds the password: %v", err)
		}
	}
}
