package management

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/reconcilers/kubeadmconfig"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/reconcilers/kubeadmcontrolplane"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	topologymachinedeployment "sigs.k8s.io/cluster-api/core/reconcilers/topology/machinedeployment"
	topologymachineset "sigs.k8s.io/cluster-api/core/reconcilers/topology/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// agent is the user agent of the reconcilers.
	agent = "capi-test-manager"
	// workers of each controller.
	workers = 10
	// reconnect is how long upstream's cluster cache waits after a failed
	// connection to a workload cluster. The first one always fails, since
	// there is no API server before there is a machine; its default of 30 s
	// would be half of a cluster's time to be ready.
	reconnect = 500 * time.Millisecond
	// etcdTimeout is how long KubeadmControlPlane waits for a member of etcd.
	// All are in this process; upstream's 10 s only make dead ones slow.
	etcdTimeout = 2 * time.Second
)

// reconciler is what upstream's have in common.
type reconciler interface {
	SetupWithManager(context.Context, ctrl.Manager, controller.Options) error
}

// newManager makes a manager with upstream's reconcilers and webhooks, wired as
// upstream's three programs wire them, but that one cache serves all, so that it
// drops nothing that any of them needs, and that times to wait for workload
// clusters are short.
func newManager(ctx context.Context, cfg *rest.Config, serve envtest.WebhookInstallOptions) (ctrl.Manager, error) {
	if err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.ClusterTopology): true}); err != nil {
		return nil, fmt.Errorf("enable topologies: %w", err)
	}
	skipNames := true // several managers may live in one process
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:  scheme(),
		Cache:   cacheOptions(),
		Client:  setup.ManagerClientOptions(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: serve.LocalServingHost, Port: serve.LocalServingPort, CertDir: serve.LocalServingCertDir,
		}),
		Controller: config.Controller{SkipNameValidation: &skipNames},
	})
	if err != nil {
		return nil, err
	}
	if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
		return nil, err
	}
	secrets, err := setup.CreateSecretCachingClient(mgr)
	if err != nil {
		return nil, err
	}
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: secrets,
		Cache:        setup.ClusterCacheCacheOptions(),
		Client:       setup.ClusterCacheClientOptions(agent, 500, 1000),
	}, controller.Options{MaxConcurrentReconciles: workers})
	if err != nil {
		return nil, fmt.Errorf("set up the cluster cache: %w", err)
	}
	hasten, ok := clusters.(interface{ SetConnectionCreationRetryInterval(time.Duration) })
	if !ok {
		return nil, fmt.Errorf("upstream's cluster cache %T has no retry interval to set any more", clusters)
	}
	hasten.SetConnectionCreationRetryInterval(reconnect)
	for _, r := range reconcilers(mgr, secrets, clusters) {
		if err := r.SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: workers}); err != nil {
			return nil, fmt.Errorf("set up %T: %w", r, err)
		}
	}
	if err := setUpWebhooks(mgr, clusters); err != nil {
		return nil, err
	}
	return mgr, nil
}

func reconcilers(mgr ctrl.Manager, secrets client.Client, clusters clustercache.ClusterCache) []reconciler {
	c, live := mgr.GetClient(), mgr.GetAPIReader()
	const grace = 50 * time.Second
	return []reconciler{
		&cluster.Reconciler{Client: c, APIReader: live, ClusterCache: clusters, RemoteConnectionGracePeriod: grace},
		&machine.Reconciler{Client: c, APIReader: live, ClusterCache: clusters, RemoteConditionsGracePeriod: 5 * time.Minute},
		&machineset.Reconciler{
			Client: c, APIReader: live, ClusterCache: clusters,
			PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckAll),
		},
		&machinedeployment.Reconciler{Client: c, APIReader: live},
		&machinehealthcheck.Reconciler{Client: c, ClusterCache: clusters},
		&clusterclass.Reconciler{Client: c},
		&topologycluster.Reconciler{Client: c, APIReader: live, ClusterCache: clusters},
		&topologymachinedeployment.Reconciler{Client: c, APIReader: live},
		&topologymachineset.Reconciler{Client: c, APIReader: live},
		&kubeadmconfig.Reconciler{
			Client: c, SecretCachingClient: secrets, APIReader: live, ClusterCache: clusters, TokenTTL: 15 * time.Minute,
		},
		&kubeadmcontrolplane.Reconciler{
			Client: c, APIReader: live, SecretCachingClient: secrets, ClusterCache: clusters,
			EtcdDialTimeout: etcdTimeout, EtcdCallTimeout: etcdTimeout, EtcdLogger: zap.NewNop(),
			RemoteConditionsGracePeriod: 5 * time.Minute,
		},
	}
}

var planes atomic.Int32

// cacheOptions are those of upstream's core program, but for Secrets: core
// drops the data of all but kubeconfigs, and the bootstrap and control-plane
// programs read certificates.
func cacheOptions() cache.Options {
	// Upstream gives a name away once in a process; a test may start a second
	// plane.
	name := fmt.Sprintf("%s-%d", agent, planes.Add(1))
	o := setup.ManagerCacheOptions(scheme(), name, "", 10*time.Minute)
	for kind, by := range o.ByObject {
		if _, ok := kind.(*corev1.Secret); !ok {
			continue
		}
		by.Transform = func(in any) (any, error) {
			if s, ok := in.(*corev1.Secret); ok {
				s.SetManagedFields(nil)
				if !secret.HasPurposeSuffix(s.Name) {
					s.Data = nil
				}
			}
			return in, nil
		}
		o.ByObject[kind] = by
	}
	return o
}
