// Package core is the one place where upstream's own Cluster API reconcilers,
// webhooks and conversions are wired into a manager: Cluster, Machine,
// MachineSet, MachineDeployment, MachineHealthCheck, MachinePool, ClusterClass
// and topology, ClusterResourceSet, the cluster cache, the CRD migrator, and
// kubeadm's bootstrap and control plane. Their code is a dependency
// (sigs.k8s.io/cluster-api) and is not repeated here.
//
// It stands beside the other reconcilers and knows nothing of drift. Whoever
// makes a manager calls, in this order:
//
//	core.AddToScheme(scheme)          // every kind, in each version
//	o.ManagerOptions(&managerOptions) // before the manager is made
//	o.Check(ctx, manager)             // kinds are served, nobody else does this
//	o.SetUp(ctx, manager)             // before the manager is started
//
// Upstream ships three programs, each with a manager, a cache and transforms of
// its own. Here one manager serves all parts, so that its cache keeps what any of
// them needs (docs/adr/0012-managed-mode-is-one-manager.md).
//
// Upstream promises little of the packages that are used here: go.mod pins them
// to the patch, and nothing outside this package may depend on how they are
// wired.
package core
