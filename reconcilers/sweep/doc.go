// Package sweep compares every owner of a scope with one snapshot of it and
// decides what to do: the whole pipeline up to, and without, execution. A dry
// run is a sweep whose result is printed.
package sweep
