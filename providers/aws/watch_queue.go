package aws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/go-logr/logr"

	"github.com/holdfast-io/holdfast/providers"
)

// How a queue is read (Amazon SQS developer guide, "Amazon SQS short and long
// polling", "Amazon SQS visibility timeout").
const (
	// pollSeconds is how long a call waits for a message. It stays below
	// silenceTimeout, after which the connection counts as dead.
	pollSeconds = 15
	// batch is the most that one call gives out or deletes.
	batch = 10
	// hiddenSeconds is how long a message that was given out is not given out
	// again: far longer than telling and deleting it takes.
	hiddenSeconds = 60
	// deletesAtOnce bounds the batches that are being deleted while the next
	// is received.
	deletesAtOnce = 4
	// deleteTimeout bounds one deletion, also after the watching has ended.
	deleteTimeout = 5 * time.Second
	// shortestRetention is the least that a queue keeps its messages
	// (CreateQueue, MessageRetentionPeriod), and what is believed where its
	// attributes may not be read.
	shortestRetention = time.Minute
)

// Pauses between attempts, all with jitter: AWS throttles an account as a
// whole, and many may wait for the same queue.
const (
	firstReconnect = time.Second
	longReconnect  = time.Minute
)

// reading is how far the reading of a queue got.
type reading struct {
	// good is when a receive last began that worked; zero before the first.
	good      time.Time
	retention time.Duration
	// lost says that the queue was found missing or closed: what happened
	// since is in no queue.
	lost     bool
	failures int
}

// sqsClient makes the client that reads queues. It does not try again by
// itself: waiting is the watching's own, by its clock. Quotas are not limited:
// a standard queue takes nearly any number of calls.
func (s *sessions) sqsClient(cfg aws.Config) *sqs.Client {
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.Retryer = aws.NopRetryer{}
		o.APIOptions = append(o.APIOptions, observeCalls(s.count, nil, place{}))
	})
}

// tap is one turn of reading a queue.
type tap struct {
	*Provider
	queue *queue
	scope providers.Scope
	log   logr.Logger
	sqs   *sqs.Client

	deleting sync.WaitGroup
	slots    chan struct{}
	mu       sync.Mutex
	refused  error
}

// read reads the queue until the context ends or reading cannot work.
func (p *Provider) read(ctx context.Context, q *queue, scope providers.Scope) error {
	t := &tap{Provider: p, queue: q, scope: scope, slots: make(chan struct{}, deletesAtOnce),
		log: logr.FromContextOrDiscard(ctx).WithValues("scope", scope.String())}
	defer t.deleting.Wait()
	for {
		s, err := p.sessionOf(ctx, scope)
		if err == nil {
			t.sqs = s.sqs
			err = t.serve(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case permanent(err):
			q.reading.lost = true
			return err
		case s != nil && refusesCaller(err):
			p.forget(scope, s)
		}
		if err := t.pause(ctx, err); err != nil {
			return nil //nolint:nilerr // the context's end is how a watch ends
		}
	}
}

// pause waits before the next attempt, and says so once for each outage.
func (t *tap) pause(ctx context.Context, err error) error {
	r := &t.queue.reading
	if r.failures == 0 {
		t.log.Info("Lost the event queue, sweeps go on", "reason", err.Error())
	}
	wait := min(firstReconnect<<min(r.failures, 10), longReconnect)
	r.failures++
	return sleep(ctx, t.clock, wait/2+time.Duration(rand.Float64()*float64(wait/2))) //nolint:gosec // jitter is no secret
}

// serve finds the queue and reads it until something fails.
func (t *tap) serve(ctx context.Context) error {
	if err := t.find(ctx); err != nil {
		return err
	}
	for {
		if err := t.receive(ctx); err != nil {
			return err
		}
	}
}

func (t *tap) find(ctx context.Context) error {
	q := t.queue
	if q.url == "" {
		out, err := t.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.name})
		if err != nil {
			return t.explain("look up the event queue", err)
		}
		q.url = aws.ToString(out.QueueUrl)
	}
	if q.reading.retention != 0 {
		return nil
	}
	out, err := t.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameMessageRetentionPeriod},
	}, inRegionOf(q.url))
	if err != nil && !isDenied(err) {
		return t.explain("read the attributes of the event queue", err)
	}
	q.reading.retention = shortestRetention
	if err == nil {
		seconds, err := strconv.Atoi(out.Attributes[string(sqstypes.QueueAttributeNameMessageRetentionPeriod)])
		if err == nil && seconds > 0 {
			q.reading.retention = time.Duration(seconds) * time.Second
		}
	}
	return nil
}

// receive reads one batch, tells it and begins to delete it.
func (t *tap) receive(ctx context.Context) error {
	q := t.queue
	began := t.clock.Now()
	out, err := t.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: batch, WaitTimeSeconds: pollSeconds, VisibilityTimeout: hiddenSeconds,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
	}, inRegionOf(q.url))
	if err != nil {
		return t.explain("receive from the event queue", err)
	}
	t.connected(began)
	for i := range out.Messages {
		t.deliver(&out.Messages[i])
	}
	return t.remove(ctx, out.Messages)
}

