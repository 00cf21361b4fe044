package clusterapi

import (
	"os/exec"
	"strings"
	"testing"
)

// The clusterctl that tests run is of the Cluster API that is compiled in.
func TestClusterctl(t *testing.T) {
	for _, module := range []string{moduleCore, moduleCore + "/api"} {
		version := func(args ...string) string {
			out, err := exec.Command("go", append(append([]string{"list"}, args...), "-m", "-f", "{{.Version}}", module)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return strings.TrimSpace(string(out))
		}
		if want, have := version(), version("-modfile=../clusterctl/go.mod"); have != want || want == "" {
			t.Errorf("hack/clusterctl has %s %s, and go.mod %s: go -C hack/clusterctl get %s@%s", module, have, want, module, want)
		}
	}
}
