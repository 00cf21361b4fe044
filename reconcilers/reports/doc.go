// Package reports keeps Report objects (openreports.io/v1alpha1) of what sweeps
// came to: for each Cluster one of its own resources and one of each pool, in the
// Cluster's namespace and owned by it, for Policy Reporter and whoever else reads
// such objects. It stands at the end of the pipeline and decides nothing.
//
// # What it remembers
//
// Outcomes are about some of a cluster's owners: those in one place, or those of a
// targeted read. What each owner came to last is kept, and a report is made of all
// of a pool's owners. A process that starts anew takes that from the reports as
// they are: since when a finding is known, what belongs to owners whose cloud is
// away just now, and how a pool is sharded. It then finds what it would write, and
// writes nothing.
//
// # When something is written
//
// A report is written by server-side apply when its content is another than that
// of the object. An object that somebody else has changed or deleted is seen at
// the next sweep by its generation, which one list of metadata tells for all.
//
// # Shards
//
// An object must fit into a request to etcd (1.5 MiB by default). A pool whose
// results are more than a third of that is spread over a power of two of objects
// by a hash of each result's owner and fingerprint, so that a change touches one
// of them. The number grows when one is full, and shrinks when half as many would
// be half full.
package reports
