package sweep

import (
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestMain fails the package if anything goes on after its tests.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	// apimachinery's filter of a watch stays at the event that it holds when
	// its reader stops: it has no way to be told, and ends with the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}
