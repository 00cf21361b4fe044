package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Bounds of a message. A condition may hold 10 KiB in each contract, and an
// event's note 1 KiB; nobody reads more than a few lines of either.
const (
	maxValue   = 80
	maxName    = 120
	maxReason  = 240
	maxCause   = 400 // bytes
	maxDiffs   = 6
	maxEntries = 8
	maxNames   = 3
	maxMessage = 4096 // bytes
	maxNote    = 900  // bytes
)

var (
	cleanValue  = providers.Cleaner{Max: maxValue}
	cleanName   = providers.Cleaner{Max: maxName}
	cleanReason = providers.Cleaner{Max: maxReason}
)

// driftMessage tells for each resource what differs, what follows and which
// gates hold that back. It holds no time and nothing that counts up while the
// drift stays the same, and its order is that of its own words.
func driftMessage(drifts []*policies.Decision) string {
	entries := make([]string, 0, len(drifts))
	for _, d := range drifts {
		entries = append(entries, driftEntry(d))
	}
	return list(entries)
}

func driftEntry(d *policies.Decision) string {
	f := &d.Finding
	var b strings.Builder
	b.WriteString(resourceName(&f.Resource))
	switch {
	case f.Status == detector.Missing:
		b.WriteString(" is missing: " + cleanReason.Clean(f.Reason))
	case f.Status == detector.Unexpected && len(f.Diffs) == 0:
		b.WriteString(" is not wanted: " + cleanReason.Clean(f.Reason))
	default:
		b.WriteString(": " + diffs(f.Diffs))
	}
	b.WriteString(" (" + consequence(d) + ")")
	return b.String()
}

// consequence says what the decision is and which gates hold it back, by name:
// their details count and tell times.
func consequence(d *policies.Decision) string {
	if d.Action != policies.Patch && d.Action != policies.Replace {
		return string(policies.Observe)
	}
	if len(d.Blocked) == 0 {
		return string(d.Action)
	}
	names := make([]string, len(d.Blocked))
	for i, b := range d.Blocked {
		names[i] = b.By
	}
	return string(d.Action) + " held back by " + strings.Join(names, ", ")
}

func diffs(ds []detector.Diff) string {
	parts := make([]string, 0, len(ds))
	for i := range ds {
		parts = append(parts, diff(&ds[i]))
	}
	return joined(parts, maxDiffs, ", ")
}

func diff(d *detector.Diff) string {
	path := cleanName.Clean(d.Path)
	switch {
	case d.Sensitive:
		return path + " differs"
	case d.Element && d.Type == detector.Added:
		return path + " has " + value(d.Have) + " too much"
	case d.Element && d.Type == detector.Removed:
		return path + " lacks " + value(d.Want)
	case d.Type == detector.Added:
		return path + " is " + value(d.Have) + ", wanted absent"
	case d.Type == detector.Removed:
		return path + " is absent, wanted " + value(d.Want)
	default:
		return path + " is " + value(d.Have) + ", wanted " + value(d.Want)
	}
}

func value(v providers.Value) string {
	if v.IsAbsent() {
		return "absent"
	}
	return cleanValue.Clean(v.Text())
}

// gapMessage says what could not be compared, and why.
func gapMessage(gaps []*policies.Decision) string {
	entries := make([]string, 0, len(gaps))
	for _, d := range gaps {
		entries = append(entries, resourceName(&d.Finding.Resource)+": "+cleanReason.Clean(d.Finding.Reason))
	}
	return list(entries)
}

func resourceName(r *detector.ResourceRef) string {
	id := r.ID
	if id == "" {
		id = r.Name
	}
	return strings.TrimSpace(r.Kind + " " + cleanName.Clean(id))
}

// list sorts the entries and joins the first of them.
func list(entries []string) string {
	slices.Sort(entries)
	return bounded(joined(slices.Compact(entries), maxEntries, "; "), maxMessage)
}

func joined(parts []string, limit int, separator string) string {
	if len(parts) <= limit {
		return strings.Join(parts, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(parts[:limit], separator), separator, len(parts)-limit)
}

// bounded cuts a message to a number of bytes and an ellipsis.
func bounded(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	cut := limit
	for cut > 0 && message[cut]&0xc0 == 0x80 { // not within a character
		cut--
	}
	return message[:cut] + "…"
}
