package policies

import (
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// glob matches text against a pattern in which * stands for any run of
// characters, also none. It takes time linear in pattern times text, whatever
// the pattern: patterns come from users.
func glob(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// optionalGlob is glob, where an empty pattern is no opinion.
func optionalGlob(pattern, text string) bool { return pattern == "" || glob(pattern, text) }

// pathPattern is a JSON pointer whose segments may hold *. It covers the path
// it names and everything under it.
type pathPattern struct {
	source   string
	segments []string
}

func newPathPattern(source string) pathPattern {
	return pathPattern{source: source, segments: providers.Segments(source)}
}

func (p pathPattern) matches(segments []string) bool {
	if len(p.segments) > len(segments) {
		return false
	}
	for i, s := range p.segments {
		if !glob(s, segments[i]) {
			return false
		}
	}
	return true
}

// covers reports whether every path that q covers is covered by p. It may say
// no where a closer look would say yes.
func (p pathPattern) covers(q pathPattern) bool {
	if len(p.segments) > len(q.segments) {
		return false
	}
	for i, s := range p.segments {
		if !globCovers(s, q.segments[i]) {
			return false
		}
	}
	return true
}

// globCovers reports whether pattern matches everything that other matches. A
// star in other is matched only by a star: the letter * cannot stand in a path
// literally, so treating it as text is exact for the patterns that occur.
func globCovers(pattern, other string) bool { return glob(pattern, other) }

func matchesAny(patterns []pathPattern, path string) bool {
	segments := providers.Segments(path)
	for _, p := range patterns {
		if p.matches(segments) {
			return true
		}
	}
	return false
}

// Nearest gives the candidate that is most like a word that was misspelt; nothing
// if none is near.
func Nearest(word string, candidates []string) string { return nearest(word, candidates) }

// nearest gives the candidate that is most like the word, or "" if none is
// like it.
func nearest(word string, candidates []string) string {
	// Short words are near to everything, so they may differ by less.
	best, bestDistance := "", max(1, (len(word)+1)/3)+1
	for _, c := range candidates {
		if strings.EqualFold(word, c) && c != word {
			return c
		}
		if d := distance(word, c, bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete, change or swap with
// their neighbour (optimal string alignment). Words longer than 64 bytes, or
// whose lengths differ by the limit, are just far apart.
func distance(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || max(len(a)-len(b), len(b)-len(a)) >= limit {
		return limit
	}
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
