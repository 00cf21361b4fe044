package vsphere

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// markDuplicates makes every machine that shares a UUID with another one
// Unknown, since nothing tells which of them an owner means: clones made
// outside vCenter, and failovers, share BIOS UUIDs. Machines that share an
// instance UUID share an id; one resource with the reason stands for them.
func markDuplicates(machines []*providers.Resource) []*providers.Resource {
	slices.SortFunc(machines, func(a, b *providers.Resource) int {
		return cmp.Or(strings.Compare(a.ID.Name, b.ID.Name), strings.Compare(moid(a), moid(b)))
	})
	byBIOS := map[string][]*providers.Resource{}
	byID := map[string][]*providers.Resource{}
	for _, m := range machines {
		if bios := m.Fields.Get("/biosUuid").Value.Text(); bios != "" {
			byBIOS[bios] = append(byBIOS[bios], m)
		}
		byID[m.ID.Name] = append(byID[m.ID.Name], m)
	}
	for bios, same := range byBIOS {
		markSame(same, "BIOS UUID "+bios)
	}
	for id, same := range byID {
		markSame(same, "instance UUID "+id)
	}
	out := make([]*providers.Resource, 0, len(byID))
	for _, m := range machines {
		if len(out) == 0 || out[len(out)-1].ID != m.ID {
			out = append(out, m)
		}
	}
	return out
}

func markSame(machines []*providers.Resource, what string) {
	if len(machines) < 2 {
		return
	}
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = fmt.Sprintf("%s (%s)", m.Name, moid(m))
	}
	slices.Sort(names)
	for _, m := range machines {
		m.Unknown = fmt.Sprintf("%d virtual machines have %s: %s", len(machines), what, strings.Join(names, ", "))
	}
}

func moid(r *providers.Resource) string { return r.Fields.Get("/moid").Value.Text() }
