package clusterapi

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/reconcilers/infra/misplaced"
)

func definitions(t *testing.T, o Options) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, err := CRDs(o)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range crds {
		if out[crd.Name] != nil {
			t.Errorf("%s is there twice", crd.Name)
		}
		out[crd.Name] = crd
	}
	return out
}

var service = &Service{Namespace: "holdfast-system", Name: "holdfast-webhook", Port: 443, CABundle: []byte("ca"), InjectFrom: "a/b"}

// A kind is there if and only if its provider is Holdfast's to serve.
func TestKinds(t *testing.T) {
	crds := definitions(t, Options{Service: service})
	got := map[string][]string{}
	for _, crd := range crds {
		got[crd.Labels[labelProvider]] = append(got[crd.Labels[labelProvider]], crd.Spec.Names.Kind)
	}
	for label, r := range map[string]providers.Registration{"infrastructure-aws": aws.Registration(), "infrastructure-vsphere": vsphere.Registration()} {
		var want []string
		for _, o := range r.Owners {
			want = append(want, o.GVK.Kind)
		}
		for _, gvk := range r.Related {
			if strings.HasPrefix(gvk.Group, "infrastructure.") {
				want = append(want, gvk.Kind)
			}
		}
		slices.Sort(want)
		slices.Sort(got[label])
		if d := cmp.Diff(want, got[label]); d != "" {
			t.Errorf("%s: %s", label, d)
		}
	}
	for label, kinds := range map[string]int{"cluster-api": 13, "bootstrap-kubeadm": 2, "control-plane-kubeadm": 2} {
		if len(got[label]) != kinds {
			t.Errorf("%s has %q, want %d kinds", label, got[label], kinds)
		}
	}
	all := definitions(t, Options{All: true})
	for _, name := range []string{"awsmanagedcontrolplanes.controlplane.cluster.x-k8s.io", "awsmachinepools.infrastructure.cluster.x-k8s.io"} {
		if all[name] == nil || crds[name] != nil {
			t.Errorf("%s: of all %v, of those that are served %v; want it of all alone", name, all[name] != nil, crds[name] != nil)
		}
	}
}

