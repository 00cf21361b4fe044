package core

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/reconcilers/kubeadmconfig"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/reconcilers/kubeadmcontrolplane"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourceset"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourcesetbinding"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinepool"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	topologymachinedeployment "sigs.k8s.io/cluster-api/core/reconcilers/topology/machinedeployment"
	topologymachineset "sigs.k8s.io/cluster-api/core/reconcilers/topology/machineset"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

const (
	// topologyWorkers is upstream's number, which has no flag there either.
	topologyWorkers = 25
	// controlPlaneTime is for asking every member of etcd, each of which may be
	// silent.
	controlPlaneTime = 3 * time.Minute
)

// core are the reconcilers of upstream's core program.
func (w *wiring) core() ([]wired, error) {
	if err := w.secretNames(); err != nil {
		return nil, err
	}
	c, live, filter := w.mgr.GetClient(), w.mgr.GetAPIReader(), w.WatchFilter
	out := []wired{
		{&cluster.Reconciler{
			Client: c, APIReader: live, ClusterCache: w.clusters, WatchFilterValue: filter, RemoteConnectionGracePeriod: connectionGrace,
		}, w.controller("cluster")},
		{&machine.Reconciler{
			Client: c, APIReader: live, ClusterCache: w.clusters, WatchFilterValue: filter, RemoteConditionsGracePeriod: conditionsGrace,
		}, w.controller("machine")},
		{&machineset.Reconciler{
			Client: c, APIReader: live, ClusterCache: w.clusters, WatchFilterValue: filter,
			PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckAll),
		}, w.controller("machineset")},
		{&machinedeployment.Reconciler{Client: c, APIReader: live, WatchFilterValue: filter}, w.controller("machinedeployment")},
		{&machinehealthcheck.Reconciler{Client: c, ClusterCache: w.clusters, WatchFilterValue: filter}, w.controller("machinehealthcheck")},
		{resourceSets{&clusterresourceset.Reconciler{Client: c, ClusterCache: w.clusters, WatchFilterValue: filter}, w.names}, w.controller("clusterresourceset")},
		{&clusterresourcesetbinding.Reconciler{Client: c, WatchFilterValue: filter}, w.controller("clusterresourceset")},
	}
	if feature.Gates.Enabled(feature.MachinePool) {
		out = append(out, wired{&machinepool.Reconciler{Client: c, APIReader: live, ClusterCache: w.clusters, WatchFilterValue: filter}, w.controller("machinepool")})
	}
	if feature.Gates.Enabled(feature.ClusterTopology) {
		out = append(
			out,
			wired{&clusterclass.Reconciler{Client: c, WatchFilterValue: filter}, w.controller("clusterclass")},
			wired{&topologycluster.Reconciler{Client: c, APIReader: live, ClusterCache: w.clusters, WatchFilterValue: filter}, w.controller("clustertopology")},
			wired{&topologymachinedeployment.Reconciler{Client: c, APIReader: live, WatchFilterValue: filter}, w.fixed(topologyWorkers)},
			wired{&topologymachineset.Reconciler{Client: c, APIReader: live, WatchFilterValue: filter}, w.fixed(topologyWorkers)},
		)
	}
	return out, nil
}

// resourceSets is a reconciler that wants one thing more than others.
type resourceSets struct {
	*clusterresourceset.Reconciler
	names cache.Cache
}

// SetupWithManager implements [reconciler].
func (r resourceSets) SetupWithManager(ctx context.Context, mgr ctrl.Manager, o controller.Options) error {
	return r.Reconciler.SetupWithManager(ctx, mgr, o, r.names)
}

// kubeadm are the reconcilers of upstream's kubeadm programs.
func (w *wiring) kubeadm() []wired {
	c, live := w.mgr.GetClient(), w.mgr.GetAPIReader()
	patient := w.controller("kubeadmcontrolplane")
	patient.ReconciliationTimeout = controlPlaneTime
	return []wired{
		{&kubeadmconfig.Reconciler{
			Client: c, SecretCachingClient: w.secrets, APIReader: live, ClusterCache: w.clusters, WatchFilterValue: w.WatchFilter,
			TokenTTL: kubeadmconfig.DefaultTokenTTL,
		}, w.controller("kubeadmconfig")},
		{&kubeadmcontrolplane.Reconciler{
			Client: c, APIReader: live, SecretCachingClient: w.secrets, ClusterCache: w.clusters, WatchFilterValue: w.WatchFilter,
			EtcdDialTimeout: w.EtcdDial, EtcdCallTimeout: w.EtcdCall, EtcdLogger: w.EtcdLog,
			RemoteConditionsGracePeriod: conditionsGrace,
		}, patient},
	}
}
