package policies

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones must be known in an image without a zone database

	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// maxWindow bounds a window's duration, and so the starts to look back over.
const maxWindow = 31 * 24 * time.Hour

// wallSchedule gives the instants of a cron expression in a zone. The
// expression is walked over the zone's wall clock, not over instants: a wall
// time that occurs twice (the night the clock goes back) gives its first
// occurrence only, and one that does not occur (the night it skips) gives the
// first instant after the gap.
type wallSchedule struct {
	spec cron.Schedule
	zone *time.Location
}

func newWallSchedule(expr string, zone *time.Location) (*wallSchedule, error) {
	switch {
	case strings.Contains(expr, "TZ="):
		return nil, errors.New("a zone inside cron is not read: use timeZone")
	case strings.HasPrefix(strings.TrimSpace(expr), "@every"):
		return nil, errors.New("@every depends on when the program started")
	case len(expr) > 256:
		return nil, errors.New("longer than 256 characters")
	}
	spec, err := cron.ParseStandard(expr)
	if err != nil {
		return nil, cronError(expr, err)
	}
	s, ok := spec.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is no calendar schedule", expr)
	}
	s.Location = time.UTC
	if s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("it never comes: there is no such day")
	}
	return &wallSchedule{spec: s, zone: zone}, nil
}

// after gives the first instant later than t, zero if there is none.
func (s *wallSchedule) after(t time.Time) time.Time {
	// Whatever the wall has shown up to now lies not after t, so the walk
	// starts here. After a clock has gone back it passes wall times whose
	// first showing is past.
	wall := wallOf(t, s.zone)
	for {
		wall = s.spec.Next(wall)
		if wall.IsZero() {
			return wall
		}
		if at := instantOf(wall, s.zone); at.After(t) {
			return at
		}
	}
}

// wallOf gives what the clock on the wall shows, as a time in UTC.
func wallOf(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), l.Nanosecond(), time.UTC)
}

// instantOf is the inverse of wallOf: the first of two instants, and the first
// instant after a gap.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	// Offsets lie within 26 hours of each other, so these two instants are
	// surely before and after whatever happens at that wall time.
	_, before := wall.Add(-26 * time.Hour).In(zone).Zone()
	_, after := wall.Add(26 * time.Hour).In(zone).Zone()
	early := wall.Add(-time.Duration(max(before, after)) * time.Second)
	late := wall.Add(-time.Duration(min(before, after)) * time.Second)
	if wallOf(early, zone).Equal(wall) {
		return early.In(zone)
	}
	if wallOf(late, zone).Equal(wall) {
		return late.In(zone)
	}
	if _, end := early.In(zone).ZoneBounds(); !end.IsZero() {
		return end
	}
	return late.In(zone)
}

// window is a compiled v1alpha1.Window.
type window struct {
	kind     v1alpha1.WindowKind
	cron     string
	schedule *wallSchedule
	duration time.Duration
	actions  actionSet
	policy   string
	Position
}

// openAt reports whether the window is open, and until when; the zero time is
// longer than any one window can last. Occurrences that overlap or touch are
// one.
func (w *window) openAt(now time.Time) (until time.Time, open bool) {
	for start := w.schedule.after(now.Add(-w.duration)); !start.IsZero(); start = w.schedule.after(start) {
		if start.After(now) && (!open || start.After(until)) {
			break
		}
		end := start.Add(w.duration)
		if end.After(now) {
			until, open = end, true
		}
		if until.Sub(now) > maxWindow {
			return time.Time{}, true // without end, as far as anybody will look
		}
	}
	return until, open
}

// actionSet is a set of actions that change something; nil is both.
type actionSet map[Action]bool

func newActionSet(list []v1alpha1.WriteAction) actionSet {
	if len(list) == 0 {
		return nil
	}
	s := make(actionSet, len(list))
	for _, a := range list {
		s[Action(a)] = true
	}
	return s
}

func (s actionSet) has(a Action) bool { return s == nil || s[a] }
