package policies

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Options are what a loader needs to know beyond the files.
type Options struct {
	// Catalog has the rows of every registered provider by its name. Unknown
	// providers, kinds and paths are errors. Without a catalog they are not
	// checked.
	Catalog map[string][]providers.CatalogRow
	// Now is when ignore entries count as expired, which is a warning. The
	// zero time leaves that out.
	Now time.Time
	// Sources are loaded with the files: standard input, objects.
	Sources []Source
}

// Source is one file or object to load.
type Source struct {
	// Name is a path, or "DriftPolicy/NAME" for an object.
	Name string
	Data []byte
}

// Set is the built-in policies and those that were loaded. It is immutable and
// safe for concurrent use.
type Set struct {
	// policies in the order of precedence, the weakest first; for one cluster
	// the order within a level also depends on how it is named.
	policies []*policy
	// held is where a policy stands that should be among them and is not.
	held *Position
}

// Held gives the same policies with no mode above observe. It is for when one
// that may be stricter than the others cannot be used and no earlier version of
// it is known: what the others would enforce in its place, nobody asked for. at
// says which one.
func (s *Set) Held(at Position) *Set {
	if s == nil {
		s = Builtin()
	}
	out := *s
	out.held = &at
	return &out
}

//go:embed defaults/*.yaml
var defaultFiles embed.FS

// builtinPrefix begins the file of a built-in policy's position.
const builtinPrefix = "builtin/"

// builtinPolicies are compiled once. That they can be is tested; a failure
// means that the binary itself is broken.
var builtinPolicies = sync.OnceValue(func() []*policy {
	ps, problems := compileBuiltin(newCatalog(nil))
	if err := problems.Err(); err != nil {
		panic(fmt.Sprintf("built-in policies: %v", err))
	}
	return ps
})

func compileBuiltin(cat *catalog) ([]*policy, Problems) {
	entries, err := defaultFiles.ReadDir("defaults")
	if err != nil {
		return nil, Problems{{Position: Position{File: builtinPrefix}, Code: "Unreadable", Message: err.Error()}}
	}
	var out []*policy
	var all Problems
	for _, e := range entries {
		data, err := defaultFiles.ReadFile(path.Join("defaults", e.Name()))
		if err != nil {
			all = append(all, Problem{Position: Position{File: builtinPrefix + e.Name()}, Code: "Unreadable", Message: err.Error()})
			continue
		}
		ps, problems := compileSource(Source{Name: builtinPrefix + e.Name(), Data: data}, cat)
		for _, p := range ps {
			p.level = levelBuiltin
		}
		out, all = append(out, ps...), append(all, problems...)
	}
	return out, all
}

// CheckBuiltin gives what a catalog has against the built-in policies: kinds
// and paths that no provider knows. Rules on kinds that no provider of the
// catalog has are left out, since a binary may hold fewer clouds.
func CheckBuiltin(opts Options) Problems {
	_, problems := compileBuiltin(newCatalog(opts.Catalog))
	return slices.DeleteFunc(problems, func(p Problem) bool { return p.Code == "UnknownProvider" || p.Code == "UnknownKind" })
}

// Builtin is the built-in policies alone.
func Builtin() *Set { return &Set{policies: builtinPolicies()} }

// Load reads policies from files and folders. Where a problem is an error the
// set is nil; warnings come with a set. All problems are found at once.
func Load(opts Options, paths ...string) (*Set, Problems) {
	sources, problems := readSources(paths)
	set, more := LoadSources(opts, append(opts.Sources, sources...)...)
	problems = append(problems, more...)
	problems.sort()
	if problems.Err() != nil {
		return nil, problems
	}
	return set, problems
}

// LoadSources is Load for policies that have been read already.
func LoadSources(opts Options, sources ...Source) (*Set, Problems) {
	cat := newCatalog(opts.Catalog)
	var loaded []*policy
	var problems Problems
	for _, src := range sources {
		ps, more := compileSource(src, cat)
		if len(ps) == 0 && len(more) == 0 {
			more = Problems{{Position: Position{File: src.Name, Line: 1, Column: 1}, Code: "Empty",
				Message: "the file holds no DriftPolicy", Hint: "remove it, or write one"}}
		}
		loaded, problems = append(loaded, ps...), append(problems, more...)
	}
	problems = append(problems, checkTogether(loaded, cat)...)
	if !opts.Now.IsZero() {
		problems = append(problems, expired(loaded, opts.Now)...)
	}
	problems.sort()
	if problems.Err() != nil {
		return nil, problems
	}
	return &Set{policies: append(append([]*policy(nil), builtinPolicies()...), loaded...)}, problems
}

func compileSource(src Source, cat *catalog) ([]*policy, Problems) {
	docs, problems := parseDocuments(src)
	var out []*policy
	for _, root := range docs {
		p, more := compilePolicy(src, root, cat)
		problems = append(problems, more...)
		if p != nil {
			out = append(out, p)
		}
	}
	return out, problems
}

