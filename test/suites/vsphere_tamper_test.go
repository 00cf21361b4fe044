package suites

import (
	"testing"
)

// An untouched cluster has no finding.
func TestVSphereInSync(t *testing.T) {
	e := vsphereEnv(t, nil)
	vsphereSays(t, vsphereSweep(t, vsphereProvider(t, e), e.Owners()), nil)
}
