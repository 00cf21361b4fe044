package moto

import "syscall"

// dieWithParent has the kernel end the server when the test process ends
// without having closed it, as a test that times out does.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
