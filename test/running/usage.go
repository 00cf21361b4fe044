package running

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ticks are what /proc counts processor time in, a second (proc(5); the value
// has been 100 on every architecture of Linux for as long as Go runs on it).
const ticks = 100

// CPU is the processor time that a process has used so far.
func CPU(t testing.TB, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	total := 0
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return time.Duration(total) * time.Second / ticks
}

// Resident is a process's memory now, in MiB.
func Resident(t testing.TB, pid int) float64 { return memory(t, pid, "VmRSS:") }

// PeakResident is a process's most memory so far, in MiB.
func PeakResident(t testing.TB, pid int) float64 { return memory(t, pid, "VmHWM:") }

func memory(t testing.TB, pid int, line string) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(l, line); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatalf("/proc/%d/status has no %s", pid, line)
	return 0
}