// checkTogether finds what only shows when policies are seen beside each
// other: names given twice, and rules that are incomplete without a rule of a
// weaker policy to change.
func checkTogether(loaded []*policy, cat *catalog) Problems {
	var out Problems
	names := map[string]Position{}
	for _, p := range builtinPolicies() {
		names[p.name] = p.Position
	}
	for _, p := range loaded {
		at := p.doc.pos("metadata.name")
		if first, twice := names[p.name]; twice && p.name != "" {
			out = append(out, Problem{Position: at, Code: "DuplicatePolicy",
				Message: fmt.Sprintf("the name %q is taken by the policy at %s", p.name, first), Hint: "give each policy a name of its own"})
		} else {
			names[p.name] = at
		}
		for i, r := range p.rules {
			out = append(out, checkMerged(p, i, r, loaded, cat)...)
		}
	}
	return out
}

// changed gives the weaker rules that r changes as one, nil if there are none,
// and the ids of all that it might change.
func changed(p *policy, r *rule, loaded []*policy) (base *rule, ids []string) {
	for _, weaker := range append(append([]*policy(nil), builtinPolicies()...), loaded...) {
		if weaker.level >= p.level {
			continue
		}
		for _, w := range weaker.rules {
			ids = append(ids, w.ID)
			if w.ID == r.ID {
				base = merge(base, w)
			}
		}
	}
	return base, ids
}

// incomplete names what a rule lacks that changes no other; ids are those that
// it may have meant.
func incomplete(r *rule, ids []string) (out Problems) {
	for _, field := range []string{"target", "action"} {
		if _, set := r.from[field]; set {
			continue
		}
		hint := "add it"
		if n := nearest(r.ID, ids); n != "" {
			hint = fmt.Sprintf("add it, or did you mean to change the rule %q?", n)
		}
		out = append(out, Problem{Position: r.Position, Code: "IncompleteRule",
			Message: fmt.Sprintf("rule %q has no %s, and no weaker policy has a rule of that id", r.ID, field), Hint: hint})
	}
	return out
}

// checkMerged checks one rule together with the weaker rules that it changes.
func checkMerged(p *policy, i int, r *rule, loaded []*policy, cat *catalog) Problems {
	if r.ID == "" {
		return nil
	}
	base, ids := changed(p, r, loaded)
	at := func(part string) Position { return p.at(fmt.Sprintf("rules[%d].%s", i, part)) }
	var out Problems
	if base == nil {
		out = incomplete(r, ids)
	}
	m := merge(base, r)
	out = append(out, warnMerged(p, i, r, m, cat)...)
	var provider, kind string
	if m.Target != nil {
		provider, kind = m.Target.Provider, m.Target.Kind
	}
	if m.Action == v1alpha1.ActionPatch {
		out = append(out, cat.checkPatch(provider, kind, m.paths, func(part string) Position {
			if _, own := r.from["paths"]; own {
				return at(part)
			}
			return at("action")
		})...)
	}
	if only := statusesOf(m); m.Action == v1alpha1.ActionPatch && len(only) > 0 && !slices.Contains(only, v1alpha1.Status(detector.Drifted)) {
		hint := "use observe"
		if !isClusterKind(kind) && slices.Contains(only, v1alpha1.Status(detector.Missing)) {
			hint = "use observe, or replace for machines"
		}
		out = append(out, Problem{Position: at("action"), Code: "CannotPatch",
			Message: fmt.Sprintf("what is %s cannot be patched: patching sets fields of what exists and is Drifted", listStatuses(only)), Hint: hint})
	}
	if m.Action == v1alpha1.ActionReplace && isClusterKind(kind) {
		out = append(out, Problem{Position: at("action"), Code: "CannotReplace",
			Message: fmt.Sprintf("%s cannot be replaced: it belongs to a cluster, and only machines are replaced", kind), Hint: "use observe or patch"})
	}
	return out
}

// statusesOf gives the statuses that a rule names.
func statusesOf(r *rule) []v1alpha1.Status {
	if r.Target == nil {
		return nil
	}
	return r.Target.Statuses
}

func listStatuses(all []v1alpha1.Status) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = string(s)
	}
	return strings.Join(words, " or ")
}

// warnMerged warns of a rule r that comes to m together with weaker ones.
func warnMerged(p *policy, i int, r, m *rule, cat *catalog) Problems {
	path := fmt.Sprintf("rules[%d]", i)
	var out Problems
	if r.Target == nil { // with a target of its own it was checked by itself
		out = p.checkFields(cat, path, m.Target, r.when)
	}
	if s := hiddenStatus(m.Target); s >= 0 && m.Action == v1alpha1.ActionIgnore {
		out = append(out, Problem{Position: p.at(path + ".action"), Warning: true, Code: "HidesNotChecked", Hint: "use observe, or name an id or a name so that little is hidden",
			Message: fmt.Sprintf("rule %q hides what is %s: a report that could not look then ends as if all were in sync", r.ID, m.Target.Statuses[s])})
	}
	return out
}

func expired(loaded []*policy, now time.Time) Problems {
	var out Problems
	for _, p := range loaded {
		for i, ig := range p.ignores {
			if !ig.expires.IsZero() && !now.Before(ig.expires) {
				out = append(out, Problem{Position: p.at(fmt.Sprintf("ignore[%d].expiresAt", i)), Code: "ExpiredIgnore", Warning: true,
					Message: fmt.Sprintf("this entry ended on %s and ignores nothing", ig.ExpiresAt), Hint: "remove it, or renew it"})
			}
		}
	}
	return out
}
