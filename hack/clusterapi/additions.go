package clusterapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/holdfast-io/holdfast/reconcilers/infra/misplaced"
)

// add puts into a CRD what is Holdfast's own.
func add(crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, kind := range misplaced.Table() {
		if crd.Spec.Group == kind.Group && crd.Spec.Names.Kind == kind.Kind {
			return fields(crd, kind)
		}
	}
	if crd.Name == "providers.clusterctl.cluster.x-k8s.io" {
		return inventory(crd)
	}
	if shared[crd.Spec.Names.Kind] {
		crd.Labels = merged(crd.Labels, map[string]string{clusterctlv1.ClusterctlMoveHierarchyLabel: ""})
	}
	return nil
}

// shared are kinds without a namespace that clusters need, and that clusterctl
// move takes along if their CRDs say so. CAPA's identities say so by themselves.
var shared = map[string]bool{"VSphereClusterIdentity": true, "VSphereDeploymentZone": true, "VSphereFailureDomain": true}

// fields has a kind's misplaced fields admitted, with any value: kubectl refuses
// objects with fields that the schema has not, and the API server drops them
// before anybody could say a word. They are kept as they are and have no meaning.
func fields(crd *apiextensionsv1.CustomResourceDefinition, kind misplaced.Kind) error {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if !v.Served {
			continue
		}
		// Only maps and pointers' targets are stored back: each step is a copy.
		if err := into(v.Schema.OpenAPIV3Schema, kind.Spec, func(spec *apiextensionsv1.JSONSchemaProps) error {
			for _, f := range kind.Fields {
				if _, has := spec.Properties[f.Name]; has {
					return fmt.Errorf("spec.%s is a field of %s by now: it is not misplaced", f.Name, v.Name)
				}
				if !reaches(spec, f.Meant) {
					return fmt.Errorf("spec.%s is no field of %s", strings.Join(f.Meant, "."), v.Name)
				}
				spec.Properties[f.Name] = apiextensionsv1.JSONSchemaProps{
					XPreserveUnknownFields: ptr.To(true),
					Description: fmt.Sprintf("Not a field of %s, and without effect: %s is meant. It is admitted so that a warning and a condition can say so.",
						kind.Kind, strings.Join(slices.Concat(kind.Spec, f.Meant), ".")),
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// into changes the schema below a path.
func into(s *apiextensionsv1.JSONSchemaProps, path []string, change func(*apiextensionsv1.JSONSchemaProps) error) error {
	if len(path) == 0 {
		return change(s)
	}
	below, ok := s.Properties[path[0]]
	if !ok {
		return fmt.Errorf("the schema has no %s", path[0])
	}
	if err := into(&below, path[1:], change); err != nil {
		return err
	}
	s.Properties[path[0]] = below
	return nil
}

// reaches tells whether a schema has a path.
func reaches(s *apiextensionsv1.JSONSchemaProps, path []string) bool {
	if len(path) == 0 {
		return true
	}
	below, ok := s.Properties[path[0]]
	return ok && reaches(&below, path[1:])
}

// inventory has clusterctl's Providers admitted in a second form, with what
// upstream's has at the top in a spec, and with a reference to credentials; and
// gives them a status. clusterctl reads neither and, since it writes by merge
// patches of its own fields, removes neither.
func inventory(crd *apiextensionsv1.CustomResourceDefinition) error {
	crd.Labels = merged(crd.Labels, map[string]string{labelCore: "inventory"})
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != "v1alpha3" {
		return errors.New("want v1alpha3 alone")
	}
	v := &crd.Spec.Versions[0]
	top := v.Schema.OpenAPIV3Schema.Properties
	for _, name := range []string{"spec", "status"} {
		if _, has := top[name]; has {
			return fmt.Errorf("upstream has a field %s by now", name)
		}
	}
	text := func(description string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", Description: description}
	}
	top["spec"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", Description: "The provider to be served. Holdfast writes it to the fields beside spec too, where clusterctl reads it.",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"providerName": text("Name of the provider, such as aws; without it, that of the object without infrastructure- or the like."),
			"type":         text("CoreProvider, BootstrapProvider, ControlPlaneProvider or InfrastructureProvider."),
			"version":      text("Version of the provider that the objects are written for, such as v2.13.0."),
			"configSecret": {
				Type: "object", Description: "Secret with the provider's credentials, in the Provider's own namespace.", Required: []string{"name"},
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"name":      {Type: "string", MinLength: ptr.To[int64](1)},
					"namespace": text("The Provider's own namespace, or nothing."),
				},
			},
		},
	}
	top["status"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", Description: "What Holdfast makes of it.",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"conditions": conditions()},
	}
	v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	v.AdditionalPrinterColumns = append(
		v.AdditionalPrinterColumns,
		apiextensionsv1.CustomResourceColumnDefinition{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "Reason", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].reason`},
	)
	return nil
}

// conditions is the schema of metav1.Condition's lists.
func conditions() apiextensionsv1.JSONSchemaProps {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	return apiextensionsv1.JSONSchemaProps{
		Type: "array", XListType: ptr.To("map"), XListMapKeys: []string{"type"},
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Required: []string{"type", "status", "reason", "lastTransitionTime"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"type": text, "status": text, "reason": text, "message": text,
				"lastTransitionTime": {Type: "string", Format: "date-time"},
				"observedGeneration": {Type: "integer", Format: "int64"},
			},
		}},
	}
}
