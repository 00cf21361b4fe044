package policies

import (
	"strings"
	"testing"
)

// TestZoneBreaker holds back what is in the zone, and nothing else.
func TestZoneBreaker(t *testing.T) {
	why := "the breaker of zone a is open"
	cluster := ClusterFacts{Owners: 10, Breaker: No(), Zones: map[string]ZoneFacts{"a": {Machines: 5, Breaker: Yes(why)}, "b": {Machines: 5}}}
	for zone, want := range map[string]string{"a": why, "b": "", "": ""} {
		c := &candidate{cluster: &cluster, effective: Builtin().For(detectorRef("prod", "c1"), nil)}
		c.Finding.Zone = zone
		block, blocked := massDriftGate(newRun(Input{}), c)
		if blocked != (want != "") || !strings.Contains(block.Detail, want) {
			t.Errorf("zone %q: blocked %v by %q, want %q", zone, blocked, block.Detail, want)
		}
	}
}
