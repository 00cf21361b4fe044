package ec2sim

import (
	"slices"
	"strings"
)

// filterIn is one Filter.N of a request.
type filterIn struct {
	Name  string
	Value []string
}

// filterIns are embedded in the request structs of filtered reads.
type filterIns struct{ Filter []filterIn }

// filters give the values of each filter of a kind. Tag filters need none.
type filters[T resource] map[string]func(T) []string

// maxFilterValues is the documented limit of values in one request ("Filtering
// using the API": FilterLimitExceeded over 200).
const maxFilterValues = 200

// condition joins a request's filters: all must hold, by any of their values;
// values may hold * and ?, and case matters.
func condition[T resource](c *call, in filterIns, fields filters[T]) (func(T) bool, *apiError) {
	if len(in.Filter) == 0 {
		return func(T) bool { return true }, nil
	}
	total := 0
	for _, f := range in.Filter {
		total += len(f.Value)
		if _, known := fields[f.Name]; !known && f.Name != "tag-key" && !strings.HasPrefix(f.Name, "tag:") {
			return nil, failf("InvalidParameterValue", "The filter '%s' is invalid", f.Name)
		}
		if len(f.Value) == 0 {
			return nil, failf("InvalidParameterValue", "The filter '%s' has no values", f.Name)
		}
	}
	if total > maxFilterValues {
		return nil, failf("FilterLimitExceeded", "The maximum number of filter values on a single request is %d", maxFilterValues)
	}
	return func(v T) bool {
		for _, f := range in.Filter {
			var values []string
			if field := fields[f.Name]; field != nil {
				values = field(v)
			} else {
				values = v.base().TagSet.filterValues(f.Name, c.now)
			}
			if !slices.ContainsFunc(values, func(value string) bool {
				return slices.ContainsFunc(f.Value, func(pattern string) bool { return wildcard(pattern, value) })
			}) {
				return false
			}
		}
		return true
	}, nil
}

// wildcard matches * and ?; a backslash takes the next character literally.
// It runs in time linear in the product of both lengths at worst.
func wildcard(pattern, text string) bool {
	if !strings.ContainsAny(pattern, `*?\`) {
		return pattern == text
	}
	star, mark, p, t := -1, 0, 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == '?':
			p, t = p+1, t+1
		case p+1 < len(pattern) && pattern[p] == '\\' && pattern[p+1] == text[t]:
			p, t = p+2, t+1
		case p < len(pattern) && pattern[p] != '\\' && pattern[p] == text[t]:
			p, t = p+1, t+1
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one makes a filter's values from a single one; an absent value is none.
func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

func yesNo(value bool) []string {
	if value {
		return []string{"true"}
	}
	return []string{"false"}
}
