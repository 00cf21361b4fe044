package aws

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-io/holdfast/providers"
)

// isolate keeps the developer's own AWS configuration out of a test, and
// leads every call to the endpoint.
func isolate(t testing.TB, endpoint string) {
	t.Helper()
	for name, value := range motoServer.Environment() {
		t.Setenv(name, value)
	}
	t.Setenv("AWS_ENDPOINT_URL", endpoint)
}

// provider makes a provider that does not wait between attempts, over a fake
// API server with the objects.
func provider(t testing.TB, objects ...client.Object) *Provider {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := Registration().AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	p, err := New(reader, WithClock(&hastyClock{}), WithBackoff(func(int) time.Duration { return 0 }))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// observedCluster is an AWSCluster with its Cluster, in namespace "prod".
func observedCluster(name string, mods ...func(*infrav1.AWSCluster)) *providers.Owner {
	infra := &infrav1.AWSCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSCluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: apitypes.UID("uid-of-" + name)},
		Spec:       infrav1.AWSClusterSpec{Region: "eu-central-1"},
	}
	for _, mod := range mods {
		mod(infra)
	}
	return &providers.Owner{
		Ref:          providers.RefOf(infra),
		Cluster:      &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}},
		Infra:        infra,
		InfraCluster: infra,
	}
}

func withIdentity(kind infrav1.AWSIdentityKind, name string) func(*infrav1.AWSCluster) {
	return func(c *infrav1.AWSCluster) {
		c.Spec.IdentityRef = &infrav1.AWSIdentityReference{Kind: kind, Name: name}
	}
}

func everywhere() infrav1.AWSClusterIdentitySpec {
	return infrav1.AWSClusterIdentitySpec{AllowedNamespaces: &infrav1.AllowedNamespaces{}}
}

func staticIdentity(name, secret string, spec infrav1.AWSClusterIdentitySpec) *infrav1.AWSClusterStaticIdentity {
	return &infrav1.AWSClusterStaticIdentity{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       infrav1.AWSClusterStaticIdentitySpec{AWSClusterIdentitySpec: spec, SecretRef: secret},
	}
}

func roleIdentity(name, arn string, source *infrav1.AWSIdentityReference) *infrav1.AWSClusterRoleIdentity {
	return &infrav1.AWSClusterRoleIdentity{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1.AWSClusterRoleIdentitySpec{
			AWSClusterIdentitySpec: everywhere(),
			AWSRoleSpec:            infrav1.AWSRoleSpec{RoleArn: arn},
			SourceIdentityRef:      source,
		},
	}
}

func keySecret(namespace, name, id string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"AccessKeyID": []byte(id), "SecretAccessKey": []byte("s3cr3t")},
	}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}
