package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	bootstrapadmission "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"
	controlplaneadmission "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	controlplaneconversion "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/util/contract"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hook is what upstream's webhooks have in common.
type hook interface{ SetupWebhookWithManager(ctrl.Manager) error }

// webhooks serves upstream's admission and, under /convert, the conversion of
// each kind that has one, on leaders and standbys alike. The manager is ready and
// healthy while they are served.
func (w *wiring) webhooks() error {
	get := func(ctx context.Context, kind schema.GroupKind) (string, error) {
		return contractVersion(ctx, w.mgr.GetClient(), w.mgr.GetAPIReader(), kind)
	}
	coreconversion.SetAPIVersionGetter(get)
	controlplaneconversion.SetAPIVersionGetter(get)
	c := w.mgr.GetClient()
	var hooks []hook
	if w.Has(Core) {
		// Those of kinds behind a gate refuse such objects while it is off.
		hooks = append(
			hooks,
			&coreadmission.ClusterClass{Client: c},
			&coreadmission.Cluster{Client: c, ClusterCacheReader: w.clusters},
			&coreadmission.Machine{},
			&coreadmission.MachineSet{},
			&coreadmission.MachineDeployment{},
			&coreadmission.MachineDrainRule{},
			&coreadmission.MachinePool{},
			&coreadmission.MachineHealthCheck{},
			&coreadmission.ClusterResourceSet{},
			&coreadmission.ClusterResourceSetBinding{},
			&coreadmission.ExtensionConfig{},
			// It reads one claim for one address: not worth a cache of all.
			&coreadmission.IPAddress{Client: w.mgr.GetAPIReader()},
			&coreadmission.IPAddressClaim{},
		)
	}
	if w.Has(Kubeadm) {
		hooks = append(
			hooks,
			&bootstrapadmission.KubeadmConfig{},
			&bootstrapadmission.KubeadmConfigTemplate{},
			&controlplaneadmission.KubeadmControlPlane{},
			&controlplaneadmission.ScaleValidator{Client: c},
			&controlplaneadmission.KubeadmControlPlaneTemplate{},
		)
	}
	for _, h := range hooks {
		if err := h.SetupWebhookWithManager(w.mgr); err != nil {
			return fmt.Errorf("set up webhook %T: %w", h, err)
		}
	}
	started := w.mgr.GetWebhookServer().StartedChecker()
	return errors.Join(w.mgr.AddReadyzCheck("webhook", started), w.mgr.AddHealthzCheck("webhook", started))
}

// contractVersion gives the apiVersion of a kind that fulfils the newest contract
// that it fulfils at all, by the labels on its CRD
// (docs/book/src/developer/providers/contracts/overview.md, "API version
// labels"): upstream's own function for it is internal. The cache has those
// labels; before it is filled, when the API server may ask for conversions so that
// it can be, they are read live.
func contractVersion(ctx context.Context, cached, live client.Reader, kind schema.GroupKind) (string, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	key := client.ObjectKey{Name: contract.CalculateCRDName(kind.Group, kind.Kind)}
	err := cached.Get(ctx, key, crd)
	if early := (*cache.ErrCacheNotStarted)(nil); errors.As(err, &early) {
		err = live.Get(ctx, key, crd)
	}
	if err != nil {
		return "", fmt.Errorf("find the version of %s: %w", kind, err)
	}
	for _, label := range []string{"cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"} {
		if versions := crd.Labels[label]; versions != "" {
			newest := slices.MaxFunc(strings.Split(versions, "_"), version.CompareKubeAwareVersionStrings)
			return kind.Group + "/" + newest, nil
		}
	}
	return "", fmt.Errorf("find the version of %s: CRD %s has no contract label (cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1)", kind, key.Name)
}
