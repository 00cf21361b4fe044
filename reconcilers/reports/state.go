package reports

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/report"
)

// clusterState is what is known of one cluster.
type clusterState struct {
	// owners are what each owner came to when it was last compared. What belongs
	// to no owner stands under a reference that names the places alone.
	owners map[providers.OwnerRef]*ownerState
	// shards is over how many objects a pool is spread.
	shards map[string]int
	// limit is how large an object may be; less than the sink's where the API
	// server refused one.
	limit int
	// objects are the reports that there are, by name.
	objects map[string]*object
	// loaded says that they were looked for.
	loaded bool
	// whole says that a sweep, or the reports of a process before this one, told
	// of owners in general: a targeted read alone would make a report of few.
	whole bool
}

// ownerState is what one owner came to.
type ownerState struct {
	pool    string
	results []openreports.ReportResult
	sizes   []int
	// first is the first of the results' fingerprints, whatever their order.
	first string
	// unread says that its cloud could not be read when these results were made.
	unread bool
}

// object is a Report as it was written or read.
type object struct {
	uid        types.UID
	generation int64
	digest     string
}

func newClusterState(limit int) *clusterState {
	return &clusterState{owners: map[providers.OwnerRef]*ownerState{}, shards: map[string]int{}, limit: limit, objects: map[string]*object{}}
}

func newOwnerState(pool string, results []openreports.ReportResult) *ownerState {
	s := &ownerState{pool: pool, results: results, sizes: make([]int, len(results))}
	for i := range results {
		if f := fingerprint(&results[i]); i == 0 || f < s.first {
			s.first = f
		}
		data, _ := json.Marshal(&results[i]) // strings and numbers always can be
		s.sizes[i] = len(data) + len(",")
	}
	return s
}

// placesRef is under which a cluster's orphans are kept: they come from sweeps
// alone, one place after the other.
func placesRef(places string) providers.OwnerRef { return providers.OwnerRef{Name: places} }

func isPlaces(ref providers.OwnerRef) bool { return ref.Kind == "" }

// taking is one outcome, on its way into one cluster's state.
type taking struct {
	*sweep.Outcome
	ref     detector.ClusterRef
	cluster *inventory.Cluster
	mode    policies.Mode
	// decisions of the cluster by owner, and those about no owner.
	decisions map[providers.OwnerRef][]*policies.Decision
	orphans   []*policies.Decision
}

// consume takes an outcome in, and tells whether the cluster's reports are to
// follow: not as long as no sweep told of it, and not for one on its way out.
func (c *clusterState) consume(t *taking) bool {
	if t.mode == policies.ModeOff {
		c.owners, c.shards = map[providers.OwnerRef]*ownerState{}, map[string]int{}
		return true
	}
	c.take(t)
	c.prune(t)
	return c.whole && t.cluster.Object.GetDeletionTimestamp().IsZero()
}

// take replaces what is known of those owners that an outcome is about.
func (c *clusterState) take(t *taking) {
	listed := map[providers.OwnerRef]bool{}
	var places []string
	read := false
	for i := range t.Result.Clusters {
		r := &t.Result.Clusters[i]
		if r.Ref != t.ref {
			continue
		}
		places = append(places, r.Scope.String())
		read = read || !r.TakenAt.IsZero()
		for j := range r.Owners {
			o := &r.Owners[j]
			listed[o.Ref] = true
			if !t.Targeted() || t.Owners[o.Ref] {
				c.takeOwner(t, o, r.TakenAt.IsZero())
			}
		}
	}
	if t.Targeted() || len(places) == 0 {
		return
	}
	c.whole = true
	for owner, decisions := range t.decisions {
		if !listed[owner] && t.uncompared(owner) {
			c.put(t, owner, decisions[0].Finding.Pool, &report.OpenOwner{Decisions: decisions}, false)
		}
	}
	if read {
		slices.Sort(places)
		c.put(t, placesRef(strings.Join(slices.Compact(places), " ")), "", &report.OpenOwner{Decisions: t.orphans}, false)
	}
}

