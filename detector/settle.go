package detector

import (
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// Unconfirmed names the resources whose absence awaits a live read, each once
// and in order. The caller hands them to [providers.Provider.Confirm] and the
// answer to [Settle].
func Unconfirmed(results ...Result) []providers.ID {
	var ids []providers.ID
	for i := range results {
		for _, f := range results[i].Findings {
			if f.Tentative {
				ids = append(ids, f.Want.ID)
			}
		}
	}
	slices.SortFunc(ids, func(a, b providers.ID) int {
		if c := strings.Compare(a.Kind, b.Kind); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return slices.Compact(ids)
}

// Settle decides each tentative absence of a result by a live read:
//
//   - absent again, and older than the creation grace: Missing;
//   - absent again, and younger, or of unknown age: Unknown;
//   - not readable, or no confirmation at all (nil): Unknown;
//   - found: compared as if the snapshot had held it.
//
// It is pure and leaves its arguments as they are.
func Settle(r Result, snap *providers.Snapshot, c *providers.Confirmation, opt Options) Result {
	out := r
	out.Findings = make([]Finding, 0, len(r.Findings))
	out.InSync = slices.Clone(r.InSync)
	for i := range r.Findings {
		f := &r.Findings[i]
		if !f.Tentative {
			out.Findings = append(out.Findings, *f)
			continue
		}
		out.NotChecked -= weight(f.Want)
		out.add(settle(r.Owner, f.Want, snap, c, opt))
	}
	Sort(out.Findings)
	return out
}

func settle(owner *providers.Owner, w *providers.Resource, snap *providers.Snapshot, c *providers.Confirmation, opt Options) verdict {
	if c == nil {
		return single(owner, snap, w, nil, Unknown, "absent from the snapshot, and could not be read again")
	}
	if err, ok := c.Unconfirmed[w.ID]; ok {
		cause := "no reason given"
		if err != nil {
			cause = oneLine(err.Error())
		}
		return single(owner, snap, w, nil, Unknown, "absent from the snapshot, and could not be read again: "+cause)
	}
	if have := c.Resources[w.ID]; have != nil {
		return compareSeen(owner, w, have, snap, opt)
	}
	if a := ageOf(owner, w, snap, opt); a != old {
		return single(owner, snap, w, nil, Unknown, a.reason())
	}
	return missing(owner, w, nil, snap, "absent from the snapshot, and absent again when read live")
}

// age is a resource's age as far as it matters to its absence.
type age int

const (
	old age = iota // past the creation grace
	young
	ageless // nothing says when it was made
)

// reason holds no time, so that it stays the same from run to run.
func (a age) reason() string {
	if a == young {
		return "absent, and recorded so lately that the cloud may not show it yet"
	}
	return "absent, and of unknown age: neither it nor its owner has a creation time"
}

// ageOf takes the owner's age where the provider knows none of the resource's
// own. An owner from a file without times is at rest, so nothing is being made
// from it.
func ageOf(owner *providers.Owner, w *providers.Resource, snap *providers.Snapshot, opt Options) age {
	since := w.Since
	if since.IsZero() && owner.Infra != nil {
		since = owner.Infra.GetCreationTimestamp().Time
	}
	if since.IsZero() {
		if owner.Source != "" {
			return old
		}
		return ageless
	}
	now, grace := opt.Now, opt.CreationGrace
	if now.IsZero() {
		now = snap.TakenAt
	}
	if grace == 0 {
		grace = DefaultCreationGrace
	}
	if now.Sub(since) <= grace {
		return young
	}
	return old
}
