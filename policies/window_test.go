package policies

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func testWindow(t *testing.T, kind v1alpha1.WindowKind, expr, zone string, d time.Duration, actions ...Action) *window {
	t.Helper()
	s, err := newWallSchedule(expr, zoneOf(t, zone))
	if err != nil {
		t.Fatal(err)
	}
	w := &window{kind: kind, schedule: s, duration: d, Position: Position{File: "w.yaml", Line: 1}}
	for _, a := range actions {
		if w.actions == nil {
			w.actions = actionSet{}
		}
		w.actions[a] = true
	}
	return w
}

// dstNights are, for six zones, the last instant before the clock changes on
// the night it skips and on the night it goes back.
var dstNights = map[string]struct{ skip, back string }{
	"Europe/Berlin":       {"2026-03-29T00:59:59Z", "2026-10-25T00:59:59Z"},
	"America/New_York":    {"2026-03-08T06:59:59Z", "2026-11-01T05:59:59Z"},
	"Australia/Lord_Howe": {"2026-10-03T15:29:59Z", "2026-04-04T14:59:59Z"}, // half an hour
	"America/St_Johns":    {"2026-03-08T05:29:59Z", "2026-11-01T04:29:59Z"},
	"Africa/Cairo":        {"2026-04-23T21:59:59Z", "2026-10-29T20:59:59Z"}, // at midnight
	"Asia/Beirut":         {"2026-03-28T21:59:59Z", "2026-10-24T20:59:59Z"}, // midnight itself is skipped
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestWindowsOnChangingNights opens a window at each quarter of an hour of the
// nights on which clocks change: it opens exactly once on each, on the night
// it skips at the first valid instant, on the night it goes back at the first
// of two.
func TestWindowsOnChangingNights(t *testing.T) {
	for name, night := range dstNights {
		zone := zoneOf(t, name)
		for kind, text := range map[string]string{"skip": night.skip, "back": night.back} {
			last := instant(t, text)
			_, before := last.In(zone).Zone()
			_, after := last.Add(time.Second).In(zone).Zone()
			if before == after || (after > before) != (kind == "skip") {
				t.Fatalf("%s: the clock does not %s after %s", name, kind, text)
			}
			change := last.Add(time.Second)
			for quarter := -16; quarter < 16; quarter++ {
				// A wall time near the change, by the clock before it.
				wall := wallOf(change, time.FixedZone("", before)).Add(time.Duration(quarter) * 15 * time.Minute)
				s, err := newWallSchedule(fmt.Sprintf("%d %d %d %d *", wall.Minute(), wall.Hour(), wall.Day(), wall.Month()), zone)
				if err != nil {
					t.Fatal(err)
				}
				var opened []time.Time
				from := change.Add(-24 * time.Hour)
				for at := s.after(from); at.Before(change.Add(24 * time.Hour)); at = s.after(at) {
					opened = append(opened, at)
				}
				if len(opened) != 1 {
					t.Errorf("%s %s: %s opens %d times: %v", name, kind, wall.Format("15:04"), len(opened), opened)
					continue
				}
				want := firstShowing(wall, zone, from)
				if !opened[0].Equal(want) {
					t.Errorf("%s %s: %s opens at %s, want %s", name, kind, wall.Format("15:04"), opened[0], want)
				}
			}
		}
	}
}

// firstShowing finds, minute by minute and by nothing but the zone's own
// clock, the first instant at which the clock shows the wall time or later.
func firstShowing(wall time.Time, zone *time.Location, from time.Time) time.Time {
	for at := from.Truncate(time.Minute); ; at = at.Add(time.Minute) {
		if !wallOf(at, zone).Before(wall) {
			return at
		}
	}
}

// TestWindowAgainstMinutes compares openAt with a window drawn minute by
// minute, over the changing nights and random schedules.
func TestWindowAgainstMinutes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, night := range dstNights {
		zone := zoneOf(t, name)
		for _, text := range []string{night.skip, night.back} {
			change := instant(t, text).Add(time.Second)
			for range 6 {
				expr := fmt.Sprintf("%d %d * * *", rng.IntN(4)*15, rng.IntN(5))
				duration := time.Duration(1+rng.IntN(240)) * time.Minute
				w := testWindow(t, v1alpha1.WindowAllow, expr, name, duration)
				start := change.Add(-30 * time.Hour)
				open := map[time.Time]bool{}
				for at := w.schedule.after(start.Add(-duration - 48*time.Hour)); at.Before(change.Add(30 * time.Hour)); at = w.schedule.after(at) {
					for m := time.Duration(0); m < duration; m += time.Minute {
						open[at.Add(m).UTC()] = true
					}
				}
				for at := start; at.Before(change.Add(24 * time.Hour)); at = at.Add(7 * time.Minute) {
					until, isOpen := w.openAt(at)
					if isOpen != open[at.UTC().Truncate(time.Minute)] {
						t.Fatalf("%s %q for %s: open %v at %s", name, expr, duration, isOpen, at.In(zone))
					}
					if isOpen && (open[until.UTC()] || !open[until.UTC().Add(-time.Minute)]) {
						t.Fatalf("%s %q for %s: open until %s at %s", name, expr, duration, until.In(zone), at.In(zone))
					}
				}
			}
		}
	}
}

