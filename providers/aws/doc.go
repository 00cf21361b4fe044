// Package aws is the provider for Amazon EC2 and Elastic Load Balancing, read
// through the objects of Cluster API Provider AWS (CAPA).
//
// It stands in the first stage of the pipeline. Desired says what an
// AWSMachine or AWSCluster wants; Scope says in which account and region, and
// under which of CAPA's identities, that is to be found; Observe reads the
// whole region of the account once for all clusters in it; Confirm reads
// single resources again before anything is believed to be absent.
//
// The files follow a read's way: registration, provider, identity and session
// (who reads), limiter (how fast), observe_* (which calls), convert_* (from
// the API's words to canonical resources), confirm.
//
// Everything here only reads. User data is never asked for in bulk.
package aws
