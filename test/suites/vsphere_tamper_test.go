package suites

import (
	"testing"

	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// An untouched cluster has no finding.
func TestVSphereInSync(t *testing.T) {
	e := vsphereEnv(t, nil)
	vsphereSays(t, vsphereSweep(t, vsphereProvider(t, e), e.Owners()), nil)
}

// Each tamper gives exactly its findings, and none once it is undone. Those
// that cannot be undone have a cluster of their own.
func TestVSphereTampers(t *testing.T) {
	suite := t
	shared := vsphereEnv(suite, nil)
	for _, tamper := range vspherecluster.Tampers() {
		t.Run(tamper.Name, func(t *testing.T) {
			e := shared
			damage, err := tamper.Do(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			e.Log.Reset()
			vsphereSays(t, vsphereSweep(t, vsphereProvider(t, e), e.Owners()), damage.Findings)
			if calls := e.Log.Mutating(); len(calls) > 0 {
				t.Errorf("calls that may write: %v", calls)
			}
			if damage.Undo == nil {
				shared = vsphereEnv(suite, nil)
				return
			}
			if err := damage.Undo(t.Context()); err != nil {
				t.Fatalf("undo: %v", err)
			}
			vsphereSays(t, vsphereSweep(t, vsphereProvider(t, e), e.Owners()), nil)
		})
	}
}
