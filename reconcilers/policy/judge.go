package policy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/policies"
)

// candidate is one source as it is now, with its last good version.
type candidate struct {
	policies.Source
	// generation of an object; 0 for a file.
	generation int64
	// good is the last version that was in effect, nil if there is none.
	good           []byte
	goodGeneration int64
	// unreadable says why there is no newer version than good.
	unreadable string
}

// result is what became of one source.
type result struct {
	candidate
	// problems of the newest version; errors among them mean that it is not in
	// effect.
	problems policies.Problems
	// inEffect says that some version is.
	inEffect bool
}

// valid reports whether the newest version is in effect.
func (r *result) valid() bool { return r.problems.Err() == nil }

// settle finds the set in which each source has its newest version if it is
// good, and its last good one otherwise. Sources that are in effect unchanged
// come first: where two sources contradict each other the newcomer is wrong. It
// is pure.
func settle(opts policies.Options, candidates []candidate) (*policies.Set, []result) {
	results := make([]result, len(candidates))
	byName := map[string]*result{}
	for i, c := range candidates {
		results[i] = result{candidate: c}
		byName[c.Name] = &results[i]
		if c.unreadable != "" {
			results[i].problems = policies.Problems{{Position: policies.Position{File: c.Name}, Code: "Unreadable", Message: c.unreadable}}
		}
	}
	use := map[string][]byte{} // nil is left out
	for _, c := range candidates {
		use[c.Name] = c.Data
		if c.unreadable != "" {
			use[c.Name] = c.good
		}
	}
	for {
		set, problems := policies.LoadSources(opts, ordered(results, use)...)
		wrong := worst(problems.Errors())
		if len(wrong) == 0 {
			for _, p := range problems { // warnings
				if r := byName[p.File]; r != nil {
					r.problems = add(r.problems, p)
				}
			}
			for i := range results {
				results[i].inEffect = use[results[i].Name] != nil
			}
			return set, results
		}
		if !retreat(wrong, byName, use) {
			// A problem of no source at all: cannot be, and nothing loaded is
			// the safe answer to it.
			return policies.Builtin(), results
		}
	}
}

// between are the codes of problems that a source may have because of another
// one: a rule that was in it, a name that is its.
var between = []string{"IncompleteRule", "DuplicatePolicy", "CannotPatch", "CannotReplace"}

// worst leaves out what may be the fault of another source while any source has
// a fault of its own.
func worst(wrong policies.Problems) policies.Problems {
	var own policies.Problems
	for _, p := range wrong {
		if !slices.Contains(between, p.Code) {
			own = append(own, p)
		}
	}
	if len(own) > 0 {
		return own
	}
	return wrong
}

// retreat takes each wrong source one step back: to its last good version, then
// out. It reports whether it could.
func retreat(wrong policies.Problems, byName map[string]*result, use map[string][]byte) bool {
	moved := map[string]bool{}
	for _, p := range wrong {
		r := byName[p.File]
		if r == nil || use[p.File] == nil && !moved[p.File] {
			continue
		}
		if moved[p.File] || bytes.Equal(use[p.File], r.Data) {
			r.problems = add(r.problems, p)
		}
		if moved[p.File] {
			continue
		}
		moved[p.File] = true
		if r.good != nil && !bytes.Equal(use[p.File], r.good) {
			use[p.File] = r.good
		} else {
			use[p.File] = nil
		}
	}
	return len(moved) > 0
}

// ordered gives the versions to load, those that are in effect already first.
func ordered(results []result, use map[string][]byte) []policies.Source {
	var established, others []policies.Source
	for i := range results {
		r := &results[i]
		data := use[r.Name]
		switch {
		case data == nil:
		case bytes.Equal(data, r.good):
			established = append(established, policies.Source{Name: r.Name, Data: data})
		default:
			others = append(others, policies.Source{Name: r.Name, Data: data})
		}
	}
	return append(established, others...)
}

func add(ps policies.Problems, p policies.Problem) policies.Problems {
	for _, known := range ps {
		if known == p {
			return ps
		}
	}
	return append(ps, p)
}

// objectPrefix begins the name of an object as a source.
const objectPrefix = "DriftPolicy/"

func isObject(name string) bool { return strings.HasPrefix(name, objectPrefix) }
