package detector_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// bytes are consumed to make random, small resources that often collide.
type source struct{ data []byte }

func (s *source) next(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

var (
	fuzzPaths = []string{"/state", "/tags/a", "/tags/b", "/groups", "/size"}
	fuzzKinds = []string{"Instance", "Volume", "Elevator"}
	fuzzIDs   = []string{"", "i-1", "i-2", "i-3"}
	fuzzMatch = []providers.Match{providers.Exactly, providers.OneOf, providers.AtLeast, providers.Contains}
	words     = []string{"", "a", "b"}
)

func (s *source) value() providers.Value {
	switch s.next(6) {
	case 0:
		return providers.Value{}
	case 1:
		return providers.String(words[s.next(3)])
	case 2:
		return providers.Int(s.next(3))
	case 3:
		return providers.Bool(s.next(2) == 1)
	case 4:
		return providers.Set()
	default:
		return providers.Set(words[s.next(3)], words[s.next(3)])
	}
}

func (s *source) resource(wanted bool) providers.Resource {
	r := providers.Resource{ID: providers.ID{Kind: fuzzKinds[s.next(3)], Name: fuzzIDs[s.next(4)]}}
	for range s.next(6) {
		f := providers.Field{Value: s.value(), Sensitive: s.next(8) == 1}
		if wanted {
			f.Match, f.Adopted = fuzzMatch[s.next(4)], s.next(8) == 1
		} else if s.next(4) == 1 {
			f.Foreign = map[string]string{words[s.next(3)]: "someone"}
			f.Claimed = map[string]string{words[s.next(3)]: "someone else"}
		}
		r.Set(fuzzPaths[s.next(len(fuzzPaths))], f)
	}
	odd := s.next(12)
	if wanted {
		r.Absent, r.Unsettled = odd == 1, odd == 2
		if odd == 3 {
			r.Unchecked = "because"
		}
		if odd > 4 {
			r.Since = longAgo
		}
		return r
	}
	switch odd {
	case 1:
		r.Gone = "terminated"
	case 2:
		r.Unknown = "inaccessible"
	case 3:
		r.ForeignTo = "CSI"
	case 4, 5, 6:
		r.Closed = []string{"/tags"}
	default:
	}
	if s.next(2) == 1 {
		r.ClusterTags = []string{"c1"}
	}
	return r
}

func (s *source) snapshot() *providers.Snapshot {
	snap := snapshot()
	for range s.next(6) {
		r := s.resource(false)
		snap.Resources[r.ID] = &r
	}
	for _, part := range []string{"Instance", "Volume", "Instance/tags"} {
		if s.next(5) == 1 {
			snap.Coverage[part] = errThrottled
		}
	}
	return snap
}

// sweep runs the whole chain for two owners, as a caller would.
func sweep(owners []*providers.Owner, wants [][]providers.Resource, snap *providers.Snapshot, c *providers.Confirmation) ([]detector.Result, []detector.Finding) {
	var results []detector.Result
	for i, o := range owners {
		results = append(results, detector.Compare(o, wants[i], snap, options))
	}
	results = detector.DoubleClaims(results, snap)
	_ = detector.AllAbsent(results)
	_ = detector.MassDrifts(results, scope, detector.Threshold{Ratio: 0.1})
	for i := range results {
		results[i] = detector.Settle(results[i], snap, c, options)
	}
	return results, detector.Orphans(results, snap, detector.Unseen{})
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte("seed"))
	f.Add([]byte{1, 0, 1, 2, 1, 0, 0, 5, 1, 2, 3, 1, 1, 4, 0, 2, 9, 9, 1, 0, 1, 1, 2, 3})
	f.Add([]byte("\x02\x00\x01\x03\x05\x01\x02\x00\x00\x03\x05\x00\x01\x01\x00\x02\x00\x01\x02\x05\x02\x01\x00\x00\x03\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data: data}
		owners := []*providers.Owner{genOwner("m1"), genOwner("m2")}
		wants := make([][]providers.Resource, len(owners))
		for i := range wants {
			for range s.next(5) {
				wants[i] = append(wants[i], s.resource(true))
			}
		}
		snap := s.snapshot()
		var c *providers.Confirmation
		if s.next(4) > 0 {
			c = &providers.Confirmation{Resources: s.snapshot().Resources, Unconfirmed: map[providers.ID]error{{Kind: "Instance", Name: "i-3"}: nil}}
		}
		wantsBefore, snapBefore := cloneWants(wants), snap.Clone()

		results, orphans := sweep(owners, wants, snap, c)
		again, orphansAgain := sweep(owners, wants, snap, c)
		ignore := cmpopts.EquateErrors()
		if diff := cmp.Diff(results, again, ignore, cmpopts.IgnoreFields(detector.Result{}, "Owner")); diff != "" {
			t.Errorf("two runs differ:\n%s", diff)
		}
		if diff := cmp.Diff(orphans, orphansAgain, ignore); diff != "" {
			t.Errorf("orphans of two runs differ:\n%s", diff)
		}
		if diff := cmp.Diff(wantsBefore, wants, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the wanted changed:\n%s", diff)
		}
		if diff := cmp.Diff(snapBefore, snap, ignore, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the snapshot changed:\n%s", diff)
		}
		for i := range results {
			checkInvariants(t, &results[i], wants[i], snap, c)
		}
	})
}

func cloneWants(wants [][]providers.Resource) [][]providers.Resource {
	out := make([][]providers.Resource, len(wants))
	for i := range wants {
		for j := range wants[i] {
			out[i] = append(out[i], *wants[i][j].Clone())
		}
	}
	return out
}

// checkInvariants holds for whatever was wanted and seen.
func checkInvariants(t *testing.T, r *detector.Result, wants []providers.Resource, snap *providers.Snapshot, c *providers.Confirmation) {
	t.Helper()
	total := 0
	for i := range wants {
		total += max(1, len(wants[i].Fields))
	}
	if r.Checked+r.NotChecked != total || r.Checked < 0 || r.NotChecked < 0 {
		t.Errorf("checked %d + not checked %d is not the %d wanted", r.Checked, r.NotChecked, total)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Fingerprint != detector.Fingerprint(f) {
			t.Errorf("%s: fingerprint is not of the finding", f.Resource.ID)
		}
		if f.Tentative {
			t.Errorf("%s: tentative after settling", f.Resource.ID)
		}
		if f.Status == detector.Drifted != (f.Reason == "") {
			t.Errorf("%s: status %s with reason %q", f.Resource.ID, f.Status, f.Reason)
		}
		if f.Status == detector.Drifted && len(f.Diffs) == 0 {
			t.Errorf("%s: drifted without a difference", f.Resource.ID)
		}
		if f.Status != detector.Missing {
			continue
		}
		id := f.Want.ID
		if err, known := snap.Covered(id.Kind, ""); err != nil || !known {
			t.Errorf("%s is missing, and its kind was not read: %v", id, err)
		}
		if _, failed := confirmationOf(c).Unconfirmed[id]; f.Have == nil && (c == nil || failed || snap.Resources[id] != nil || f.Want.Since.IsZero()) {
			t.Errorf("%s is missing without proof", id)
		}
		if len(f.Diffs) != 1 || f.Diffs[0].Path != "/state" {
			t.Errorf("%s is missing with diffs %v", id, f.Diffs)
		}
	}
}

func confirmationOf(c *providers.Confirmation) *providers.Confirmation {
	if c == nil {
		return &providers.Confirmation{}
	}
	return c
}
