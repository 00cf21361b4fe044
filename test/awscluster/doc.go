// Package awscluster plays the parts of Cluster API and of Cluster API Provider
// AWS against any EC2 endpoint: it takes a manifest as a user would apply it,
// makes in the cloud what CAPA v2.13 would make, with its names, tags, rules and
// order of calls, and returns the Kubernetes objects as they would then stand in
// a management cluster. It also plays the careless operator: [Tampers] lists the
// ways in which such a cluster drifts, with the findings that each must give.
//
// It uses the AWS SDK and upstream's API types and none of Holdfast's providers,
// so that it is an independent witness of what they say. The demo and the
// acceptance suites are built on it.
package awscluster
