// Package canonical gives each kind of value that a cloud or a spec may spell
// in several ways its one canonical spelling, so that a comparison of two
// canonical values compares meaning.
//
// It stands inside the first stage of the pipeline: providers pass both the
// wanted and the seen side through it while they build their Resources, and
// the detector only ever compares what comes out. Every function is pure, and
// every one that maps a string to a string of the same kind is idempotent.
// Malformed input gives an error that names the input and what was expected;
// it never gives a value that could be mistaken for another.
package canonical
