package status

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// TestEventSaysWho: the event about drift names who is said to have made it, once
// each, inert and whole even where the rest is cut.
func TestEventSaysWho(t *testing.T) {
	by := map[providers.ID]string{
		{Kind: "Instance", Name: "i-1"}: "arn:aws:iam::1:user/b", {Kind: "Volume", Name: "vol-1"}: "arn:aws:iam::1:user/b",
		{Kind: "Instance", Name: "i-2"}: "a\x1b[31m\nb", {Kind: "Instance", Name: "i-3"}: "nobody",
	}
	decision := func(kind, id string, s detector.Status) *policies.Decision {
		d := &policies.Decision{}
		d.Finding.Status, d.Finding.Resource.Kind, d.Finding.Resource.ID = s, kind, id
		return d
	}
	p := &planner{Outcome: &sweep.Outcome{ChangedBy: by}}
	who := p.changedBy([]*policies.Decision{
		decision("Instance", "i-1", detector.Drifted), decision("Volume", "vol-1", detector.Drifted),
		decision("Instance", "i-2", detector.Missing), decision("Instance", "i-3", detector.NotChecked),
		decision("Instance", "i-4", detector.Drifted),
	})
	if want := `a\x1b[31m\nb, arn:aws:iam::1:user/b`; who != want {
		t.Errorf("%q, want %q", who, want)
	}
	if note := noteOn(strings.Repeat("ä", maxNote), who); len(note) > maxNote || !strings.HasSuffix(note, "…; changed by "+who) {
		t.Errorf("%d bytes that end with %q", len(note), note[max(0, len(note)-80):])
	}
	if note := noteOn("drift", ""); note != "drift" {
		t.Errorf("nobody is known: %q", note)
	}
}
