package aws

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// filterPaths are the filters that a snapshot can answer, with the field that
// each looks at (DescribeSubnets and DescribeSecurityGroups, Filters). The
// empty path is the resource's id, nameOf its name.
var filterPaths = map[string]map[string]string{
	providers.KindSubnet: {
		"subnet-id":               "",
		"vpc-id":                  pathVPCID,
		"availability-zone":       pathZone,
		"availabilityZone":        pathZone,
		"cidr-block":              pathCIDR,
		"cidrBlock":               pathCIDR,
		"cidr":                    pathCIDR,
		"map-public-ip-on-launch": pathMapPublicIP,
		"ipv6-cidr-block-association.ipv6-cidr-block": pathIPv6CIDR,
	},
	providers.KindSecurityGroup: {
		"group-id":    "",
		"group-name":  nameOf,
		"vpc-id":      pathVPCID,
		"description": pathDescription,
	},
}

const nameOf = "name"

// lookup gives the ids of the resources of a kind that match every filter, as
// the EC2 API would: values of one filter are alternatives, * and ? are
// wildcards, and case matters. The reason is empty unless the snapshot cannot
// answer.
func lookup(snap *providers.Snapshot, kind string, filters []infrav1.Filter) (found []*providers.Resource, why string) {
	if err, known := snap.Covered(kind, ""); err != nil || !known {
		return nil, notRead(kind, err)
	}
	for _, f := range filters {
		if _, ok := filterPaths[kind][f.Name]; !ok && f.Name != "tag-key" && !strings.HasPrefix(f.Name, "tag:") {
			return nil, fmt.Sprintf("the filter %q cannot be answered from what is read of a %s", f.Name, kind)
		}
	}
	for _, r := range ofKind(snap, kind) {
		if r.Gone == "" && r.Unknown == "" && matchesAll(r, kind, filters) {
			found = append(found, r)
		}
	}
	return found, ""
}

func notRead(kind string, err error) string {
	if err == nil {
		err = providers.ErrNotRead
	}
	return kind + " resources: " + err.Error()
}

func matchesAll(r *providers.Resource, kind string, filters []infrav1.Filter) bool {
	for _, f := range filters {
		if !slices.ContainsFunc(f.Values, func(pattern string) bool { return matches(r, kind, f.Name, pattern) }) {
			return false
		}
	}
	return true
}

func matches(r *providers.Resource, kind, filter, pattern string) bool {
	if key, ok := strings.CutPrefix(filter, "tag:"); ok {
		f, has := r.Fields.Lookup(providers.Pointer("tags", key))
		return has && wildcard(pattern, f.Value.Text())
	}
	if filter == "tag-key" {
		for path := range r.Fields.All() {
			if s := providers.Segments(path); len(s) == 2 && s[0] == "tags" && wildcard(pattern, s[1]) {
				return true
			}
		}
		return false
	}
	switch path := filterPaths[kind][filter]; path {
	case "":
		return wildcard(pattern, r.ID.Name)
	case nameOf:
		return wildcard(pattern, r.Name)
	default:
		return wildcard(pattern, textOf(r, path))
	}
}

// wildcard matches EC2's filter values: * is any text, ? any one character,
// and a backslash takes the next character as it is. It backtracks to the
// last star only, so its time is bounded by the product of the lengths.
func wildcard(pattern, s string) bool {
	p, text := []rune(pattern), []rune(s)
	pi, ti, star, mark := 0, 0, -1, 0
	for ti < len(text) {
		if pi < len(p) && p[pi] == '*' {
			star, mark = pi, ti
			pi++
			continue
		}
		if n := step(p, pi, text[ti]); n > 0 {
			pi += n
			ti++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		pi, ti = star+1, mark
	}
	for pi < len(p) && p[pi] == '*' {
		pi++
	}
	return pi == len(p)
}

// step gives the pattern's runes that one rune of the text uses up, 0 if it
// does not match.
func step(p []rune, pi int, r rune) int {
	switch {
	case pi >= len(p):
		return 0
	case p[pi] == '\\' && pi+1 < len(p):
		if p[pi+1] == r {
			return 2
		}
		return 0
	case p[pi] == '?' || p[pi] == r:
		return 1
	default:
		return 0
	}
}

// filterWords gives filters for people.
func filterWords(filters []infrav1.Filter) string {
	words := make([]string, len(filters))
	for i, f := range filters {
		words[i] = f.Name + "=" + strings.Join(f.Values, "|")
	}
	return strings.Join(words, " ")
}
