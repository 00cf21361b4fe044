package policies

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// windowGate tells whether windows let an action run now; if not, why, and
// when they will.
func windowGate(windows []*window, action Action, now time.Time) (Block, bool) {
	detail, blockedAt := windowsAt(windows, action, now)
	if detail == "" {
		return Block{}, false
	}
	b := Block{By: GateWindow, Detail: detail}
	// Each step goes to the next time at which something changes; windows
	// that deny for ever end the search.
	for range 64 {
		if blockedAt.IsZero() {
			return b, true
		}
		var next string
		at := blockedAt
		if next, blockedAt = windowsAt(windows, action, at); next == "" {
			b.Until = at.UTC()
			return b, true
		}
	}
	return b, true
}

// windowsAt says which window holds the action back at t, and the next time
// worth looking at.
func windowsAt(windows []*window, action Action, t time.Time) (detail string, next time.Time) {
	var opens time.Time
	allows, allowed := false, false
	var first *window
	for _, w := range windows {
		if !w.actions.has(action) {
			continue
		}
		until, open := w.openAt(t)
		switch {
		case w.kind == v1alpha1.WindowDeny && open:
			return fmt.Sprintf("denied by the window at %s", w.Position), until
		case w.kind == v1alpha1.WindowAllow && open:
			allows, allowed = true, true
		case w.kind == v1alpha1.WindowAllow:
			allows = true
			if first == nil {
				first = w
			}
			if at := w.schedule.after(t); !at.IsZero() && (opens.IsZero() || at.Before(opens)) {
				opens = at
			}
		}
	}
	if allows && !allowed {
		return fmt.Sprintf("no allowing window is open; one is at %s", first.Position), opens
	}
	return "", time.Time{}
}
