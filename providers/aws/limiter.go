package aws

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// place is what AWS counts requests by: "for each AWS account on a per-Region
// basis" (EC2 and Elastic Load Balancing, API request throttling).
type place struct{ account, region string }

// quota is one documented token bucket: its capacity, and the tokens that
// come back each second.
type quota struct {
	name   string
	burst  int
	refill rate.Limit
}

// Documented quotas. EC2: "Request tokens" in the EC2 developer guide's page
// on request throttling; Elastic Load Balancing: its user guide's page of the
// same name. EC2 gives each of its APIs a bucket of its own, of the size of its
// category; Elastic Load Balancing gives a category one. KMS: its developer guide's page on request quotas, ListAliases.
// Secrets Manager: its user guide's quotas, CreateSecret and DeleteSecret. SSM:
// its endpoints and quotas, the default throughput of PutParameter. EC2's smaller
// bucket for unfiltered and unpaged reads is left out, because every read here is
// paged or names what it reads.
var (
	ec2Read     = quota{"read", 100, 20}
	ec2Launch   = quota{"launch", 5, 2}
	ec2End      = quota{"terminate", 100, 5}
	ec2Tag      = quota{"tag", 100, 10}
	ec2Rules    = quota{"rules", 50, 5}
	ec2Write    = quota{"write", 50, 5}
	elbRead     = quota{"read", 40, 10}
	elbRegister = quota{"register", 20, 4}
	elbWrite    = quota{"write", 20, 3}
	kmsList     = quota{"list", 500, 500}
	secretsCall = quota{"write", 50, 50}
	ssmCall     = quota{"write", 3, 3}
)

// otherQuotas are of services that little is asked of.
var otherQuotas = map[string]quota{serviceKMS: kmsList, serviceSecrets: secretsCall, serviceSSM: ssmCall}

// quotaOf gives the bucket that a call is counted in.
func quotaOf(service, operation string) quota {
	read := strings.HasPrefix(operation, "Describe") || strings.HasPrefix(operation, "Get") || strings.HasPrefix(operation, "List")
	if q, other := otherQuotas[service]; other {
		return q
	}
	if service != serviceEC2 {
		switch {
		case read:
			return elbRead
		case strings.HasPrefix(operation, "Register") || strings.HasPrefix(operation, "Deregister"):
			return elbRegister
		default:
			return elbWrite
		}
	}
	switch operation {
	case "RunInstances", "StartInstances":
		return ec2Launch
	case "TerminateInstances":
		return ec2End
	case "CreateTags", "DeleteTags":
		return ec2Tag
	case "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress":
		return ec2Rules
	}
	if read {
		return ec2Read
	}
	return ec2Write
}

// Service ids, as the SDK reports them.
const (
	serviceEC2 = "EC2"
	serviceSTS = "STS"
	serviceKMS = "KMS"

	serviceSecrets = "Secrets Manager"
	serviceSSM     = "SSM"
)

// Back-off after a throttled call: the first pause, its bound, and the share
// of the documented rate below which a bucket never falls.
const (
	firstPause = 500 * time.Millisecond
	longPause  = 20 * time.Second
	slowest    = 16
)

// limiter holds the buckets of a process. All clusters that share an account
// and region share them, because AWS counts them together.
type limiter struct {
	clock  clock.Clock
	jitter func() float64

	mu      sync.Mutex
	buckets map[bucketKey]*bucket
}

// bucketKey names a bucket: by the operation, where each has its own, else by the
// quota.
type bucketKey struct {
	place
	service, name string
}

func newLimiter(c clock.Clock) *limiter {
	return &limiter{clock: c, jitter: rand.Float64, buckets: map[bucketKey]*bucket{}}
}

func (l *limiter) bucket(at place, service, operation string) *bucket {
	q := quotaOf(service, operation)
	key := bucketKey{place: at, service: service, name: q.name}
	if service == serviceEC2 {
		key.name = operation
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		b = &bucket{clock: l.clock, jitter: l.jitter, full: q.refill, tokens: rate.NewLimiter(q.refill, q.burst)}
		l.buckets[key] = b
	}
	return b
}

// bucket is one quota with what its answers taught: a throttled call stops
// everyone who shares it for a while and halves its rate, and each success
// brings a little of the rate back. The quota is shared with callers that
// Holdfast does not see, CAPA first of all, so the documented rate is only
// where it starts.
type bucket struct {
	clock  clock.Clock
	jitter func() float64
	full   rate.Limit

	mu     sync.Mutex
	tokens *rate.Limiter
	resume time.Time
	// epoch counts back-offs. Calls that were under way when one began tell
	// nothing new when they are throttled as well: a burst backs off once.
	epoch  int
	streak int
}

// take waits for the end of a pause and for a token. The epoch is to be given
// back with the outcome.
func (b *bucket) take(ctx context.Context) (epoch int, err error) {
	var token *rate.Reservation
	for {
		var wait time.Duration
		if wait, epoch, token = b.next(token); wait <= 0 {
			return epoch, nil
		}
		if err := sleep(ctx, b.clock, wait); err != nil {
			if token != nil {
				b.giveBack(token)
			}
			return 0, err
		}
	}
}

// next gives the time to wait, reserving a token where none is held yet. A
// pause comes first: tokens that come in while it lasts are for after it.
func (b *bucket) next(held *rate.Reservation) (wait time.Duration, epoch int, token *rate.Reservation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if wait := b.resume.Sub(now); wait > 0 {
		return wait, b.epoch, held
	}
	if held == nil {
		held = b.tokens.ReserveN(now, 1)
	}
	return held.DelayFrom(now), b.epoch, held
}

func (b *bucket) giveBack(token *rate.Reservation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	token.CancelAt(b.clock.Now())
}

// throttled takes note that AWS refused a call that began in the epoch.
func (b *bucket) throttled(epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if epoch != b.epoch {
		return
	}
	b.epoch++
	now := b.clock.Now()
	pause := min(firstPause<<min(b.streak, 10), longPause)
	b.streak++
	b.resume = now.Add(pause/2 + time.Duration(b.jitter()*float64(pause/2)))
	b.tokens.SetLimitAt(now, max(b.tokens.Limit()/2, b.full/slowest))
	// The bucket at AWS is empty, whatever this one says.
	if left := int(b.tokens.TokensAt(now)); left > 0 {
		b.tokens.AllowN(now, left)
	}
}

// succeeded takes note that AWS served a call that began in the epoch.
func (b *bucket) succeeded(epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if epoch != b.epoch {
		return
	}
	b.streak = 0
	if limit := b.tokens.Limit(); limit < b.full {
		b.tokens.SetLimitAt(b.clock.Now(), min(b.full, limit+b.full/20))
	}
}

// sleep waits on the injected clock.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}
