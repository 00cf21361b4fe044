package policies

import (
	"fmt"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
)

// BenchmarkDecide decides about 10,000 machines that all drift, in 100
// clusters: far more than a sweep ever finds.
func BenchmarkDecide(b *testing.B) {
	in := makeInput(b)
	facts := in.Clusters[testCluster]
	facts.Machines, facts.Owners = 100, 101
	facts.Zones = map[string]ZoneFacts{"z1": {Machines: 100}}
	in.Findings = nil
	for c := range 100 {
		ref := detector.ClusterRef{Namespace: "prod", Name: fmt.Sprint("c", c)}
		in.Clusters[ref] = facts
		for m := range 100 {
			owner := machineRef(fmt.Sprintf("c%d-%d", c, m))
			in.Owners[owner] = healthyOwner()
			in.Findings = append(in.Findings, instanceFinding(owner, withDiffs(typeDiff, tagDiff("a")), func(f *detector.Finding) { f.Cluster = ref }))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(Decide(in)); n != 20_000 {
			b.Fatal(n)
		}
	}
}

func BenchmarkFor(b *testing.B) {
	set := Builtin()
	b.ReportAllocs()
	for b.Loop() {
		set.For(testCluster, nil)
	}
}
