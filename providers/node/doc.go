// Package node compares the Nodes of workload clusters with what their Machines
// declare. It is a provider's decorator, not a cloud: a Node belongs to the same
// infrastructure object as the instance that it runs on, so that one condition
// and one record tell of both, and each gate counts the machine once.
//
// Nodes are read from the workload cluster itself, by the kubeconfig Secret that
// Cluster API keeps of it. A cluster that cannot be read says nothing of its
// Nodes, and nothing of any other cluster's.
package node
