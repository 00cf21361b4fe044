package sweep

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// siteKey names what is read at once: a scope, or those of one cluster's owners
// that have none.
type siteKey struct {
	scope   providers.Scope
	cluster detector.ClusterRef // zero for a scope
}

func (k siteKey) String() string {
	if k.cluster != (detector.ClusterRef{}) {
		return "cluster " + k.cluster.String()
	}
	return scopeKey(k.scope)
}

// site is one place that is read, and when it is read next.
type site struct {
	key siteKey
	// turn is taken by whoever reads the site: one at a time.
	turn chan struct{}
	// snap is what was seen last, and belongs to whoever has the turn. Its
	// TakenAt is that of the bulk read, whatever was read again since.
	snap *providers.Snapshot

	// What follows belongs to Daemon.mu.
	members map[detector.ClusterRef]*member
	index   *index
	targets map[providers.OwnerRef]*target
	// targetsAt is when the targets are read together.
	targetsAt time.Time
	// asked is when a sweep was asked for, and why; zero if none was.
	asked time.Time
	why   string
	// wanted is when a person wants it swept; zero if nobody does.
	wanted time.Time
	// notBefore holds sweeps back after a failure, but for what a person wants.
	notBefore time.Time
	failures  int
	running   string
	gates     map[providers.OwnerRef]time.Time
	gateAt    time.Time
	changed   *authors
	watch     *watch
	// staleTold says that the owners were said not to be known any more.
	staleTold bool
	status    siteStatus
}

// siteStatus is what is shown of a site.
type siteStatus struct {
	snapshotAt           time.Time
	begun, ended         time.Time
	took                 time.Duration
	partial              string
	aside                string
	err                  string
	lastEvent            time.Time
	targetsTook          time.Duration
	targeted, retargeted time.Time
}

// member is one cluster of a site.
type member struct {
	// read is when the site was last read for it, zero if it never was.
	read time.Time
	due  time.Time
	why  string
}

// target is one owner that is to be read again.
type target struct {
	owner   providers.OwnerRef
	cluster detector.ClusterRef
	cause   string
	// ids are what events named.
	ids map[providers.ID]bool
	// since is the time of the first event, zero if there was none.
	since time.Time
}

func newSite(key siteKey) *site {
	return &site{
		key: key, turn: make(chan struct{}, 1), members: map[detector.ClusterRef]*member{}, index: newIndex(),
		targets: map[providers.OwnerRef]*target{}, gates: map[providers.OwnerRef]time.Time{}, changed: newAuthors(maxAuthors),
	}
}

// take waits for the turn to read the site.
func (s *site) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *site) give() { <-s.turn }

// located reports whether the site is a scope.
func (s *site) located() bool { return s.key.cluster == (detector.ClusterRef{}) }

// ask asks for a sweep, no earlier than at.
func (s *site) ask(at time.Time, why string) {
	if why == CauseRequested {
		if s.wanted.IsZero() || at.Before(s.wanted) {
			s.wanted = at
		}
		return
	}
	if s.asked.IsZero() || at.Before(s.asked) {
		s.asked, s.why = at, why
	}
}

// sweepDue gives when the site is to be swept next, and why; zero if never.
func (s *site) sweepDue() (at time.Time, why string) {
	at, why = s.asked, s.why
	for _, ref := range slices.SortedFunc(maps.Keys(s.members), compareRefs) {
		m := s.members[ref]
		if !m.due.IsZero() && (at.IsZero() || m.due.Before(at)) {
			at, why = m.due, m.why
		}
	}
	if !at.IsZero() && at.Before(s.notBefore) {
		at, why = s.notBefore, CauseRetry
	}
	if !s.wanted.IsZero() && (at.IsZero() || !at.Before(s.wanted)) {
		at, why = s.wanted, CauseRequested
	}
	return at, why
}

func compareRefs(a, b detector.ClusterRef) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// cluster is what is known of one Cluster.
type cluster struct {
	ref       detector.ClusterRef
	object    providers.OwnerRef
	slim      *clusterv1.Cluster // for what is known of its owners
	uid       types.UID
	effective *policies.Effective
	labels    map[string]string
	// swept is the value of the annotation sweep-now that was answered.
	swept string
	// since is when the daemon came to know of it.
	since time.Time
	// machines name the owners of the cluster's Machines.
	machines map[string]providers.OwnerRef
	coverage map[siteKey]coverage
	// located says that its owners were asked for their places once.
	located bool
}

type coverage struct{ checked, notChecked int }

// known is what the last read came to for one owner. It is not changed once it
// is stored.
type known struct {
	result detector.Result
	site   siteKey
	at     time.Time
}

// slim keeps of a result what later decisions need, and none of the objects.
func slim(o *inventory.Owner, r detector.Result, cluster *clusterv1.Cluster) detector.Result {
	r.Owner = slimOwner(&o.Owner, cluster)
	if len(r.InSync) > 1 {
		r.InSync = slices.Clone(r.InSync[:1])
	}
	return r
}
