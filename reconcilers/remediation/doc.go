// Package remediation keeps the records of what Holdfast does about drift, and
// does it. [Store] makes a record of each decision that acts and tells the
// policies what was done before and what is in flight; [Controller] drives each
// record to its end.
//
// Nothing is changed on the strength of a view that may be old. Before an
// attempt begins, object and cloud are read anew and decided on again, one
// attempt at a time; that the attempt has begun is stored before anything is
// changed, under the version of the record that was read. A process that dies
// at any point finds in the record what to go on with.
package remediation