func TestLabels(t *testing.T) {
	crds := definitions(t, Options{Service: service})
	for name, want := range map[string]map[string]string{
		"clusters.cluster.x-k8s.io": {"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/provider": "cluster-api"},
		"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io": {
			"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/provider": "control-plane-kubeadm",
			"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
		},
		// CAPA 2.13 fulfils the old contract only, in both of its versions.
		"awsclusterroleidentities.infrastructure.cluster.x-k8s.io": {
			"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/provider": "infrastructure-aws", "clusterctl.cluster.x-k8s.io/move-hierarchy": "",
			"cluster.x-k8s.io/v1alpha3": "v1alpha3", "cluster.x-k8s.io/v1alpha4": "v1alpha4", "cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2",
		},
		"vsphereclusters.infrastructure.cluster.x-k8s.io": {
			"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/provider": "infrastructure-vsphere",
			"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
		},
		"vspheredeploymentzones.infrastructure.cluster.x-k8s.io": {
			"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/provider": "infrastructure-vsphere", "clusterctl.cluster.x-k8s.io/move-hierarchy": "",
			"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
		},
		"providers.clusterctl.cluster.x-k8s.io": {clusterctlv1.ClusterctlCoreLabel: clusterctlv1.ClusterctlCoreLabelInventoryValue},
	} {
		if d := cmp.Diff(want, crds[name].Labels); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Whatever is served in two versions is converted, by Holdfast.
func TestConversions(t *testing.T) {
	converted := 0
	for name, crd := range definitions(t, Options{Service: service, All: true}) {
		served := 0
		for _, v := range crd.Spec.Versions {
			if v.Served {
				served++
			}
		}
		if crd.Spec.Conversion == nil {
			if served != 1 {
				t.Errorf("%s is served in %d versions, and nobody converts", name, served)
			}
			continue
		}
		converted++
		c := crd.Spec.Conversion.Webhook.ClientConfig
		if crd.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter || c.Service.Namespace != "holdfast-system" || c.Service.Name != "holdfast-webhook" ||
			*c.Service.Path != "/convert" || *c.Service.Port != 443 || string(c.CABundle) != "ca" || crd.Annotations[annotationInject] != "a/b" {
			t.Errorf("%s is converted by %+v", name, c)
		}
	}
	// 17 of Cluster API, 7 of CAPA, 8 of CAPV.
	if converted != 32 {
		t.Errorf("%d kinds are converted, want 32", converted)
	}
	crds := definitions(t, Options{Service: service})
	// Upstream's kustomizations have none of these two.
	for _, name := range []string{"awsclusterstaticidentities.infrastructure.cluster.x-k8s.io", "vsphereclusteridentities.infrastructure.cluster.x-k8s.io"} {
		if crds[name].Spec.Conversion == nil {
			t.Errorf("%s is not converted", name)
		}
	}
	for name, crd := range definitions(t, Options{}) {
		if crd.Spec.Conversion != nil {
			t.Errorf("%s is converted, and nobody is there to do it", name)
		}
	}
}

// What is misplaced is in each version that is served, and what is meant too.
func TestMisplaced(t *testing.T) {
	crds := definitions(t, Options{Service: service})
	for _, kind := range misplaced.Table() {
		crd := crds[strings.ToLower(kind.Kind)+"s."+kind.Group]
		for _, v := range crd.Spec.Versions {
			at := v.Schema.OpenAPIV3Schema
			for _, field := range kind.Spec {
				next := at.Properties[field]
				at = &next
			}
			for _, f := range kind.Fields {
				property, ok := at.Properties[f.Name]
				if ok != v.Served {
					t.Errorf("%s %s has spec.%s: %v", kind.Kind, v.Name, f.Name, ok)
				}
				if ok && (property.XPreserveUnknownFields == nil || !*property.XPreserveUnknownFields || property.Type != "") {
					t.Errorf("%s %s: spec.%s does not take any value", kind.Kind, v.Name, f.Name)
				}
			}
		}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crds["awsclusters.infrastructure.cluster.x-k8s.io"].DeepCopyInto(crd)
	if err := fields(crd, misplaced.Table()[0]); err == nil || !strings.Contains(err.Error(), "is a field of v1beta2 by now") {
		t.Errorf("a field that upstream has by now: %v", err)
	}
	other := misplaced.Table()[0]
	other.Fields = []misplaced.Field{{Name: "x", Meant: []string{"network", "no"}}}
	if err := fields(crd, other); err == nil || !strings.Contains(err.Error(), "spec.network.no is no field of v1beta2") {
		t.Errorf("a field that there is not: %v", err)
	}
}

func TestWebhooks(t *testing.T) {
	w, err := AdmissionWebhooks(service)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, c := range w.Mutating {
		for _, h := range c.Webhooks {
			paths[*h.ClientConfig.Service.Path] = h.ClientConfig.Service.Name == service.Name && string(h.ClientConfig.CABundle) == "ca"
		}
	}
	for _, c := range w.Validating {
		for _, h := range c.Webhooks {
			paths[*h.ClientConfig.Service.Path] = h.ClientConfig.Service.Name == service.Name && string(h.ClientConfig.CABundle) == "ca"
		}
	}
	for _, path := range []string{misplaced.Path, "/mutate-cluster-x-k8s-io-v1beta2-cluster", "/validate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane"} {
		if !paths[path] {
			t.Errorf("%s is not asked at the service: %q", path, slices.Sorted(maps.Keys(paths)))
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Service)
		say  string
	}{
		"fine":                {func(*Service) {}, ""},
		"namespace":           {func(s *Service) { s.Namespace = "A b" }, `namespace "A b"`},
		"service":             {func(s *Service) { s.Name = "" }, `service ""`},
		"port":                {func(s *Service) { s.Port = 1 << 16 }, "port 65536"},
		"a key":               {func(s *Service) { s.CABundle = []byte("-----BEGIN PRIVATE KEY-----\n") }, "no PEM with certificates"},
		"certificate's place": {func(s *Service) { s.InjectFrom = "a" }, `"a": want NAMESPACE/NAME`},
	} {
		t.Run(name, func(t *testing.T) {
			s := *service
			s.CABundle = nil
			c.edit(&s)
			err := s.Validate()
			if (err == nil) != (c.say == "") || err != nil && !strings.Contains(err.Error(), c.say) {
				t.Errorf("the error is %v, want one that says %q", err, c.say)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	crds, err := CRDs(Options{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(&out, crds...); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if n := strings.Count(text, "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"); n != len(crds) {
		t.Errorf("%d documents of %d CRDs", n, len(crds))
	}
	for _, not := range []string{"\nstatus:", "creationTimestamp: null"} {
		if strings.Contains(text, not) {
			t.Errorf("it has %q", not)
		}
	}
}
