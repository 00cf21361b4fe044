// Package infra reconciles infrastructure objects in managed mode: it makes what
// they declare, and unmakes it when they are deleted, by Cluster API's contracts
// of infrastructure providers (v1beta2, and v1beta1's status where the types
// have it).
//
// There is one reconciler for clusters and one for machines, over any
// [providers.Builder]. They run the same pipeline that looks for drift:
//
//	Settle -> Plan -> detector.Compare -> Create, Apply -> Record -> Note
//
// What is planned and not there is created, in the order in which resources need
// each other. What is there and differs is set in place for as long as the owner
// has not been ready once: whoever asks for a cluster has asked for all of it.
// From then on a difference is drift, and what becomes of it is the policy's,
// decided by the sweep.
package infra
