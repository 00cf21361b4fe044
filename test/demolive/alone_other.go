//go:build !linux

package main

import "syscall"

// alone keeps a terminal's Ctrl-C from a process.
func alone() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
