package management_test

import (
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/test/management"
)

func TestMain(m *testing.M) { os.Exit(management.Main(m)) }
