// Package misplaced knows what people write into infrastructure objects that is
// no field there, though a field of another place is meant: spec.vpc of an
// AWSCluster, which is spec.network.vpc.
//
// Such objects are admitted: the CRDs that managed mode is installed with
// (hack/clusterapi) have the names in [Table] as properties that take any value.
// So whoever applies one is told, by a warning at admission ([Handler]) and by a
// condition of the object ([Find], [Message]), and nothing else of a typing error
// is let through: what is not in the table is refused by kubectl as ever.
//
// The value of a misplaced field has no effect. That Holdfast does not take it for
// the field that is meant is on purpose: the same manifest would mean something
// else to Cluster API Provider AWS.
package misplaced
