package main

import "syscall"

// alone keeps a terminal's Ctrl-C from a process, and has the kernel end it
// should this one be killed.
func alone() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
