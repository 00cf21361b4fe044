package aws

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
)

// Call is one kind of API call and its outcome, for counting. Its values are
// bounded: they come from the SDK and from AWS's lists of error codes.
type Call struct {
	Service   string
	Operation string
	// Code is the error code, empty on success and "NoAnswer" where no
	// service answered.
	Code string
}

// noAnswer is the code of calls that failed before or without an answer.
const noAnswer = "NoAnswer"

type callCounter struct {
	mu     sync.Mutex
	count  map[Call]int64
	waited map[Call]time.Duration
}

// add counts a call that was held back for a while before it was made.
func (c *callCounter) add(call Call, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count, c.waited = map[Call]int64{}, map[Call]time.Duration{}
	}
	c.count[call]++
	c.waited[call] += waited
}

func (c *callCounter) snapshot() map[Call]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

// maxAttempts bounds the tries of one call, the first included.
const maxAttempts = 6

// newRetryer leaves waiting after a throttled call to the limiter, which lets
// everyone who shares the quota wait once, together.
func newRetryer(backoff func(attempt int) time.Duration) func() aws.Retryer {
	return func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = maxAttempts
			jittered := retry.NewExponentialJitterBackoff(longPause)
			o.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
				switch {
				case isThrottle(err):
					return 0, nil
				case backoff != nil:
					return backoff(attempt), nil
				default:
					return jittered.BackoffDelay(attempt, err)
				}
			})
		})
	}
}

// observeCalls counts every attempt, and holds it back until its quota has a
// token. It stands inside the SDK's retries, because AWS counts attempts.
func observeCalls(count *callCounter, limit *limiter, at place) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("HoldfastLimiter", func(
			ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
		) (middleware.FinalizeOutput, middleware.Metadata, error) {
			service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
			if limit == nil {
				out, meta, err := next.HandleFinalize(ctx, in)
				count.add(Call{Service: service, Operation: operation, Code: outcome(err)}, 0)
				return out, meta, err
			}
			b := limit.bucket(at, service, operation)
			began := b.clock.Now()
			epoch, err := b.take(ctx)
			if err != nil {
				return middleware.FinalizeOutput{}, middleware.Metadata{}, &aws.RequestCanceledError{Err: err}
			}
			waited := b.clock.Now().Sub(began)
			out, meta, err := next.HandleFinalize(ctx, in)
			count.add(Call{Service: service, Operation: operation, Code: outcome(err)}, waited)
			switch {
			case err == nil:
				b.succeeded(epoch)
			case isThrottle(err):
				b.throttled(epoch)
			}
			return out, meta, err
		}), "Retry", middleware.After)
	}
}

func outcome(err error) string {
	if err == nil {
		return ""
	}
	if code := apiCode(err); code != "" {
		return code
	}
	return noAnswer
}
