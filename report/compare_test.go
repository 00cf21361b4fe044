package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// scan is a cluster with one machine, and what was found of it.
func scan(now time.Time, mods ...func(*BuildInput)) BuildInput {
	in := BuildInput{Now: now, Clusters: []ClusterInput{{
		Ref: detector.ClusterRef{Namespace: "prod", Name: "c1"}, Provider: "aws", SnapshotTime: now,
		Owners: []Owner{{OwnerRef: awsMachine("c1", "m")}},
	}}}
	for _, m := range mods {
		m(&in)
	}
	return in
}

func found(decisions ...policies.Decision) func(*BuildInput) {
	return func(in *BuildInput) { in.Decisions = append(in.Decisions, decisions...) }
}

func instance(mods ...func(*policies.Decision)) policies.Decision {
	return decision("c1", awsMachine("c1", "m"), resource("aws", "Instance", "i-1", "m"), mods...)
}

func TestCompareCarriesFirstSeenOver(t *testing.T) {
	yesterday, today, lastWeek := at.Add(-24*time.Hour), at, at.Add(-7*24*time.Hour)
	drift := instance(with(removed("/tags/a", "1")))
	known := instance(with(removed("/tags/a", "1")), since(lastWeek))
	first := Build(scan(yesterday, found(drift)))
	cases := map[string]struct {
		previous *Report
		now      policies.Decision
		since    Since
		first    *time.Time
	}{
		"no previous report, not known":        {nil, drift, "", nil},
		"no previous report, known":            {nil, known, "", &lastWeek},
		"not there before":                     {Build(scan(yesterday)), drift, SinceNew, &today},
		"there before, not known since when":   {first, drift, SinceUnchanged, &yesterday},
		"there before, and known since longer": {first, known, SinceUnchanged, &lastWeek},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := scan(today, found(c.now))
			in.Previous = c.previous
			f := Build(in).Findings[0]
			if f.Since != c.since {
				t.Errorf("since is %q, want %q", f.Since, c.since)
			}
			if diff := cmp.Diff(c.first, f.FirstSeen); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A chain of reports keeps the first time, however long it is.
func TestCompareChain(t *testing.T) {
	var previous *Report
	for day := range 5 {
		in := scan(at.Add(time.Duration(day)*24*time.Hour), found(instance(with(removed("/tags/a", "1")))))
		in.Previous = previous
		previous = Build(in)
	}
	if got := previous.Findings[0].FirstSeen; got == nil || !got.Equal(at) {
		t.Errorf("first seen %v, want the first report's time %v", got, at)
	}
}

// Unknown is never absence, also not the absence of drift: only what was
// looked for again is resolved.
func TestCompareResolvesOnlyWhatWasLookedFor(t *testing.T) {
	drift := instance(with(removed("/tags/a", "1")))
	orphan := decision("c1", providers.OwnerRef{}, resource("aws", "Volume", "vol-1", ""), status(detector.Unexpected, "orphan"))
	unread := func(kind, id string) policies.Decision {
		return decision("c1", awsMachine("c1", "m"), resource("aws", kind, id, ""), status(detector.NotChecked, "throttled"))
	}
	noOwner := func(in *BuildInput) { in.Clusters[0].Owners = nil }
	noSnapshot := func(in *BuildInput) { in.Clusters[0].SnapshotTime = time.Time{} }
	problem := func(in *BuildInput) {
		in.Problems = []Problem{{Cluster: &in.Clusters[0].Ref, Reason: "Broken", Message: "an object did not load"}}
	}
	cases := map[string]struct {
		before               policies.Decision
		now                  []func(*BuildInput)
		resolved, unverified int
	}{
		"gone":                             {before: drift, resolved: 1},
		"still there":                      {before: drift, now: mods(found(drift))},
		"ignored now":                      {before: drift, now: mods(found(instance(with(removed("/tags/a", "1")), ignored("x", "y", time.Time{}))))},
		"the resource was not read":        {before: drift, now: mods(found(unread("Instance", "i-1"))), unverified: 1},
		"the resource's kind was not read": {before: drift, now: mods(found(unread("Instance", ""))), unverified: 1},
		"nothing of the owner was read":    {before: drift, now: mods(found(unread("", ""))), unverified: 1},
		"another kind was not read":        {before: drift, now: mods(found(unread("Volume", "vol-9"))), resolved: 1},
		"another resource was not read":    {before: drift, now: mods(found(unread("Instance", "i-2"))), resolved: 1},
		"the cloud was not read":           {before: drift, now: mods(noSnapshot), unverified: 1},
		"the cluster was not scanned":      {before: drift, now: mods(func(in *BuildInput) { in.Clusters = nil }), unverified: 1},
		"the owner was deleted":            {before: drift, now: mods(noOwner), resolved: 1},
		"the owner may not have loaded":    {before: drift, now: mods(noOwner, problem), unverified: 1},
		"an orphan is gone":                {before: orphan, resolved: 1},
		"orphans were not looked for":      {before: orphan, now: mods(found(unread("Volume", ""))), unverified: 1},
		"what was not drift is no success": {before: unread("Instance", "i-1")},
		"what was ignored is no success":   {before: instance(with(removed("/tags/a", "1")), ignored("x", "y", time.Time{}))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := scan(at.Add(-time.Hour), found(c.before))
			before.ShowIgnored = true
			in := scan(at, c.now...)
			in.Previous = Build(before)
			got := Build(in).Compared
			if len(got.Resolved) != c.resolved || len(got.Unverified) != c.unverified {
				t.Errorf("%d resolved and %d unverified, want %d and %d", len(got.Resolved), len(got.Unverified), c.resolved, c.unverified)
			}
		})
	}
}

func mods(m ...func(*BuildInput)) []func(*BuildInput) { return m }
