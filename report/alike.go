package report

import (
	"encoding/json"
	"slices"
	"strings"
)

// What reads the same but for names stands together: resources of one owner,
// machines of one pool, and what could not be compared for one reason.

// join puts resources of the owner that drifted alike into one finding, which
// stands where the first of them stood: six route tables that are gone are one
// thing to know.
func (g *group) join() {
	out := g.findings[:0:0]
	at := map[string]int{}
	for _, f := range g.findings {
		key, err := json.Marshal(f.likeness())
		if i, ok := at[string(key)]; ok && err == nil {
			out[i].resources = append(out[i].resources, f.resources...)
			out[i].merge(f.Finding)
			continue
		}
		at[string(key)] = len(out)
		out = append(out, f)
	}
	g.findings = out
}

// joinAlike puts owners of one pool with equal findings into one group, which
// stands where the first of them stood.
func joinAlike(owners []group) []group {
	var out []group
	at := map[string]int{}
	for _, g := range owners {
		key, ok := g.likeness()
		if i, seen := at[key]; ok && seen {
			into := &out[i]
			into.owners = append(into.owners, g.owners[0])
			for j := range into.findings {
				into.findings[j].machines = true
				into.findings[j].resources = append(into.findings[j].resources, g.findings[j].resources...)
				into.findings[j].merge(g.findings[j].Finding)
			}
			continue
		}
		at[key] = len(out)
		out = append(out, g)
	}
	return out
}

// merge keeps the earliest time that any of the group's findings was seen.
func (f *groupFinding) merge(other *Finding) {
	if first := earliest(f.FirstSeen, other.FirstSeen); first != f.FirstSeen {
		changed := *f.Finding
		changed.FirstSeen = first
		f.Finding = &changed
	}
}

// likeness is equal for owners whose findings read the same but for their
// names. Only machines of a pool can be alike.
func (g *group) likeness() (string, bool) {
	if g.pool == "" || g.orphaned() {
		return "", false
	}
	key := make([]alike, len(g.findings))
	for i := range g.findings {
		key[i] = g.findings[i].likeness()
	}
	text, err := json.Marshal([]any{g.pool, g.owners[0].Kind, key})
	return string(text), err == nil
}

// alike is what two findings have in common that read the same but for their
// names.
type alike struct {
	Kind, Status, Severity, Action, Rule, Since, Reason string
	Resources                                           int
	RuleAt                                              any
	Diffs                                               []Diff
	Blocks                                              []Block
	Ignored                                             *Ignored
	Warnings                                            []string
}

func (f *groupFinding) likeness() alike {
	key := alike{
		Kind: f.Resource.Kind, Status: string(f.Status), Severity: string(f.Severity),
		Action: string(f.Action), Rule: f.Rule, Since: string(f.Since), Reason: f.generic(f.Reason),
		Resources: len(f.resources), RuleAt: f.RuleAt, Diffs: f.Diffs, Blocks: slices.Clone(f.Blocks), Ignored: f.Ignored,
	}
	for i := range key.Blocks {
		key.Blocks[i].Detail = f.generic(key.Blocks[i].Detail)
	}
	for _, w := range f.Warnings {
		key.Warnings = append(key.Warnings, f.generic(w))
	}
	return key
}

// generic takes the finding's own names out of a text, so that the same
// trouble of several resources reads the same.
func (f *Finding) generic(text string) string {
	for _, own := range []string{f.Resource.ID, f.Owner.Name, f.Resource.Name} {
		if len(own) > 2 {
			text = strings.ReplaceAll(text, own, "\x00")
		}
	}
	return text
}
