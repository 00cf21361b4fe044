package canonical_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

// C30: quantities are equal once parsed, and MiB are binary.
func TestC30Quantities(t *testing.T) {
	checkCanon(t, canonical.Quantity, map[string]string{
		"3072Mi": "3Gi", "3Gi": "3Gi",
		"1000m": "1", "1": "1", "1.0": "1", "1500m": "1500m",
		" 1 ": "1", "1e3": "1e3",
		"one": "", "": "", "3GiB": "", "1 Gi": "",
	})
	memory := map[string]int64{
		"4Gi": 4096, "4096Mi": 4096, "4294967296": 4096, "3072Mi": 3072, "0": 0,
		"4G": -1, "4096": -1, "-4Gi": -1, "1500m": -1, "": -1, "9e99": -1,
	}
	for in, want := range memory {
		t.Run(in, func(t *testing.T) {
			got, err := canonical.MemoryMiB(in)
			if want < 0 {
				if err == nil {
					t.Errorf("MemoryMiB(%q) = %d, want an error", in, got)
				}
				return
			}
			if err != nil || got != want {
				t.Errorf("MemoryMiB(%q) = %d, %v; want %d", in, got, err, want)
			}
		})
	}
}

func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"3Gi", "1000m", "1e3", "-0", ".5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { idempotent(t, canonical.Quantity, s) })
}

func FuzzMemoryMiB(f *testing.F) {
	f.Add("4Gi")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := canonical.MemoryMiB(s); n < 0 || err != nil && n != 0 {
			t.Errorf("MemoryMiB(%q) = %d, %v", s, n, err)
		}
	})
}
