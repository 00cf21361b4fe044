package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/cluster-api/version"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// migrated are the kinds of a part that are kept in the newest version by the CRD
// migrator, with whether by way of their status. They are the kinds that a part
// reconciles, which have to be served.
func migrated(part Part) map[client.Object]crdmigrator.ByObjectConfig {
	whole, byStatus := crdmigrator.ByObjectConfig{}, crdmigrator.ByObjectConfig{UseStatusForStorageVersionMigration: true}
	if part == Kubeadm {
		return map[client.Object]crdmigrator.ByObjectConfig{
			&bootstrapv1.KubeadmConfig{}:                  byStatus,
			&bootstrapv1.KubeadmConfigTemplate{}:          whole,
			&controlplanev1.KubeadmControlPlane{}:         byStatus,
			&controlplanev1.KubeadmControlPlaneTemplate{}: whole,
		}
	}
	if part != Core {
		return nil // CAPA and CAPV migrate nothing
	}
	out := map[client.Object]crdmigrator.ByObjectConfig{
		&addonsv1.ClusterResourceSetBinding{}: whole,
		&addonsv1.ClusterResourceSet{}:        byStatus,
		&clusterv1.Cluster{}:                  byStatus,
		&clusterv1.MachineDeployment{}:        byStatus,
		&clusterv1.MachineDrainRule{}:         whole,
		&clusterv1.MachineHealthCheck{}:       byStatus,
		&clusterv1.Machine{}:                  byStatus,
		&clusterv1.MachineSet{}:               byStatus,
		&ipamv1.IPAddress{}:                   whole,
		&ipamv1.IPAddressClaim{}:              byStatus,
	}
	if feature.Gates.Enabled(feature.ClusterTopology) {
		out[&clusterv1.ClusterClass{}] = byStatus
	}
	if feature.Gates.Enabled(feature.MachinePool) {
		out[&clusterv1.MachinePool{}] = byStatus
	}
	return out
}

// definitions are the CRDs of a part, whose kinds its webhooks convert. Those of
// upstream's parts are what its migrator writes too: +kubebuilder:rbac of its main.go
// names the same.
var definitions = map[Part][]string{
	Core: {
		"clusterclasses.cluster.x-k8s.io", "clusterresourcesetbindings.addons.cluster.x-k8s.io", "clusterresourcesets.addons.cluster.x-k8s.io",
		"clusters.cluster.x-k8s.io", "extensionconfigs.runtime.cluster.x-k8s.io", "ipaddressclaims.ipam.cluster.x-k8s.io",
		"ipaddresses.ipam.cluster.x-k8s.io", "machinedeployments.cluster.x-k8s.io", "machinedrainrules.cluster.x-k8s.io",
		"machinehealthchecks.cluster.x-k8s.io", "machinepools.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machinesets.cluster.x-k8s.io",
	},
	Kubeadm: {
		"kubeadmconfigs.bootstrap.cluster.x-k8s.io", "kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io",
		"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io",
	},
	AWS: {
		"awsclustercontrolleridentities.infrastructure.cluster.x-k8s.io", "awsclusterroleidentities.infrastructure.cluster.x-k8s.io",
		"awsclusters.infrastructure.cluster.x-k8s.io", "awsclusterstaticidentities.infrastructure.cluster.x-k8s.io",
		"awsclustertemplates.infrastructure.cluster.x-k8s.io", "awsmachines.infrastructure.cluster.x-k8s.io",
		"awsmachinetemplates.infrastructure.cluster.x-k8s.io",
	},
	VSphere: {
		"vsphereclusteridentities.infrastructure.cluster.x-k8s.io", "vsphereclusters.infrastructure.cluster.x-k8s.io",
		"vsphereclustertemplates.infrastructure.cluster.x-k8s.io", "vspheredeploymentzones.infrastructure.cluster.x-k8s.io",
		"vspherefailuredomains.infrastructure.cluster.x-k8s.io", "vspheremachines.infrastructure.cluster.x-k8s.io",
		"vspheremachinetemplates.infrastructure.cluster.x-k8s.io", "vspherevms.infrastructure.cluster.x-k8s.io",
	},
}

// Definitions names the CRDs of parts' kinds, which are converted by them.
func Definitions(parts ...Part) []string {
	var out []string
	for _, part := range parts {
		out = append(out, definitions[part]...)
	}
	slices.Sort(out)
	return out
}

// migrator is one for all parts: two would have one name.
func (w *wiring) migrator() wired {
	config := map[client.Object]crdmigrator.ByObjectConfig{}
	for _, part := range w.Parts {
		for kind, how := range migrated(part) {
			config[kind] = how
		}
	}
	// One worker, as upstream: it patches all objects of a kind.
	return wired{&crdmigrator.CRDMigrator{Client: w.mgr.GetClient(), APIReader: w.mgr.GetAPIReader(), Config: config}, w.fixed(1)}
}

// kindPatience is how long to wait for kinds to be served: whoever installs
// everything at once has them a moment later.
const kindPatience = 15 * time.Second

// Check tells why the reconcilers must not run in a management cluster: its
// Kubernetes is too old, it does not serve their kinds, or upstream's own
// programs look after them already. It waits a little for kinds.
func (o *Options) Check(ctx context.Context, mgr ctrl.Manager) error {
	least := version.MinimumKubernetesVersion
	if feature.Gates.Enabled(feature.ClusterTopology) {
		least = version.MinimumKubernetesVersionClusterTopology
	}
	if err := version.CheckKubernetesVersion(mgr.GetConfig(), least); err != nil {
		return fmt.Errorf("upstream's reconcilers: %w", err)
	}
	if err := o.needKinds(ctx, mgr); err != nil {
		return err
	}
	if o.Takeover {
		return nil
	}
	return refuse(ctx, mgr.GetAPIReader(), o.Parts, o.Now())
}

func (o *Options) needKinds(ctx context.Context, mgr ctrl.Manager) error {
	var wanted []schema.GroupVersionKind
	for _, part := range o.Parts {
		for kind := range migrated(part) {
			gvk, err := mgr.GetClient().GroupVersionKindFor(kind)
			if err != nil {
				return err
			}
			wanted = append(wanted, gvk)
		}
	}
	var missing []string
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, kindPatience, true, func(context.Context) (bool, error) {
		missing = nil
		for _, gvk := range wanted {
			switch _, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); {
			case meta.IsNoMatchError(err):
				missing = append(missing, contract.CalculateCRDName(gvk.Group, gvk.Kind)+" "+gvk.Version)
			case err != nil:
				return false, fmt.Errorf("look up %s: %w", gvk, err)
			}
		}
		return len(missing) == 0, nil
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("the API server does not serve %s: apply the CRDs of Cluster API %s first (docs/managed.md)", strings.Join(missing, ", "), supported)
	}
	return err
}

// supported is the version of Cluster API whose code this is.
const supported = "v1.14"
