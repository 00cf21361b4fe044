//go:build !linux

package alerts

import "syscall"

// dieWithParent has no counterpart here: a test that times out leaves the
// process behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
