package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// catalog answers what providers, kinds and paths there are.
type catalog struct {
	rows  []catalogRow
	names []string
	// silent says that a provider lists no rows, so that a kind which no other
	// provider has may still be its.
	silent bool
}

type catalogRow struct {
	provider string
	providers.CatalogRow
	segments []string
}

func newCatalog(byProvider map[string][]providers.CatalogRow) *catalog {
	c := &catalog{}
	for _, name := range slices.Sorted(maps.Keys(byProvider)) {
		c.names = append(c.names, name)
		c.silent = c.silent || len(byProvider[name]) == 0
		for _, r := range byProvider[name] {
			c.rows = append(c.rows, catalogRow{provider: name, CatalogRow: r, segments: providers.Segments(r.Path)})
		}
	}
	return c
}

// known reports whether there is a catalog to check against.
func (c *catalog) known() bool { return len(c.rows) > 0 }

// kinds of a provider, or of all if it is empty.
func (c *catalog) kinds(provider string) []string {
	var out []string
	for _, r := range c.rows {
		if provider == "" || r.provider == provider {
			out = append(out, r.Kind)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// of gives the rows of a provider and kind; empty stands for all.
func (c *catalog) of(provider, kind string) []catalogRow {
	var out []catalogRow
	for _, r := range c.rows {
		if (provider == "" || r.provider == provider) && (kind == "" || r.Kind == kind) {
			out = append(out, r)
		}
	}
	return out
}

// placeholder reports whether a row's segment stands for any one segment.
func placeholder(segment string) bool {
	return segment != "" && strings.ToUpper(segment) == segment && strings.ToLower(segment) != segment
}

// names reports whether the pattern names the row's field or something around
// it.
func (r *catalogRow) names(p pathPattern) bool {
	if len(p.segments) > len(r.segments) {
		return false
	}
	for i, s := range p.segments {
		if !placeholder(r.segments[i]) && !glob(s, r.segments[i]) {
			return false
		}
	}
	return true
}

// statePath is the path of every missing resource's one diff, whether or not
// its kind has a state to compare.
const statePath = "/state"

// checkTarget says what is wrong with a target and its paths; at gives the
// places of target.provider, target.kind and paths[i]. Paths beside a wrong
// provider or kind are checked against the one that was likely meant.
func (c *catalog) checkTarget(provider, kind string, paths []pathPattern, at func(part string) Position) Problems {
	if !c.known() {
		return nil
	}
	provider, kind, out := c.likely(provider, kind, at)
	rows := c.of(provider, kind)
	if len(rows) == 0 {
		return out
	}
	for i, p := range paths {
		if !p.wellFormed() || p.source == statePath || slices.ContainsFunc(rows, func(r catalogRow) bool { return r.names(p) }) {
			continue
		}
		var known []string
		for _, r := range rows {
			known = append(known, r.Path)
		}
		hint := "see the catalog of drift for the paths there are"
		if n := nearest(p.source, known); n != "" {
			hint = fmt.Sprintf("did you mean %s?", n)
		}
		out = append(out, Problem{Position: at(fmt.Sprintf("paths[%d]", i)), Code: "UnknownPath",
			Message: fmt.Sprintf("%s has no field %s", orAny(kind), p.source), Hint: hint})
	}
	return out
}

// likely gives a target's provider and kind, each replaced by the one that was
// likely meant where it is not known, and says so. A kind that nothing is like
// stays, and has no rows.
func (c *catalog) likely(provider, kind string, at func(part string) Position) (likelyProvider, likelyKind string, out Problems) {
	if provider != "" && !slices.Contains(c.names, provider) {
		out = append(out, Problem{Position: at("target.provider"), Code: "UnknownProvider",
			Message: fmt.Sprintf("no provider is called %q", provider), Hint: suggest(provider, c.names)})
		provider = nearest(provider, c.names)
	}
	if c.silent && len(c.of(provider, kind)) == 0 {
		return provider, kind, out
	}
	kinds := c.kinds(provider)
	if kind == "" || slices.Contains(kinds, kind) {
		return provider, kind, out
	}
	p := Problem{Position: at("target.kind"), Code: "UnknownKind",
		Message: fmt.Sprintf("no resource kind is called %q%s", kind, ofProvider(provider)), Hint: suggest(kind, kinds)}
	if others := c.of("", kind); provider != "" && len(others) > 0 {
		provider = others[0].provider
		p.Hint = fmt.Sprintf("provider %s has it", provider)
	} else if n := nearest(kind, kinds); n != "" {
		kind = n
	}
	return provider, kind, append(out, p)
}

// checkPatch says which paths cannot be patched at all.
func (c *catalog) checkPatch(provider, kind string, paths []pathPattern, at func(part string) Position) Problems {
	var out Problems
	rows := c.of(provider, kind)
	for i, p := range paths {
		var why providers.Mutability
		named, patchable := false, false
		for _, r := range rows {
			if r.names(p) {
				named, why = true, r.Mutability
				patchable = patchable || canPatch(r.Mutability)
			}
		}
		if !named || patchable {
			continue
		}
		hint := "use observe or replace"
		if why == providers.ReadOnly {
			hint = "use observe: there is nothing to write"
		}
		out = append(out, Problem{Position: at(fmt.Sprintf("paths[%d]", i)), Code: "CannotPatch",
			Message: fmt.Sprintf("%s of %s cannot be patched", p.source, orAny(kind)), Hint: hint})
	}
	return out
}

func canPatch(m providers.Mutability) bool {
	return m == providers.InPlace || m == providers.InPlaceDisruptive
}

// clusterKinds are the kinds that belong to a cluster, not to a machine.
// Replacing works through the Machine, so it cannot be asked for them.
var clusterKinds = []string{providers.KindVPC, providers.KindSubnet, providers.KindInternetGateway, providers.KindNATGateway,
	providers.KindRouteTable, providers.KindNetworkACL, providers.KindSecurityGroup, providers.KindLoadBalancer}

func suggest(word string, known []string) string {
	if n := nearest(word, known); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return "known are " + strings.Join(known, ", ")
}

func ofProvider(provider string) string {
	if provider == "" {
		return ""
	}
	return " in provider " + provider
}

func orAny(kind string) string {
	if kind == "" {
		return "any resource"
	}
	return kind
}
