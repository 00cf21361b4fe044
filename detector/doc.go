// Package detector compares what owners want with what a snapshot holds and
// says what differs. It is the second stage of the pipeline and pure: no I/O,
// no clock, no change to its arguments, and equal arguments give equal
// findings in equal order.
package detector
