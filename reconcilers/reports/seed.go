package reports

import (
	"strconv"
	"strings"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"

	"github.com/holdfast-io/holdfast/providers"
)

// seed takes over what reports say that were there before this process: of owners
// of which nothing is known yet everything, of the others the times.
func (c *clusterState) seed(reports []*openreports.Report) {
	before := map[providers.OwnerRef]*ownerState{}
	for _, r := range reports {
		pool := r.Annotations[LabelPool]
		if n := shardCount(r.Labels[LabelShard]); n > c.shards[pool] {
			c.shards[pool] = n
		}
		for i := range r.Results {
			ref, ok := ownerOf(&r.Results[i])
			if !ok {
				continue
			}
			if before[ref] == nil {
				before[ref] = &ownerState{pool: pool}
			}
			before[ref].results = append(before[ref].results, r.Results[i])
		}
		c.whole = true
	}
	for ref, was := range before {
		if now := c.owners[ref]; now != nil && !now.unread {
			carryTimes(was.results, now.results)
			c.owners[ref] = newOwnerState(now.pool, now.results)
			continue
		}
		c.owners[ref] = newOwnerState(was.pool, was.results)
	}
}

// carryTimes is carry for results that have times already.
func carryTimes(before, now []openreports.ReportResult) {
	for i := range now {
		for j := range before {
			if identity(&before[j]) == identity(&now[i]) {
				now[i].Timestamp = before[j].Timestamp
			}
		}
	}
}

// ownerOf gives the owner that a result is about, or the places for what belongs
// to none.
func ownerOf(r *openreports.ReportResult) (providers.OwnerRef, bool) {
	if places := r.Properties[propertyPlaces]; places != "" {
		return placesRef(places), true
	}
	if len(r.Subjects) == 0 {
		return providers.OwnerRef{}, false
	}
	s := &r.Subjects[0]
	return providers.OwnerRef{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, UID: s.UID}, s.Kind != ""
}

// shardCount reads COUNT of NUMBER-of-COUNT; 1 where it is none of ours.
func shardCount(label string) int {
	_, count, _ := strings.Cut(label, "-of-")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > maxShards || n&(n-1) != 0 {
		return 1
	}
	return n
}