// connected tells of a gap where messages may have expired unread.
func (t *tap) connected(began time.Time) {
	r := &t.queue.reading
	if r.failures > 0 {
		t.log.Info("Reading the event queue again")
	}
	out := began.Sub(r.good)
	if r.lost || !r.good.IsZero() && out > r.retention {
		t.watching.counts.add(EventGap)
		t.queue.gap(providers.Event{At: began, What: "the event queue could not be read for a while"})
	}
	r.good, r.lost, r.failures = began, false, 0
}

// deliver tells the listeners of the message's account and region.
func (t *tap) deliver(m *sqstypes.Message) {
	n, outcome, err := parseMessage(aws.ToString(m.Body), t.sent(m))
	switch {
	case err != nil:
		t.log.V(1).Info("Dropped a malformed event", "reason", err.Error(), "message", aws.ToString(m.MessageId))
	case outcome == EventTold:
		now := t.clock.Now()
		if n.event.At.After(now) {
			// By a wrong clock, or a lie: it must not outlast what comes later.
			n.event.At = now
		}
		outcome = t.tell(n)
	}
	t.watching.counts.add(outcome)
}

func (t *tap) tell(n notice) EventOutcome {
	here := false
	told := t.queue.tellAll(func(l *listener) (providers.Event, bool) {
		if n.account != l.scope.Account || n.region != l.scope.Region {
			return providers.Event{}, false
		}
		here = true
		return t.watching.eventFor(l, n)
	})
	switch {
	case told > 0:
		return EventTold
	case here:
		return EventNothing
	default:
		return EventElsewhere
	}
}

func (t *tap) sent(m *sqstypes.Message) time.Time {
	millis, err := strconv.ParseInt(m.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil || millis <= 0 {
		return t.clock.Now()
	}
	return time.UnixMilli(millis)
}

// remove deletes messages that were told, in the background. A message that
// is not deleted comes again, which does no harm; but where nothing may be
// deleted all would come again for ever, so that is an error.
func (t *tap) remove(ctx context.Context, messages []sqstypes.Message) error {
	t.mu.Lock()
	refused := t.refused
	t.mu.Unlock()
	if refused != nil || len(messages) == 0 {
		return refused
	}
	entries := make([]sqstypes.DeleteMessageBatchRequestEntry, len(messages))
	for i := range messages {
		entries[i] = sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: messages[i].ReceiptHandle}
	}
	url, queues := t.queue.url, t.sqs // the next turn may replace them
	t.slots <- struct{}{}
	t.deleting.Go(func() {
		defer func() { <-t.slots }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		defer cancel()
		_, err := queues.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: entries}, inRegionOf(url))
		if err != nil && isDenied(err) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.refused = t.denied(fmt.Errorf("delete from the event queue %s: %w", url, err))
		}
	})
	return nil
}

// explain says what to do about an error, and marks those that waiting does
// not mend.
func (t *tap) explain(what string, err error) error {
	q := t.queue
	name := q.url
	if name == "" {
		name = q.name
	}
	full := fmt.Errorf("%s %s: %w", what, name, err)
	var gone *sqstypes.QueueDoesNotExist
	switch code := apiCode(err); {
	case errors.As(err, &gone) || code == "AWS.SimpleQueueService.NonExistentQueue":
		if q.name != "" {
			q.url = "" // it may come back under the same name
		}
		q.reading.retention = 0
		return &setupError{withHint(full, fmt.Sprintf("create it in account %s, region %s, or configure another (docs/events.md)", t.scope.Account, t.scope.Region))}
	case isDenied(err):
		return t.denied(full)
	case strings.HasPrefix(code, "Kms") && code != "KmsThrottled", code == "InvalidAddress", code == "UnsupportedOperation", code == "InvalidSecurity":
		return &setupError{withHint(full, "see docs/events.md on how the queue is to be set up")}
	}
	return full
}

func (t *tap) denied(err error) error {
	who := "Holdfast"
	if t.scope.Identity != "" {
		who = "the identity " + t.scope.Identity
	}
	return &setupError{withHint(err, "allow sqs:GetQueueUrl, sqs:ReceiveMessage and sqs:DeleteMessage on it to "+who+", and kms:Decrypt where it is encrypted with a key of your own (docs/events.md)")}
}

func isDenied(err error) bool {
	switch apiCode(err) {
	case "AccessDenied", "AccessDeniedException", "KmsAccessDenied", "KMS.AccessDeniedException":
		return true
	}
	return false
}

// inRegionOf sends a call to the region that the queue's URL names: a queue
// may be elsewhere than what it tells of.
func inRegionOf(queueURL string) func(*sqs.Options) {
	return func(o *sqs.Options) {
		u, err := url.Parse(queueURL)
		if err != nil {
			return
		}
		// sqs.eu-west-1.amazonaws.com, sqs.cn-north-1.amazonaws.com.cn
		if labels := strings.Split(u.Hostname(), "."); len(labels) > 3 && labels[0] == "sqs" && labels[2] == "amazonaws" {
			o.Region = labels[1]
		}
	}
}
