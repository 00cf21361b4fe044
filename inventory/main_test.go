package inventory

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package if anything goes on after its tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
