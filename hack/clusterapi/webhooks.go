package clusterapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/holdfast-io/holdfast/reconcilers/infra/misplaced"
)

// Webhooks are configurations of admission.
type Webhooks struct {
	Mutating   []*admissionv1.MutatingWebhookConfiguration
	Validating []*admissionv1.ValidatingWebhookConfiguration
}

// AdmissionWebhooks reads upstream's, of core and of the kubeadm providers, whose
// paths managed mode serves, and adds Holdfast's. A nil service leaves the paths
// alone, for callers that know another way to them.
func AdmissionWebhooks(s *Service) (*Webhooks, error) {
	dir, err := ModuleDir(moduleCore)
	if err != nil {
		return nil, err
	}
	out := &Webhooks{}
	for _, part := range []struct{ name, folder string }{
		{"core", "core"}, {"bootstrap", "bootstrap/kubeadm"}, {"control-plane", "controlplane/kubeadm"},
	} {
		file := filepath.Join(dir, part.folder, "config/webhook/manifests.yaml")
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := out.decode("holdfast-"+part.name, data); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	own := misplaced.Configuration()
	path := misplaced.Path
	own.ClientConfig = admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "system", Name: "webhook-service", Path: &path}}
	out.Validating = append(out.Validating, &admissionv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "holdfast-misplaced"}, Webhooks: []admissionv1.ValidatingWebhook{own},
	})
	if s != nil {
		out.point(s)
	}
	return out, nil
}

// decode takes in one program's. All of upstream's have the same names, which
// kustomize would prefix.
func (w *Webhooks) decode(prefix string, data []byte) error {
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
	for {
		// The two kinds differ in nothing that is read before the kind is known.
		mutating := &admissionv1.MutatingWebhookConfiguration{}
		if err := docs.Decode(mutating); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		mutating.Name = prefix + "-" + mutating.Name
		if mutating.Kind == "MutatingWebhookConfiguration" {
			w.Mutating = append(w.Mutating, mutating)
			continue
		}
		validating := &admissionv1.ValidatingWebhookConfiguration{TypeMeta: mutating.TypeMeta, ObjectMeta: mutating.ObjectMeta}
		for _, h := range mutating.Webhooks {
			validating.Webhooks = append(validating.Webhooks, admissionv1.ValidatingWebhook{
				Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
				SideEffects: h.SideEffects, AdmissionReviewVersions: h.AdmissionReviewVersions,
			})
		}
		w.Validating = append(w.Validating, validating)
	}
}

// point has all of them ask a service.
func (w *Webhooks) point(s *Service) {
	to := func(c *admissionv1.WebhookClientConfig) {
		way := s.client(*c.Service.Path)
		c.Service = &admissionv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: way.Service.Path, Port: way.Service.Port}
		c.CABundle = way.CABundle
	}
	for _, c := range w.Mutating {
		s.annotate(&c.ObjectMeta)
		for i := range c.Webhooks {
			to(&c.Webhooks[i].ClientConfig)
		}
	}
	for _, c := range w.Validating {
		s.annotate(&c.ObjectMeta)
		for i := range c.Webhooks {
			to(&c.Webhooks[i].ClientConfig)
		}
	}
}

// annotate has cert-manager put its authority in, if it is to.
func (s *Service) annotate(m *metav1.ObjectMeta) {
	if s.InjectFrom != "" {
		m.Annotations = merged(m.Annotations, map[string]string{annotationInject: s.InjectFrom})
	}
}
