// Package management is the ground that acceptance tests of the daemon stand
// on: a management cluster with a real kube-apiserver, etcd, garbage collector,
// and upstream's own Cluster API reconcilers and webhooks, whose workload
// clusters have instances in simulated clouds and Nodes in upstream's in-memory
// API servers.
//
//	func TestMain(m *testing.M) { os.Exit(management.Main(m)) }
//
//	func TestTerminatedInstanceIsReplaced(t *testing.T) {
//		g := management.Start(t)
//		c := g.AWSCluster(management.AWS{Workers: 3, ControlPlanes: 3})
//		c.WaitReady()
//		// Start the daemon: in this process with g.Config and g.Setenv, or as
//		// a program with g.Environ.
//		c.Terminate(c.Workers()[0])
//		...
//	}
//
// # What is real
//
// kube-apiserver, etcd, kubectl, the garbage collector and the namespace
// controller are Kubernetes' own (hack/kubebox). Cluster, Machine, MachineSet,
// MachineDeployment, MachineHealthCheck, ClusterClass, topology,
// KubeadmConfig and KubeadmControlPlane are reconciled by upstream's code with
// its rate limits, admitted by its webhooks and converted by its conversions,
// all in the test's process, wired by reconcilers/core as in managed mode. With
// [Bare] they are left to a program under test.
//
// # What is played
//
//   - The clouds: test/ec2sim and govmomi's vcsim.
//   - CAPA and CAPV, by [awsProvider] and [vsphereProvider]: just enough of
//     the infrastructure contract. They make and delete instances as the real
//     ones do, and never look at them again: they repair no drift. See there.
//   - What runs on an instance, by [fleet]: a kubelet that registers a Node when
//     the instance runs and falls silent when it does not; and on a control
//     plane's machine the static pods, API server and etcd member of upstream's
//     in-memory server. No pod runs, nothing is scheduled.
//
// # Cost
//
// A control plane takes 6 seconds and 700 MB; [Main] has all tests of a package
// share one, each with a namespace, clouds and clusters of its own. A cluster of
// three and three machines is ready after half a minute, most of which are
// KubeadmControlPlane's own pauses.
package management
