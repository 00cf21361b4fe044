//go:build !linux

package main

// dieWithParent has no counterpart here.
func dieWithParent() {}
