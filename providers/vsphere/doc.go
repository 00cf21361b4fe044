// Package vsphere is the provider for vCenter: it says what VSphereMachines
// and VSphereClusters of cluster-api-provider-vsphere (CAPV) want, and reads
// what a vCenter holds.
//
// It stands in the first stage of the pipeline, behind the contract of package
// providers. Reading goes through one session for each vCenter and identity:
// one paged retrieve for the inventory around the machines, one for the
// machines themselves, and a handful of calls for tags, VM groups and storage
// policies, whatever the number of machines. Nothing in this package writes.
package vsphere
