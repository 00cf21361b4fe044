package canonical_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

const (
	sampleUUID  = "423a8f01-b2c3-d4e5-6c22-0123456789ab"
	swappedUUID = "018f3a42-c3b2-e5d4-6c22-0123456789ab"
)

func TestUUID(t *testing.T) {
	checkCanon(t, canonical.UUID, map[string]string{
		sampleUUID:                                        sampleUUID,
		"423A8F01-B2C3-D4E5-6C22-0123456789AB":            sampleUUID,
		"423a8f01b2c3d4e56c220123456789ab":                sampleUUID,
		"{423a8f01-b2c3-d4e5-6c22-0123456789ab}":          sampleUUID,
		"urn:uuid:423a8f01-b2c3-d4e5-6c22-0123456789ab":   sampleUUID,
		"URN:UUID:423A8F01-B2C3-D4E5-6C22-0123456789AB":   sampleUUID,
		"42 3a 8f 01 b2 c3 d4 e5-6c 22 01 23 45 67 89 ab": sampleUUID,
		"423a8f01-b2c3-d4e5-6c22-0123456789a":             "",
		"423a8f01-b2c3-d4e5-6c22-0123456789ag":            "",
		"vm-42":                                           "",
	})
}

// C35: after a failover the UUID is empty; it never matches anything, nor
// does one of zeros.
func TestC35EmptyUUIDIdentifiesNothing(t *testing.T) {
	for _, s := range []string{"", "  ", "{}", "00000000-0000-0000-0000-000000000000"} {
		if got, err := canonical.UUID(s); err == nil {
			t.Errorf("UUID(%q) = %q, want an error", s, got)
		}
		if got := canonical.SwapUUID(s); got != "" {
			t.Errorf("SwapUUID(%q) = %q, want none", s, got)
		}
		if got, ok := canonical.VMUUID("vsphere://" + s); ok {
			t.Errorf("VMUUID(vsphere://%s) = %q, want none", s, got)
		}
	}
}

func TestSwapUUID(t *testing.T) {
	if got := canonical.SwapUUID(sampleUUID); got != swappedUUID {
		t.Errorf("got %s, want %s", got, swappedUUID)
	}
	if got := canonical.SwapUUID("423A8F01B2C3D4E56C220123456789AB"); got != swappedUUID {
		t.Errorf("other spelling: got %s, want %s", got, swappedUUID)
	}
	if got := canonical.SwapUUID(swappedUUID); got != sampleUUID {
		t.Errorf("swapped twice: got %s, want %s", got, sampleUUID)
	}
}

func TestVMUUID(t *testing.T) {
	tests := map[string]string{
		"vsphere://423A8F01-B2C3-D4E5-6C22-0123456789AB": sampleUUID,
		"vsphere://vm-42":       "",
		"aws:///a/i-1":          "",
		sampleUUID:              "",
		"vsphere:" + sampleUUID: "",
	}
	for in, want := range tests {
		if got, ok := canonical.VMUUID(in); got != want || ok != (want != "") {
			t.Errorf("VMUUID(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

func FuzzUUID(f *testing.F) {
	f.Add(sampleUUID)
	f.Add("urn:uuid:{ }")
	f.Fuzz(func(t *testing.T, s string) {
		idempotent(t, canonical.UUID, s)
		id, err := canonical.UUID(s)
		swapped := canonical.SwapUUID(s)
		if (err == nil) != (swapped != "") {
			t.Fatalf("UUID(%q) = %q, %v and SwapUUID %q", s, id, err, swapped)
		}
		if err == nil && canonical.SwapUUID(swapped) != id {
			t.Errorf("swapping %q twice gives %q", id, canonical.SwapUUID(swapped))
		}
	})
}

func FuzzVMUUID(f *testing.F) {
	f.Add("vsphere://" + sampleUUID)
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := canonical.VMUUID(s)
		if again, _ := canonical.VMUUID("vsphere://" + id); ok && again != id {
			t.Errorf("VMUUID(%q) = %q, again %q", s, id, again)
		}
	})
}
