// Package vspherecluster plays the parts of Cluster API and of Cluster API
// Provider vSphere against a vCenter simulator in this process: it takes a
// manifest as a user would apply it, makes in vCenter what CAPV v1.16 would
// make, and returns the Kubernetes objects as they would then stand in a
// management cluster. It also plays the careless operator: [Tampers] lists the
// ways in which such a cluster drifts, with the findings that each must give.
//
// It uses govmomi and upstream's API types and none of Holdfast's providers, so
// that it is an independent witness of what they say. The demo and the
// acceptance suites are built on it.
package vspherecluster