// uncompared reports an object that is known and never compared. Its decisions
// are in every sweep of its cluster.
func (t *taking) uncompared(owner providers.OwnerRef) bool {
	return slices.ContainsFunc(t.cluster.Uncompared, func(u inventory.Uncompared) bool { return u.Ref == owner })
}

// takeOwner takes what one owner came to. One whose cloud could not be read keeps
// what was known, until the daemon says that it is stale.
func (c *clusterState) takeOwner(t *taking, o *sweep.OwnerResult, unread bool) {
	if known := c.owners[o.Ref]; unread && known != nil && !known.unread && t.Cause != sweep.CauseStale {
		return
	}
	c.put(t, o.Ref, o.Pool, &report.OpenOwner{Decisions: t.decisions[o.Ref], InSync: len(o.InSync) > 0}, unread)
}

func (c *clusterState) put(t *taking, ref providers.OwnerRef, pool string, o *report.OpenOwner, unread bool) {
	o.Namespace = t.ref.Namespace
	if !isPlaces(ref) {
		o.Ref = ref
	}
	results := report.OpenResults(o)
	if isPlaces(ref) {
		inPlaces(results, ref.Name)
	}
	var before []openreports.ReportResult
	if known := c.owners[ref]; known != nil {
		before = known.results
	}
	carry(before, results, t.At)
	c.owners[ref] = newOwnerState(pool, results)
	c.owners[ref].unread = unread
}

// propertyPlaces tells of an orphan where it was seen, so that what is known of
// one place is told from what is known of another after a restart too.
const propertyPlaces = "places"

func inPlaces(results []openreports.ReportResult, places string) {
	for i := range results {
		results[i].Properties[propertyPlaces] = clean(places)
	}
}

// prune drops owners that do not exist any more or are switched off, and places
// that the cluster has left.
func (c *clusterState) prune(t *taking) {
	live := map[providers.OwnerRef]bool{}
	for _, o := range t.cluster.Owners {
		annotations := []map[string]string{o.Infra.GetAnnotations()}
		if o.Machine != nil {
			annotations = append(annotations, o.Machine.Annotations)
		}
		live[o.Ref] = t.mode.Lowered(annotations...) != policies.ModeOff
	}
	for i := range t.cluster.Uncompared {
		u := &t.cluster.Uncompared[i]
		live[u.Ref] = u.Machine == nil || t.mode.Lowered(u.Machine.Annotations) != policies.ModeOff
	}
	lives := t.Scopes[t.ref]
	for ref := range c.owners {
		if isPlaces(ref) {
			if len(lives) > 0 && !slices.ContainsFunc(lives, func(s providers.Scope) bool { return clean(s.String()) == clean(ref.Name) }) {
				delete(c.owners, ref)
			}
		} else if !live[ref] {
			delete(c.owners, ref)
		}
	}
}

// carry gives results the times of those that say the same and came before them:
// the time alone changes no report. What could not be compared keeps its words
// too, where they differ in no more than what each read has of its own.
func carry(before, now []openreports.ReportResult, at time.Time) {
	known := make(map[string]*openreports.ReportResult, len(before))
	for i := range before {
		known[identity(&before[i])] = &before[i]
	}
	for i := range now {
		r := &now[i]
		was := known[identity(r)]
		if was == nil {
			if r.Timestamp.Seconds == 0 {
				r.Timestamp.Seconds = at.Unix()
			}
			continue
		}
		r.Timestamp = was.Timestamp
		if (r.Result == "error" || r.Result == "skip") && r.Result == was.Result && providers.Shape(r.Description) == providers.Shape(was.Description) {
			r.Description = was.Description
		}
	}
}

// identity is the same for what is the same, whenever it is looked at.
func identity(r *openreports.ReportResult) string {
	if f := fingerprint(r); f != "" {
		return f + "\x00" + r.Properties[propertyPlaces]
	}
	return string(r.Result) + "\x00" + r.Description
}
