package ec2sim

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// pageIn are the parameters of a paged EC2 read.
type pageIn struct {
	MaxResults *int
	NextToken  string
}

// limits of a read's MaxResults, and whether ids exclude it.
type limits struct {
	least, most int
	// idsExclude is the name of the id list that cannot be combined with
	// MaxResults.
	idsExclude string
}

var (
	usualLimits = limits{least: 5, most: 1000}
	// The reference of DescribeInstances, MaxResults: "You cannot specify this
	// parameter and the instance IDs parameter in the same request."
	instanceLimits = limits{least: 5, most: 1000, idsExclude: "instancesSet"}
	volumeLimits   = limits{least: 5, most: 1000, idsExclude: "volumeSet"}
)

func (l limits) check(p pageIn, ids int) *apiError {
	if p.MaxResults == nil {
		return nil
	}
	n := *p.MaxResults
	switch {
	case n > l.most:
		return failf("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value less than "+
			"or equal to %d.", n, l.most)
	case n < l.least:
		return failf("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater "+
			"than or equal to %d.", n, l.least)
	case ids > 0 && l.idsExclude != "":
		return failf("InvalidParameterCombination", "The parameter %s cannot be used with the parameter maxResults", l.idsExclude)
	}
	return nil
}

// A page token names the action, its page number and where the page starts.

func (c *call) token(page int, seq uint64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %d", c.action.name, page, seq))
}

func parseToken(token string) (action string, page int, seq uint64, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, 0, false
	}
	parts := strings.Split(string(raw), " ")
	if len(parts) != 3 {
		return "", 0, 0, false
	}
	page, errPage := strconv.Atoi(parts[1])
	seq, errSeq := strconv.ParseUint(parts[2], 10, 64)
	return parts[0], page, seq, errPage == nil && errSeq == nil && page > 0
}

// pageNumber is the page that a request asks for, from 1.
func pageNumber(form url.Values) int {
	for _, name := range []string{"NextToken", "Marker"} {
		if _, page, _, ok := parseToken(form.Get(name)); ok {
			return page
		}
	}
	return 1
}

// list answers a paged read: the resources by ids or, without ids, all, that
// pass the condition, one page of them, and the token of the next.
func list[T resource](c *call, t *table[T], ids []string, keep func(T) bool, p pageIn, l limits) ([]T, string, *apiError) {
	if err := l.check(p, len(ids)); err != nil {
		return nil, "", err
	}
	if len(ids) > 0 {
		found, err := t.pick(c, ids)
		if err != nil {
			return nil, "", err
		}
		kept := found[:0]
		for _, v := range found {
			if keep(v) {
				kept = append(kept, v)
			}
		}
		return kept, "", nil
	}
	most := 0
	if p.MaxResults != nil {
		most = *p.MaxResults
	}
	return pageFrom(c, t, keep, p.NextToken, most)
}

// pageFrom cuts one page, as the call's faults have it. A limit of 0 is none.
func pageFrom[T resource](c *call, t *table[T], keep func(T) bool, token string, most int) ([]T, string, *apiError) {
	page, seq := 1, uint64(0)
	if token != "" {
		var action string
		var ok bool
		if action, page, seq, ok = parseToken(token); !ok || action != c.action.name {
			return nil, "", failf(pick(c.service, "InvalidNextToken", "ValidationError"), "The specified NextToken is not valid: %s", token)
		}
	}
	if c.fault != nil {
		switch c.fault.Kind {
		case FaultEmptyPage:
			return nil, c.token(page+1, seq), nil
		case FaultShortPage:
			if most == 0 || c.fault.Items < most {
				most = max(c.fault.Items, 1)
			}
		case FaultRepeatToken:
			found, _ := scan(c, t, keep, seq, most)
			return found, c.token(page, seq), nil
		}
	}
	found, next := scan(c, t, keep, seq, most)
	if next == 0 {
		return found, "", nil
	}
	return found, c.token(page+1, next), nil
}

// scan collects from a position on; next is the position of what is left, or
// 0 if nothing is.
func scan[T resource](c *call, t *table[T], keep func(T) bool, seq uint64, want int) (found []T, next uint64) {
	for _, v := range t.order[t.after(seq):] {
		if !keep(v) {
			continue
		}
		if want > 0 && len(found) == want {
			return found, v.base().seq
		}
		if !c.hides(v.base()) {
			found = append(found, v)
		}
	}
	return found, 0
}
