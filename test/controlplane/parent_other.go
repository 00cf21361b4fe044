//go:build !linux

package controlplane

import "syscall"

// dieWithParent has no counterpart here: a test that times out leaves the
// process behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
