package canonical_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

func TestHardwareVersion(t *testing.T) {
	tests := map[string]int{
		"vmx-19": 19, "VMX-9": 9, "vmx-07": 7, "21": 21, " vmx-19 ": 19,
		"": 0, "vmx-": 0, "vmx--1": 0, "vmx-+1": 0, "vmx-x": 0, "vmx-0": 0,
		"vmx-99999999999999999999": 0,
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			got, err := canonical.HardwareVersion(in)
			if got != want || (err == nil) != (want != 0) {
				t.Errorf("HardwareVersion(%q) = %d, %v; want %d", in, got, err, want)
			}
		})
	}
}

func TestInventoryPath(t *testing.T) {
	tests := map[string]string{
		"/DC0/vm/prod":     "/DC0/vm/prod",
		"/DC0/vm/prod/":    "/DC0/vm/prod",
		"//DC0//vm/./prod": "/DC0/vm/prod",
		"prod/nodes":       "prod/nodes",
		"./prod":           "prod",
		"/DC0/vm/a%2Fb":    "/DC0/vm/a%2fb",
		"/DC0/vm/A%5Cb%25": "/DC0/vm/A%5cb%25",
		"/":                "/",
		".":                "",
		"":                 "",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			if got := canonical.InventoryPath(in); got != want {
				t.Errorf("InventoryPath(%q) = %q, want %q", in, got, want)
			}
		})
	}
}

func FuzzHardwareVersion(f *testing.F) {
	f.Add("vmx-19")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := canonical.HardwareVersion(s); err == nil && n <= 0 {
			t.Errorf("HardwareVersion(%q) = %d without an error", s, n)
		}
	})
}

func FuzzInventoryPath(f *testing.F) {
	fuzzPlain(f, canonical.InventoryPath, "/DC0//vm/../%2F", " . ", "./ 0")
}
