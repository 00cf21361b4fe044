package core

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// cacheSyncTime is how long a large management cluster may take to be listed.
const cacheSyncTime = 5 * time.Minute

// ManagerOptions puts into a manager's options what the reconcilers need of it,
// and sets the process's feature gates. The options have a scheme already that
// went through [AddToScheme]; their cache, client and webhook server are
// replaced. Once a process for each Agent.
func (o *Options) ManagerOptions(m *manager.Options) error {
	o.Fill()
	if err := o.Validate(); err != nil {
		return err
	}
	if err := feature.MutableGates.SetFromMap(o.Gates); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	m.Cache = o.cacheOptions(m.Scheme)
	m.Client = setup.ManagerClientOptions()
	m.WebhookServer = webhook.NewServer(o.Webhooks)
	priorities := feature.Gates.Enabled(feature.PriorityQueue)
	m.Controller.UsePriorityQueue = &priorities
	m.Controller.CacheSyncTimeout = cacheSyncTime
	return nil
}

// cacheOptions are those of upstream's core program, but for Secrets: core drops
// the data of all but kubeconfigs, and the kubeadm programs read certificates.
// What the kubeadm programs drop in their own caches (worker Machines' specs,
// MachineSets, workers' KubeadmConfigs) core needs, so it stays.
func (o *Options) cacheOptions(scheme *runtime.Scheme) cache.Options {
	out := setup.ManagerCacheOptions(scheme, o.Agent, o.Namespace, o.SyncPeriod)
	for kind, by := range out.ByObject {
		if _, ok := kind.(*corev1.Secret); !ok {
			continue
		}
		by.Transform = keepPurposes
		out.ByObject[kind] = by
	}
	out.NewInformer = measuredOnce(scheme, out.NewInformer)
	return out
}

type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// measuredOnce has upstream's informers, which count themselves in metrics, for
// the first of a kind only. In one cache some kinds are there twice, typed for
// one part and untyped for another, and a second one of a name is logged as an
// error.
func measuredOnce(scheme *runtime.Scheme, measured newInformer) newInformer {
	var (
		mu   sync.Mutex
		seen = map[schema.GroupVersionKind]bool{}
	)
	return func(lw toolscache.ListerWatcher, o runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		mu.Lock()
		defer mu.Unlock()
		kind, err := apiutil.GVKForObject(o, scheme)
		if err == nil && seen[kind] {
			return toolscache.NewSharedIndexInformer(lw, o, resync, indexers)
		}
		seen[kind] = true
		return measured(lw, o, resync, indexers)
	}
}

// keepPurposes drops the data of Secrets that no cluster's certificates or
// kubeconfigs are in.
func keepPurposes(in any) (any, error) {
	if s, ok := in.(*corev1.Secret); ok {
		s.SetManagedFields(nil)
		if !secret.HasPurposeSuffix(s.Name) {
			s.Data = nil
		}
	}
	return in, nil
}
