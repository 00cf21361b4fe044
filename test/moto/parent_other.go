//go:build !linux

package moto

import "syscall"

// dieWithParent has no counterpart here: a test that times out leaves the
// server behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
