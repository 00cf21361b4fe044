package alerts

import "syscall"

// dieWithParent has the kernel end a process when the test process ends
// without having stopped it, as a test that times out does.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
