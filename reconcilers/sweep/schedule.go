package sweep

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/policies"
)

// Times that are nobody's to set.
const (
	// batchWindow gathers targeted reads of one scope.
	batchWindow = 100 * time.Millisecond
	// objectDebounce lets a controller finish what it is about: changes of one
	// object come in twos and threes.
	objectDebounce = 500 * time.Millisecond
	// clusterDebounce lets a Cluster come to rest before all of it is read.
	clusterDebounce = 5 * time.Second
	// policyDebounce lets several policies be changed together.
	policyDebounce = 2 * time.Second
	// gapInterval bounds sweeps that events ask for.
	gapInterval = time.Minute
	// followUp is after how long a grace that counts reads is read again.
	followUp = 30 * time.Second
	// standBy is after how long it is looked again whether others have made
	// way, and maxStandBys for how many owners of a scope: some of them are the
	// next, however many wait.
	standBy     = time.Minute
	maxStandBys = 20
	// maxFollowUps bounds those reads, for one drift.
	maxFollowUps = 10
	// retryMin and retryMax bound the wait after a failure.
	retryMin = 30 * time.Second
	retryMax = 5 * time.Minute
	// sweepTimeout bounds one sweep, whatever a cloud does.
	sweepTimeout = 10 * time.Minute
	// targetTimeout bounds one targeted read.
	targetTimeout = 2 * time.Minute
	// maxTargets is how many owners are read one by one; for more a sweep is
	// cheaper.
	maxTargets = 200
)

// jitter gives a delay below limit that is the same for the same cluster and
// moment everywhere, and different for different ones: clusters never move in
// one instant, and two replicas agree.
func jitter(uid types.UID, moment time.Time, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(moment.Unix()))) //nolint:gosec // any bits will do
	return time.Duration(mix(h.Sum64()) % uint64(limit))                      //nolint:gosec // below limit
}

// mix spreads the bits of a hash (the finaliser of splitmix64): FNV leaves the
// high ones alike where only the last bytes differ.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// nextRead gives when a cluster that was read at t is read again: at the
// schedule's next time and the jitter of that time.
func nextRead(uid types.UID, e *policies.Effective, t time.Time) time.Time {
	tick := e.NextRead(t)
	if tick.IsZero() {
		return tick
	}
	return tick.Add(jitter(uid, tick, e.Schedule.Jitter.Duration))
}

// backoff is the wait after a number of failures in a row: doubled each time,
// and spread over its second half.
func backoff(key siteKey, failures int, now time.Time) time.Duration {
	wait := retryMax
	if shift := failures - 1; shift < 4 {
		wait = min(retryMin<<max(shift, 0), retryMax)
	}
	return wait/2 + jitter(types.UID(key.String()), now, wait/2)
}
