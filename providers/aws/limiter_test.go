package aws

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var limiterStart = time.Date(2026, 3, 29, 1, 59, 0, 0, time.UTC)

func testLimiter() (*limiter, *clocktesting.FakeClock) {
	c := clocktesting.NewFakeClock(limiterStart)
	l := newLimiter(c)
	l.jitter = func() float64 { return 1 }
	return l, c
}

var here = place{"123456789012", "eu-central-1"}

// takeAt takes a token and gives the time on the fake clock at which it came:
// it moves the clock by what the bucket asks to wait.
func takeAt(t *testing.T, b *bucket, c *clocktesting.FakeClock) (time.Duration, int) {
	t.Helper()
	type taken struct {
		epoch int
		err   error
	}
	done := make(chan taken, 1)
	go func() {
		epoch, err := b.take(t.Context())
		done <- taken{epoch, err}
	}()
	for {
		select {
		case got := <-done:
			if got.err != nil {
				t.Fatal(got.err)
			}
			return c.Since(limiterStart), got.epoch
		case <-time.After(time.Millisecond):
			if c.HasWaiters() {
				c.Step(10 * time.Millisecond)
			}
		}
	}
}

const elbClassic, elbNewer = "Elastic Load Balancing", "Elastic Load Balancing v2"

func TestQuotas(t *testing.T) {
	for call, want := range map[[2]string]quota{
		{serviceEC2, "DescribeInstances"}:          {"read", 100, 20},
		{serviceEC2, "GetConsoleOutput"}:           {"read", 100, 20},
		{serviceEC2, "ModifyInstanceAttribute"}:    {"write", 50, 5},
		{serviceEC2, "RevokeSecurityGroupIngress"}: {"rules", 50, 5},
		{serviceEC2, "RevokeSecurityGroupEgress"}:  {"write", 50, 5},
		{serviceEC2, "StopInstances"}:              {"write", 50, 5},
		{serviceEC2, "RunInstances"}:               {"launch", 5, 2},
		{serviceEC2, "StartInstances"}:             {"launch", 5, 2},
		{serviceEC2, "TerminateInstances"}:         {"terminate", 100, 5},
		{serviceEC2, "CreateTags"}:                 {"tag", 100, 10},
		{elbClassic, "DescribeLoadBalancers"}:      {"read", 40, 10},
		{elbNewer, "RegisterTargets"}:              {"register", 20, 4},
		{elbNewer, "CreateListener"}:               {"write", 20, 3},
	} {
		if got := quotaOf(call[0], call[1]); got != want {
			t.Errorf("%v is counted in %+v, want %+v", call, got, want)
		}
	}
}

// A bucket lets its burst through at once and then its rate.
func TestBucketRate(t *testing.T) {
	l, c := testLimiter()
	b := l.bucket(here, serviceEC2, "DescribeInstances")
	for range ec2Read.burst {
		if at, _ := takeAt(t, b, c); at != 0 {
			t.Fatalf("a call of the burst waited %s", at)
		}
	}
	for range 4 {
		takeAt(t, b, c)
	}
	if at := c.Since(limiterStart); at < 190*time.Millisecond || at > 300*time.Millisecond {
		t.Errorf("4 calls past the burst took %s at 20 a second, want about 200ms", at)
	}
}

// Buckets are shared by everyone in an account and region, and by no other. EC2
// has one for each API, Elastic Load Balancing one for each category.
func TestBucketsAreSharedByPlace(t *testing.T) {
	l, _ := testLimiter()
	b := l.bucket(here, serviceEC2, "DescribeInstances")
	if l.bucket(here, serviceEC2, "DescribeInstances") != b {
		t.Error("two calls of one API have buckets of their own")
	}
	if l.bucket(here, elbClassic, "DescribeLoadBalancers") != l.bucket(here, elbClassic, "DescribeTags") {
		t.Error("two reads of load balancers have buckets of their own")
	}
	for name, other := range map[string]*bucket{
		"account": l.bucket(place{"999999999999", here.region}, serviceEC2, "DescribeInstances"),
		"region":  l.bucket(place{here.account, "us-east-1"}, serviceEC2, "DescribeInstances"),
		"service": l.bucket(here, elbClassic, "DescribeLoadBalancers"),
		"API":     l.bucket(here, serviceEC2, "DescribeVolumes"),
	} {
		if other == b {
			t.Errorf("another %s shares the bucket", name)
		}
	}
}

// A throttled call pauses everybody once: the calls that were under way with
// it add nothing.
func TestBackOffOncePerBurst(t *testing.T) {
	l, c := testLimiter()
	b := l.bucket(here, serviceEC2, "DescribeInstances")
	var epochs []int
	for range 10 {
		_, epoch := takeAt(t, b, c)
		epochs = append(epochs, epoch)
	}
	for _, e := range epochs {
		b.throttled(e)
	}
	if b.streak != 1 || b.tokens.Limit() != ec2Read.refill/2 {
		t.Errorf("10 throttled calls of one burst: %d back-offs at rate %v, want 1 at %v", b.streak, b.tokens.Limit(), ec2Read.refill/2)
	}
	at, epoch := takeAt(t, b, c)
	if at < firstPause || at > 2*firstPause {
		t.Errorf("the next call came after %s, want about %s", at, firstPause)
	}
	b.throttled(epoch)
	if next, _ := takeAt(t, b, c); next-at < 2*firstPause {
		t.Errorf("the second pause was %s, want twice the first", next-at)
	}
}

func TestBackOffIsBoundedAndEnds(t *testing.T) {
	l, c := testLimiter()
	b := l.bucket(here, serviceEC2, "DescribeInstances")
	for range 40 {
		b.throttled(b.epoch)
	}
	if pause := b.resume.Sub(c.Now()); pause > longPause {
		t.Errorf("a pause of %s, want at most %s", pause, longPause)
	}
	if got, least := b.tokens.Limit(), ec2Read.refill/slowest; got != least {
		t.Errorf("rate %v, want %v", got, least)
	}
	for range 100 {
		b.succeeded(b.epoch)
	}
	if got := b.tokens.Limit(); got != ec2Read.refill || b.streak != 0 {
		t.Errorf("after 100 successes the rate is %v and the streak %d, want %v and 0", got, b.streak, ec2Read.refill)
	}
	before := b.tokens.Limit()
	b.succeeded(b.epoch - 1)
	b.throttled(b.epoch - 1)
	if b.tokens.Limit() != before {
		t.Error("an answer to a call from before the back-off changed the rate")
	}
}

func TestTakeEndsWithItsContext(t *testing.T) {
	l, c := testLimiter()
	b := l.bucket(here, serviceEC2, "RunInstances")
	for range ec2Launch.burst {
		takeAt(t, b, c)
	}
	cause := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := b.take(ctx); !errors.Is(err, cause) {
		t.Errorf("take gives %v, want the context's cause", err)
	}
	if left := b.tokens.TokensAt(c.Now()); left < -0.01 {
		t.Errorf("the call that never was holds a token: %v left", left)
	}
	b.throttled(b.epoch)
	if _, err := b.take(ctx); !errors.Is(err, cause) {
		t.Errorf("take in a pause gives %v, want the context's cause", err)
	}
}
