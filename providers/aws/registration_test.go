package aws

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	infrav1beta1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	"github.com/holdfast-io/holdfast/providers"
)

func TestRegistration(t *testing.T) {
	r := Registration()
	scheme := runtime.NewScheme()
	if err := r.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, k := range r.Owners {
		if !scheme.Recognizes(k.GVK) || !scheme.Recognizes(infrav1beta1.GroupVersion.WithKind(k.GVK.Kind)) {
			t.Errorf("the scheme lacks %s or its older version", k.GVK)
		}
	}
	for _, gvk := range r.Related {
		if !scheme.Recognizes(gvk) {
			t.Errorf("the scheme lacks %s", gvk)
		}
		if _, ok := r.Unmodelled[gvk.GroupKind()]; ok {
			t.Errorf("%s is both read and not modelled", gvk)
		}
	}
	for kind, why := range r.Unmodelled {
		if !strings.HasSuffix(why, ".") {
			t.Errorf("%s is not modelled because of %q: want a sentence", kind, why)
		}
	}
	if len(r.Catalog) == 0 || r.Name != Name || r.New == nil {
		t.Errorf("registration %+v is incomplete", r.Name)
	}
	if p, err := r.New(provider(t).reader); err != nil || p == nil {
		t.Errorf("New gives %v and %v", p, err)
	}
	if _, err := New(nil); err == nil {
		t.Error("a provider without a reader: no error")
	}
}

// Every older owner and related kind converts to the version that is read.
func TestOlderVersionsConvert(t *testing.T) {
	var _ providers.Provider = (*Provider)(nil)
	for old, hub := range map[conversion.Convertible]conversion.Hub{
		&infrav1beta1.AWSMachine{}:             &infrav1.AWSMachine{},
		&infrav1beta1.AWSMachineTemplate{}:     &infrav1.AWSMachineTemplate{},
		&infrav1beta1.AWSClusterTemplate{}:     &infrav1.AWSClusterTemplate{},
		&infrav1beta1.AWSClusterRoleIdentity{}: &infrav1.AWSClusterRoleIdentity{},
	} {
		if err := old.ConvertTo(hub); err != nil {
			t.Errorf("%T: %v", old, err)
		}
	}
	old := &infrav1beta1.AWSCluster{Spec: infrav1beta1.AWSClusterSpec{Region: "eu-central-1", IdentityRef: &infrav1beta1.AWSIdentityReference{Kind: "AWSClusterRoleIdentity", Name: "r"}}}
	var hub infrav1.AWSCluster
	if err := old.ConvertTo(&hub); err != nil || hub.Spec.Region != "eu-central-1" || hub.Spec.IdentityRef.Name != "r" {
		t.Errorf("converted to %+v, %v", hub.Spec, err)
	}
}
