package detector_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// fleet makes drifting, steady and unread owners in a zone.
func fleet(zone string, drifting, steady, unread int) []detector.Result {
	var out []detector.Result
	for i := range drifting + steady + unread {
		o := genOwner(fmt.Sprintf("%s-%d", zone, i), inZone(zone))
		w := want("i-1", str("/type", "m5"))
		snap := snapshot(have("i-1", str("/type", "m5")))
		switch {
		case i < drifting && i%2 == 0:
			snap = snapshot() // absent, not confirmed yet
		case i < drifting:
			snap = snapshot(have("i-1", str("/type", "m6")))
		case i >= drifting+steady:
			snap = uncovered(snap, "Instance", errThrottled)
		}
		out = append(out, detector.Compare(o, []providers.Resource{w}, snap, options))
	}
	return out
}

func TestMassDrifts(t *testing.T) {
	group := func(zone string, drifting, compared int) detector.MassDrift {
		return detector.MassDrift{Scope: scope, Zone: zone, Drifting: drifting, Compared: compared}
	}
	third := detector.Threshold{Ratio: 0.3}
	tests := map[string]struct {
		reason    string
		results   []detector.Result
		threshold detector.Threshold
		want      []detector.MassDrift
	}{
		"few":         {"3 of 10 is not more than 30%", fleet("a", 3, 7, 0), third, nil},
		"many":        {"4 of 10 is", fleet("", 4, 6, 0), third, []detector.MassDrift{group("", 4, 10)}},
		"unread":      {"owners that could not be read do not dilute", fleet("", 4, 6, 90), third, []detector.MassDrift{group("", 4, 10)}},
		"only unread": {"nothing is known", fleet("a", 0, 0, 5), third, nil},
		"none":        {"no owners, no drift", nil, third, nil},
		"off":         {"zero turns it off", fleet("a", 9, 0, 0), detector.Threshold{}, nil},
		"at least":    {"1 of 2 is half, and one machine", fleet("a", 1, 1, 0), detector.Threshold{Ratio: 0.3, AtLeast: 2}, nil},
		"everything":  {"a ratio of 1 is never exceeded", fleet("a", 5, 0, 0), detector.Threshold{Ratio: 1}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := detector.MassDrifts(tt.results, scope, tt.threshold)
			for i := range got {
				if got[i].Fingerprint == "" {
					t.Error("no fingerprint")
				}
				got[i].Fingerprint = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// C52: all of a zone at once freezes that zone, also where the whole scope is
// under the threshold; when it has cleared, the verdict is gone.
func TestC52ZoneFreezes(t *testing.T) {
	results := append(fleet("a", 10, 0, 0), fleet("b", 0, 40, 0)...)
	threshold := detector.Threshold{Ratio: 0.3, AtLeast: 3}
	got := detector.MassDrifts(results, scope, threshold)
	if len(got) != 1 || got[0].Zone != "a" || got[0].Reason() != "10 of 10 owners in fake/111122223333/eu-west-1 zone a drift at once" {
		t.Errorf("got %+v", got)
	}
	worse := detector.MassDrifts(append(fleet("a", 9, 1, 0), fleet("b", 0, 40, 0)...), scope, threshold)
	if len(worse) != 1 || worse[0].Fingerprint != got[0].Fingerprint {
		t.Error("the fingerprint depends on the numbers")
	}
	if cleared := detector.MassDrifts(append(fleet("a", 0, 10, 0), fleet("b", 0, 40, 0)...), scope, threshold); cleared != nil {
		t.Errorf("cleared: %+v", cleared)
	}
}
