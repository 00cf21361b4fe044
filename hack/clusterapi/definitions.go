package clusterapi

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/holdfast-io/holdfast/reconcilers/infra/versions"
)

// Labels that clusterctl and Cluster API look for.
const (
	// labelClusterctl is on all that clusterctl manages: by it `clusterctl move`
	// finds the kinds that there are.
	labelClusterctl = "clusterctl.cluster.x-k8s.io"
	// labelCore marks the CRD of the inventory as clusterctl's own.
	labelCore = "clusterctl.cluster.x-k8s.io/core"
	// labelProvider says which provider a thing belongs to.
	labelProvider = "cluster.x-k8s.io/provider"
)

// annotationInject has cert-manager's injector write the authority's certificate
// into a clientConfig.
const annotationInject = "cert-manager.io/inject-ca-from"

// Service is where the API server asks for conversion and admission.
type Service struct {
	Namespace, Name string
	Port            int32
	// CABundle is the authority, as PEM, that has signed the certificate there;
	// empty if somebody else puts it in.
	CABundle []byte
	// InjectFrom is NAMESPACE/NAME of the cert-manager Certificate whose authority
	// cert-manager puts in; empty is none.
	InjectFrom string
}

// client gives the API server's way to a path of the service.
func (s *Service) client(path string) *apiextensionsv1.WebhookClientConfig {
	return &apiextensionsv1.WebhookClientConfig{
		Service:  &apiextensionsv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: &path, Port: ptr.To(s.Port)},
		CABundle: s.CABundle,
	}
}

// Options say what CRDs are for.
type Options struct {
	// Service converts; nil is nobody, as befits an API server that is asked for
	// stored versions only.
	Service *Service
	// All gives the kinds too that Holdfast does not serve, as upstream's
	// installations have them.
	All bool
}

// CRDs reads the definitions of the versions that go.mod names, ready to be
// applied. They are the caller's to change.
func CRDs(o Options) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	scheme := runtime.NewScheme()
	if err := versions.AddToScheme(scheme); err != nil {
		return nil, err
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, s := range sources {
		found, err := s.read()
		if err != nil {
			return nil, fmt.Errorf("CRDs of %s: %w", s.module, err)
		}
		if err := s.complete(found); err != nil {
			return nil, fmt.Errorf("CRDs of %s: %w", s.module, err)
		}
		for _, crd := range found {
			if !o.All && s.serves != nil && !slices.Contains(s.serves, crd.Spec.Names.Kind) {
				continue
			}
			converted, err := s.converted(scheme, crd)
			if err != nil {
				return nil, fmt.Errorf("conversion of %s: %w", crd.Name, err)
			}
			o.convert(crd, converted)
			if err := add(crd); err != nil {
				return nil, fmt.Errorf("%s: %w", crd.Name, err)
			}
			out = append(out, crd)
		}
	}
	return out, nil
}

// complete tells of kinds that are to be served and that upstream has no more.
func (s source) complete(found []*apiextensionsv1.CustomResourceDefinition) error {
	for _, kind := range s.serves {
		if !slices.ContainsFunc(found, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Spec.Names.Kind == kind }) {
			return fmt.Errorf("there is none of %s", kind)
		}
	}
	return nil
}

// converted tells whether Holdfast converts a kind: as upstream does, or, of types
// that do it by themselves, if they can.
func (s source) converted(scheme *runtime.Scheme, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	if len(crd.Spec.Versions) < 2 {
		return false, nil
	}
	if !s.converts {
		return crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter, nil
	}
	for _, v := range crd.Spec.Versions {
		gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
		if !scheme.Recognizes(gvk) {
			return false, nil
		}
		o, err := scheme.New(gvk)
		if err != nil {
			return false, err
		}
		if ok, err := conversion.IsConvertible(scheme, o); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// convert says who converts, and serves the stored version alone of what nobody
// converts: the API server would give out one version's fields as another's.
func (o Options) convert(crd *apiextensionsv1.CustomResourceDefinition, converted bool) {
	crd.Spec.Conversion = nil
	if o.Service == nil {
		return
	}
	if !converted {
		for i := range crd.Spec.Versions {
			v := &crd.Spec.Versions[i]
			v.Served = v.Served && v.Storage
		}
		return
	}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: o.Service.client("/convert"), ConversionReviewVersions: []string{"v1"}},
	}
	o.Service.annotate(&crd.ObjectMeta)
}
