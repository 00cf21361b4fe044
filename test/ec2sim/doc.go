// Package ec2sim is an in-process simulator of the parts of AWS that Cluster
// API machines live on: EC2, classic and v2 load balancers, STS, IAM instance
// profiles, KMS aliases and secrets, behind one endpoint that the AWS SDKs can talk to.
//
// It stands in for a cloud account in the demo and in tests of speed, faults
// and races, where it is held to what the API references document: pages,
// filters, error codes that name every id, states that take time on an
// injected clock, late visibility of new objects, client tokens, DryRun and
// request throttling. What it does not model it refuses by name
// (InvalidAction, UnknownParameter) and never drops silently.
//
// A Server holds all its state in memory and starts no goroutine of its own
// besides the HTTP listener's; time passes only as its clock says.
// DIFFERENCES.md names where it and other simulators are unlike EC2.
package ec2sim
