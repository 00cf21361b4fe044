package core

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// wiring is what the parts share while they are set up.
type wiring struct {
	*Options
	mgr      ctrl.Manager
	secrets  client.Client
	clusters clustercache.ClusterCache
	// names are Secrets' metadata, of all Secrets: ClusterResourceSets may name
	// any. The manager's own cache has those of clusters only.
	names cache.Cache
}

// reconciler is what most of upstream's have in common.
type reconciler interface {
	SetupWithManager(context.Context, ctrl.Manager, controller.Options) error
}

// wired is a reconciler with the number of its workers.
type wired struct {
	reconciler
	options controller.Options
}

// SetUp adds reconcilers, webhooks, conversions and the checks of the webhook
// server to a manager that [Options.ManagerOptions] was asked about. It starts
// nothing. The cluster cache that it gives is the one that the reconcilers use.
func (o *Options) SetUp(ctx context.Context, mgr ctrl.Manager) (clustercache.ClusterCache, error) {
	w := &wiring{Options: o, mgr: mgr}
	if err := w.share(ctx); err != nil {
		return nil, err
	}
	all := []wired{w.migrator()}
	if o.Has(Core) {
		if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
			return nil, fmt.Errorf("set up indexes: %w", err)
		}
		more, err := w.core()
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if o.Has(Kubeadm) {
		all = append(all, w.kubeadm()...)
	}
	for _, r := range all {
		if err := r.SetupWithManager(ctx, mgr, r.options); err != nil {
			return nil, fmt.Errorf("set up %T: %w", r.reconciler, err)
		}
	}
	if err := w.webhooks(); err != nil {
		return nil, err
	}
	if !o.Takeover {
		if err := mgr.Add(&guard{reader: mgr.GetAPIReader(), parts: o.Parts, now: o.Now, every: guardPeriod}); err != nil {
			return nil, err
		}
	}
	return w.clusters, nil
}

// share makes what the parts have in common.
func (w *wiring) share(ctx context.Context) (err error) {
	if w.secrets, err = setup.CreateSecretCachingClient(w.mgr); err != nil {
		return fmt.Errorf("set up a client for Secrets: %w", err)
	}
	w.clusters, err = clustercache.SetupWithManager(ctx, w.mgr, clustercache.Options{
		SecretClient: w.secrets,
		Cache:        setup.ClusterCacheCacheOptions(),
		Client:       setup.ClusterCacheClientOptions(w.Agent, w.WorkloadQPS, w.WorkloadBurst),

		WatchFilterValue: w.WatchFilter,
	}, w.controller(clusterCache))
	if err != nil {
		return fmt.Errorf("set up the cluster cache: %w", err)
	}
	return nil
}

// ControllerOptions gives what a controller of the infrastructure runs with, as
// the others do: its number of workers and its back-off.
func (o *Options) ControllerOptions(name string, log logr.Logger) controller.Options {
	return controller.Options{MaxConcurrentReconciles: o.workersOf(name), NewQueue: o.Backoff.queue(log), ReconciliationTimeout: cloudTime}
}

// cloudTime is how long one look at an object may take: a cloud that has stopped
// answering is not to hold workers for ever.
const cloudTime = 5 * time.Minute

// controller gives a controller's options.
func (w *wiring) controller(name string) controller.Options { return w.fixed(w.workersOf(name)) }

// fixed gives the options of a controller whose number of workers is upstream's.
func (w *wiring) fixed(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, NewQueue: w.Backoff.queue(w.mgr.GetLogger())}
}

// secretNames adds a cache of all Secrets' metadata to the manager.
func (w *wiring) secretNames() error {
	options := cache.Options{
		Scheme: w.mgr.GetScheme(), Mapper: w.mgr.GetRESTMapper(), HTTPClient: w.mgr.GetHTTPClient(), SyncPeriod: &w.SyncPeriod,
		DefaultTransform: onlyNames,
	}
	if w.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{w.Namespace: {}}
	}
	var err error
	if w.names, err = cache.New(w.mgr.GetConfig(), options); err != nil {
		return fmt.Errorf("set up a cache of Secrets' names: %w", err)
	}
	return w.mgr.Add(w.names)
}

// onlyNames refuses whatever would have data: a mistake here would keep every
// Secret of the management cluster in memory.
func onlyNames(in any) (any, error) {
	o, ok := in.(*metav1.PartialObjectMetadata)
	if !ok || o.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") {
		return nil, fmt.Errorf("cache of Secrets' names: it was asked for %T", in)
	}
	o.SetManagedFields(nil)
	return o, nil
}
