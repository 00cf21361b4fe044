// Package vsphere is the provider for vCenter: it says what VSphereMachines
// and VSphereClusters of cluster-api-provider-vsphere (CAPV) want, and reads
// what a vCenter holds.
//
// It stands in the first stage of the pipeline, behind the contract of package
// providers. Reading goes through one session for each vCenter and identity:
// one paged retrieve for the inventory around the machines, one for the
// machines themselves, and a handful of calls for tags, VM groups and storage
// policies, whatever the number of machines.
//
// [Provider.Apply], in the files apply*.go, writes to machines that exist, in
// steps that are read from the machine each time. [Provider.Create] and
// [Provider.Delete], in the files build*.go, are all that makes machines and
// unmakes them, for managed mode. [Provider.Watch] tells what may have changed, by
// one call that waits at vCenter.
package vsphere
