package policies

import (
	"maps"
	"slices"
)

// mergeRules merges rules by id. A rule stands where the most specific policy
// that speaks of it puts it.
func (e *Effective) mergeRules(ordered []*policy) {
	byID := map[string]*rule{}
	for _, p := range ordered {
		for _, r := range p.rules {
			merged := merge(byID[r.ID], r)
			if byID[r.ID] != nil {
				e.rules = slices.DeleteFunc(e.rules, func(x *rule) bool { return x.ID == r.ID })
			}
			byID[r.ID] = merged
			e.rules = append(e.rules, merged)
		}
	}
}

// merge lays r over base; base may be nil. Neither is changed.
func merge(base, r *rule) *rule {
	if base == nil {
		return r
	}
	m := *base
	m.policy, m.Position = r.policy, r.Position
	m.from = maps.Clone(base.from)
	maps.Copy(m.from, r.from)
	for field := range r.from {
		switch field {
		case "target":
			m.Target = r.Target
		case "paths":
			m.Paths, m.paths = r.Paths, r.paths
		case "when":
			m.When, m.when = r.When, r.when
		case "severity":
			m.Severity = r.Severity
		case "action":
			m.Action = r.Action
		case "grace":
			m.Grace = r.Grace
		case "approval":
			m.Approval = r.Approval
		case "attempts":
			m.Attempts = r.Attempts
		case "disruptive":
			m.Disruptive = r.Disruptive
		case "replace":
			m.Replace = r.Replace
		}
	}
	return &m
}
