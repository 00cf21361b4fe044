package detector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// Threshold says when drift is too common to be the resources' own fault.
type Threshold struct {
	// Ratio of drifting owners that must be exceeded, 0 to 1. Zero turns mass
	// drift off.
	Ratio float64
	// AtLeast is how many owners must drift besides: in a scope of two, one
	// is half of it. Zero means 1.
	AtLeast int
}

// MassDrift is one group of owners of which too many drift at once. It opens
// the breaker; keeping that open until drift has cleared is the caller's.
type MassDrift struct {
	Scope providers.Scope
	// Zone is the group: a failure domain, or empty for the whole scope.
	Zone string
	// Drifting of Compared owners.
	Drifting, Compared int
	// Fingerprint names the group, not the numbers.
	Fingerprint string
}

// Ratio is the share of drifting owners.
func (m MassDrift) Ratio() float64 { return float64(m.Drifting) / float64(m.Compared) }

// Reason says it in one line.
func (m MassDrift) Reason() string {
	where := m.Scope.String()
	if m.Zone != "" {
		where += " zone " + m.Zone
	}
	return fmt.Sprintf("%d of %d owners in %s drift at once", m.Drifting, m.Compared, where)
}

// MassDrifts gives the scope as a whole and those of its zones that exceed the
// threshold, the whole first and zones in order. An owner counts as drifting
// if anything of it is drifted, missing, or absent and not confirmed yet, and
// as compared if anything of it was read: owners that could not be read make
// no group look healthier. It is pure.
func MassDrifts(results []Result, scope providers.Scope, t Threshold) []MassDrift {
	if t.Ratio <= 0 {
		return nil
	}
	groups := map[string]*MassDrift{"": {Scope: scope}}
	for i := range results {
		r := &results[i]
		drifting := r.Drifting()
		if !drifting && r.Checked == 0 {
			continue
		}
		for _, zone := range zonesOf(r.Owner) {
			g := groups[zone]
			if g == nil {
				g = &MassDrift{Scope: scope, Zone: zone}
				groups[zone] = g
			}
			g.Compared++
			if drifting {
				g.Drifting++
			}
		}
	}
	var out []MassDrift
	for _, g := range groups {
		if g.Drifting >= max(1, t.AtLeast) && g.Ratio() > t.Ratio {
			g.Fingerprint = massFingerprint(g)
			out = append(out, *g)
		}
	}
	slices.SortFunc(out, func(a, b MassDrift) int { return cmp.Compare(a.Zone, b.Zone) })
	return out
}

func zonesOf(o *providers.Owner) []string {
	if o.Zone == "" {
		return []string{""}
	}
	return []string{"", o.Zone}
}

func massFingerprint(m *MassDrift) string {
	where := strings.Join([]string{m.Scope.Account, m.Scope.Region, m.Zone}, "/")
	return Fingerprint(&Finding{
		Owner:    providers.OwnerRef{Kind: "MassDrift"},
		Resource: ResourceRef{Provider: m.Scope.Provider, Kind: "Scope", ID: where},
		Status:   Drifted,
	})
}
