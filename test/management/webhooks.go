package management

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-io/holdfast/test/controlplane"
)

// webhookConfigurations reads upstream's.
func webhookConfigurations() (out envtest.WebhookInstallOptions, err error) {
	dir, err := controlplane.ModuleDir("sigs.k8s.io/cluster-api")
	if err != nil {
		return out, err
	}
	for part, folder := range map[string]string{
		"core": "core", "bootstrap": "bootstrap/kubeadm", "control-plane": "controlplane/kubeadm",
	} {
		file := filepath.Join(dir, folder, "config/webhook/manifests.yaml")
		data, err := os.ReadFile(file)
		if err != nil {
			return out, err
		}
		if err := addConfigurations(&out, part, data); err != nil {
			return out, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

// addConfigurations takes in one program's. All have the same names, which
// kustomize would prefix.
func addConfigurations(out *envtest.WebhookInstallOptions, part string, data []byte) error {
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
	for {
		// The two kinds differ in nothing that is read before the kind is known.
		mutating := &admissionv1.MutatingWebhookConfiguration{}
		if err := docs.Decode(mutating); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		mutating.Name = part + "-" + mutating.Name
		if mutating.Kind == "MutatingWebhookConfiguration" {
			out.MutatingWebhooks = append(out.MutatingWebhooks, mutating)
			continue
		}
		validating := &admissionv1.ValidatingWebhookConfiguration{TypeMeta: mutating.TypeMeta, ObjectMeta: mutating.ObjectMeta}
		for _, w := range mutating.Webhooks {
			validating.Webhooks = append(validating.Webhooks, admissionv1.ValidatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
				SideEffects: w.SideEffects, AdmissionReviewVersions: w.AdmissionReviewVersions,
			})
		}
		out.ValidatingWebhooks = append(out.ValidatingWebhooks, validating)
	}
}