func TestInstantOfSkippedDay(t *testing.T) {
	// Samoa had no 30 December 2011.
	zone := zoneOf(t, "Pacific/Apia")
	got := instantOf(time.Date(2011, 12, 30, 12, 0, 0, 0, time.UTC), zone)
	if want := time.Date(2011, 12, 31, 0, 0, 0, 0, zone); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWindowGate(t *testing.T) {
	work := func(actions ...Action) *window {
		return testWindow(t, v1alpha1.WindowDeny, "0 8 * * mon-fri", "Europe/Berlin", 10*time.Hour, actions...)
	}
	night := testWindow(t, v1alpha1.WindowAllow, "0 22 * * *", "UTC", 4*time.Hour)
	always := testWindow(t, v1alpha1.WindowDeny, "0 0 * * *", "UTC", 24*time.Hour)
	tests := map[string]struct {
		windows []*window
		now     string
		blocked bool
		until   string
	}{
		"no windows":                           {now: "2026-11-30T10:00:00Z"},
		"denied":                               {windows: []*window{work()}, now: "2026-11-30T10:00:00Z", blocked: true, until: "2026-11-30T17:00:00Z"},
		"denied from its first instant":        {windows: []*window{work()}, now: "2026-11-30T07:00:00Z", blocked: true, until: "2026-11-30T17:00:00Z"},
		"open at its last instant":             {windows: []*window{work()}, now: "2026-11-30T17:00:00Z"},
		"not denied on a Saturday":             {windows: []*window{work()}, now: "2026-11-28T10:00:00Z"},
		"other action":                         {windows: []*window{work(Patch)}, now: "2026-11-30T10:00:00Z"},
		"allowed only then":                    {windows: []*window{night}, now: "2026-11-30T10:00:00Z", blocked: true, until: "2026-11-30T22:00:00Z"},
		"allowed now":                          {windows: []*window{night}, now: "2026-11-30T23:00:00Z"},
		"deny beats allow":                     {windows: []*window{night, testWindow(t, v1alpha1.WindowDeny, "0 23 * * *", "UTC", 30*time.Minute)}, now: "2026-11-30T23:10:00Z", blocked: true, until: "2026-11-30T23:30:00Z"},
		"a deny that ends outside every allow": {windows: []*window{night, work()}, now: "2026-11-30T10:00:00Z", blocked: true, until: "2026-11-30T22:00:00Z"},
		"any of two allows":                    {windows: []*window{night, testWindow(t, v1alpha1.WindowAllow, "0 12 * * *", "UTC", time.Hour)}, now: "2026-11-30T10:00:00Z", blocked: true, until: "2026-11-30T12:00:00Z"},
		"denied without end":                   {windows: []*window{always}, now: "2026-11-30T10:00:00Z", blocked: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b, blocked := windowGate(tc.windows, Replace, instant(t, tc.now))
			until := ""
			if !b.Until.IsZero() {
				until = b.Until.Format(time.RFC3339)
			}
			if blocked != tc.blocked || until != tc.until {
				t.Errorf("blocked %v until %q (%s), want %v until %q", blocked, until, b.Detail, tc.blocked, tc.until)
			}
		})
	}
}

// TestDenseWindow bounds what the densest schedule and the longest duration
// cost together.
func TestDenseWindow(t *testing.T) {
	w := testWindow(t, v1alpha1.WindowDeny, "* * * * *", "Europe/Berlin", maxWindow)
	start := time.Now()
	if b, blocked := windowGate([]*window{w}, Replace, testNow); !blocked || !b.Until.IsZero() {
		t.Errorf("blocked %v until %s", blocked, b.Until)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}
