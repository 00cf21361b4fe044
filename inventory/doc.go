// Package inventory reads Cluster API objects, from a management cluster or
// from YAML, and groups them into the owners that providers give a desired
// state for. It stands beside detector at the start of the pipeline: it knows
// Cluster API's objects and no cloud, reads and never writes.
//
// Whatever version an object was written in, owners carry the version that
// the provider registered, converted by upstream's own conversion code.
package inventory
