package management

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	bootstrapadmission "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	controlplaneadmission "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	controlplaneconversion "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/util/contract"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-io/holdfast/test/controlplane"
)

// unserved are the kinds whose webhooks are left out with their controllers:
// nothing here makes such objects.
var unserved = []string{"clusterresourcesets", "clusterresourcesetbindings", "extensionconfigs", "ipaddresses", "ipaddressclaims"}

// setUpWebhooks serves upstream's admission and, on the same server, the
// conversion of each kind that has one, CAPV's too.
func setUpWebhooks(mgr ctrl.Manager, clusters clustercache.ClusterCache) error {
	version := func(ctx context.Context, kind schema.GroupKind) (string, error) {
		return contractVersion(ctx, mgr.GetAPIReader(), kind)
	}
	coreconversion.SetAPIVersionGetter(version)
	controlplaneconversion.SetAPIVersionGetter(version)
	c := mgr.GetClient()
	for _, w := range []interface{ SetupWebhookWithManager(ctrl.Manager) error }{
		&coreadmission.ClusterClass{Client: c},
		&coreadmission.Cluster{Client: c, ClusterCacheReader: clusters},
		&coreadmission.Machine{},
		&coreadmission.MachineSet{},
		&coreadmission.MachineDeployment{},
		&coreadmission.MachineDrainRule{},
		&coreadmission.MachinePool{},
		&coreadmission.MachineHealthCheck{},
		&bootstrapadmission.KubeadmConfig{},
		&bootstrapadmission.KubeadmConfigTemplate{},
		&controlplaneadmission.KubeadmControlPlane{},
		&controlplaneadmission.ScaleValidator{Client: c},
		&controlplaneadmission.KubeadmControlPlaneTemplate{},
	} {
		if err := w.SetupWebhookWithManager(mgr); err != nil {
			return fmt.Errorf("set up webhook %T: %w", w, err)
		}
	}
	return nil
}

// contractVersion gives the apiVersion of a kind that fulfils the newest
// contract that it fulfils at all, by the labels on its CRD: upstream's own
// function for it is internal.
func contractVersion(ctx context.Context, r client.Reader, kind schema.GroupKind) (string, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	name := contract.CalculateCRDName(kind.Group, kind.Kind)
	if err := r.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return "", fmt.Errorf("find the version of %s: %w", kind, err)
	}
	for _, label := range []string{"cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"} {
		if versions := crd.Labels[label]; versions != "" {
			return kind.Group + "/" + versions[strings.LastIndex(versions, "_")+1:], nil
		}
	}
	return "", fmt.Errorf("find the version of %s: CRD %s has no contract label", kind, name)
}

// webhookConfigurations reads upstream's, for the webhooks that are served.
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
		mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool { return left(w.Rules) })
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

func left(rules []admissionv1.RuleWithOperations) bool {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			if slices.Contains(unserved, resource) {
				return true
			}
		}
	}
	return false
}
