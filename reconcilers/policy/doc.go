// Package policy keeps the policies that hold: those of DriftPolicy objects and
// of files, beside the built-in ones. It stands before the sweeps, which ask it
// for the set to decide by.
//
// Each object and each file is a source. Of a source whose newest version is
// bad, the last good one stays in effect (nothing, if there was none), and all
// others are taken as they are; a condition, an event, a metric and the log say
// so. Files are watched by their folders, as Kubernetes swaps mounted
// ConfigMaps by a link, and looked at now and then all the same.
package policy
