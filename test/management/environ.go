package management

import (
	"maps"
	"os"
	"slices"
)

// environment leads a program to the ground: the management cluster by
// KUBECONFIG, and those clouds that the test has started.
func (g *Ground) environment() map[string]string {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]string{"KUBECONFIG": g.Kubeconfig}
	if g.aws != nil {
		maps.Copy(out, g.aws.environ())
	}
	if g.vsphere != nil {
		vars, err := g.vsphere.environ()
		if err != nil {
			g.t.Fatalf("vCenter's certificate: %v", err)
		}
		maps.Copy(out, vars)
	}
	return out
}

// Environ is the environment for a program under test: this process's with
// what leads to the ground. Clusters come first, for a cloud that the test has
// not started yet is not in it.
func (g *Ground) Environ() []string {
	g.t.Helper()
	return append(os.Environ(), g.Variables()...) // the last of a name holds
}

// Variables are those of [Ground.Environ] that lead to the ground, in order.
func (g *Ground) Variables() []string {
	g.t.Helper()
	var out []string
	vars := g.environment()
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, key+"="+vars[key])
	}
	return out
}

// Setenv leads code under test in this process to the ground until the test
// ends, as [Ground.Environ] leads a program. Tests that use it cannot be
// parallel.
func (g *Ground) Setenv(t interface {
	Helper()
	Setenv(key, value string)
}) {
	t.Helper()
	for key, value := range g.environment() {
		t.Setenv(key, value)
	}
}
