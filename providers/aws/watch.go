package aws

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-io/holdfast/providers"
)

// Events says through which SQS queues the events of each account and region
// come. The zero value watches nothing.
type Events struct {
	// QueueName is the name of a queue that each watched account and region has
	// of its own. It is looked up there, by the identity that reads there.
	QueueName string
	// Queues are the URLs of queues by "ACCOUNT/REGION", where they are not
	// called QueueName or are in another account or region. Several places may
	// share one.
	Queues map[string]string
}

// WithEvents makes [Provider.Watch] work.
func WithEvents(e Events) Option {
	return func(p *Provider) { p.watching.events = e }
}

var (
	// Names of standard queues (Amazon SQS API, CreateQueue): a FIFO queue can
	// be no target of the default event bus's rules in every region, and would
	// serialise what needs no order.
	queueNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	queuePlace = regexp.MustCompile(`^[0-9]{12}/[a-z0-9-]+$`)
)

// Validate says what is wrong with the configuration, before any call is made.
func (e Events) Validate() error {
	if e.QueueName != "" && !queueNames.MatchString(e.QueueName) {
		return fmt.Errorf("event queue name %q: want 1 to 80 of A-Z, a-z, 0-9, - and _ (a standard queue; a queue elsewhere goes into the queues by place)", e.QueueName)
	}
	for place, address := range e.Queues {
		if !queuePlace.MatchString(place) {
			return fmt.Errorf("event queue of %q: want ACCOUNT/REGION, such as 123456789012/eu-central-1", place)
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") == "" {
			return fmt.Errorf("event queue of %s: %q is no queue URL: want https://sqs.REGION.amazonaws.com/ACCOUNT/NAME", place, providers.Redact(address))
		}
	}
	return nil
}

// watching is all that a Provider knows of events. The zero value is ready.
type watching struct {
	events Events
	counts eventCounter

	mu sync.Mutex
	// queues by what the configuration says of them. They are kept when nobody
	// watches any more, so that who comes back learns what may be lost.
	queues map[string]*queue
	// related has, for each scope, what a change to a resource may also show
	// in.
	related map[providers.Scope]*relations
}

// queue is one SQS queue. Scopes of several identities in one account and
// region share it, and so may several places: whoever holds the turn reads for
// all of them, since a message is given out once.
type queue struct {
	// url is empty until the queue has been looked up by its name. Only the
	// holder of the turn uses url and reading.
	url, name string
	turn      chan struct{}
	reading   reading

	mu        sync.Mutex
	listeners map[*listener]struct{}
}

// listener is one call of Watch.
type listener struct {
	scope providers.Scope
	arn   string
	tell  func(providers.Event)
}

// Watch implements [providers.Watcher] by way of EventBridge and SQS; see
// docs/events.md for what must be set up. A message is deleted only after it
// was told, so that events are told at least once.
func (p *Provider) Watch(ctx context.Context, scope providers.Scope, tell func(providers.Event)) error {
	q, err := p.watching.queueOf(scope)
	if err != nil {
		return fmt.Errorf("watch %s: %w", scope, err)
	}
	l := &listener{scope: scope, tell: tell}
	if s, err := p.sessionOf(ctx, scope); err == nil {
		l.arn = s.arn
	}
	q.join(l)
	defer q.leave(l)
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return nil
	}
	if err := p.read(ctx, q, scope); err != nil {
		return fmt.Errorf("watch %s: %w", scope, err)
	}
	return nil
}

func (w *watching) queueOf(scope providers.Scope) (*queue, error) {
	if scope.Provider != Name {
		return nil, fmt.Errorf("the scope is not of provider %s", Name)
	}
	place := scope.Account + "/" + scope.Region
	made := &queue{url: w.events.Queues[place], turn: make(chan struct{}, 1), listeners: map[*listener]struct{}{}}
	key := made.url
	if key == "" {
		made.name = w.events.QueueName
		key = place
		if made.name == "" {
			return nil, fmt.Errorf("%w: no event queue is named for %s", providers.ErrNotWatched, place)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues == nil {
		w.queues = map[string]*queue{}
	}
	if w.queues[key] == nil {
		w.queues[key] = made
	}
	return w.queues[key], nil
}

func (q *queue) join(l *listener) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.listeners[l] = struct{}{}
}

func (q *queue) leave(l *listener) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.listeners, l)
}

// tellAll tells every listener. The lock is what keeps tell from being called
// twice at once, or after Watch returned.
func (q *queue) tellAll(event func(*listener) (providers.Event, bool)) (told int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for l := range q.listeners {
		if e, ok := event(l); ok {
			l.tell(e)
			told++
		}
	}
	return told
}

// gap tells everyone that messages may be lost.
func (q *queue) gap(e providers.Event) {
	e.Gap = true
	q.tellAll(func(*listener) (providers.Event, bool) { return e, true })
}

// permanent reports whether watching cannot work until somebody repairs what
// the error is about: the queue, a permission, the configuration.
func permanent(err error) bool {
	var setup *setupError
	if errors.As(err, &setup) {
		return true
	}
	var scope *providers.ScopeError
	if !errors.As(err, &scope) {
		return false
	}
	switch scope.Reason {
	case providers.ReasonWrongAccount, providers.ReasonForbidden, providers.ReasonInvalidSpec:
		return true
	}
	return false
}

// setupError says what is to be set up, or put right.
type setupError struct{ err error }

func (e *setupError) Error() string { return e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }
