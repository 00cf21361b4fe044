// Package providers is the contract between Holdfast and a cloud, and the
// first stage of the pipeline:
//
//	providers <- detector <- policies <- remediator <- reconcilers <- cmd
//
// A provider says what a Cluster API owner wants (Desired, pure) and what its
// cloud holds (Observe, read-only and in bulk), both in the same words: a
// [Resource] is a set of [Field]s with canonical [Value]s under JSON-pointer
// paths. Everything behind the contract is free of cloud specifics.
//
// One folder under this one is one provider. It imports this package,
// providers/canonical and its cloud's libraries, and nothing else of this
// repository. providers/providertest holds the suite that each must pass.
package providers
